"""Unused memory in the allocator of pyarrow."""

import sys


cdef void release_arrow_memory() noexcept nogil:
    with gil:
        pyarrow = sys.modules.get("pyarrow")
        try:
            if pyarrow is not None:
                pyarrow.default_memory_pool().release_unused()
        except Exception:
            pass        # pyarrow is half imported, or the application set another pool
