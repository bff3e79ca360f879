"""Exceptions of the engine, and how code without the GIL raises them."""

# Each raises and returns -1, taking the GIL only then. `message` is a NUL-terminated C string, copied.
cdef int raise_execution(const char* message) except -1 nogil
cdef int raise_plan(const char* message) except -1 nogil
cdef int raise_memory_limit(const char* message) except -1 nogil
cdef int raise_schema_change(const char* message) except -1 nogil
