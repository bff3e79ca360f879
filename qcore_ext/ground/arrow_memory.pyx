"""What pyarrow's allocator keeps of memory that nobody uses. SPEC V7."""

import sys


cdef void release_arrow_memory() noexcept nogil:
    with gil:
        pyarrow = sys.modules.get("pyarrow")
        try:
            if pyarrow is not None:
                pyarrow.default_memory_pool().release_unused()
        except Exception:
            pass        # half imported, or another pool: nothing is lost
