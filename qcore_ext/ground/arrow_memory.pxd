"""Unused memory in the allocator of pyarrow."""

# Return the memory that pyarrow's pool keeps unused for this thread to the system. Each thread has its own such memory.
cdef void release_arrow_memory() noexcept nogil
