"""Cache lines asked for before they are written."""


cdef extern from "native/prefetch.h" nogil:
    void qc_prefetch_write(const void* address)


cdef enum:
    # Rows between asking for a line and writing it.
    PREFETCH_ROWS = 16
