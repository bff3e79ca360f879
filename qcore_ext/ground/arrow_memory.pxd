"""What pyarrow's allocator keeps of memory that nobody uses. SPEC V7."""

# Give back what pyarrow's pool keeps for this thread: its allocator frees each thread's memory on that thread.
cdef void release_arrow_memory() noexcept nogil
