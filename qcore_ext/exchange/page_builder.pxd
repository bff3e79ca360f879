"""Pages of a task's output: rows collected by partition until there are enough. SPEC V11, H1.

A page owns its memory: string bytes are copied, so that a page that waits keeps no input alive and back-pressure
counts all memory held. Columns are scattered one at a time, every row to its position in its partition's page, with
the line after next fetched ahead (bench/kernels/partitioning.py).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Vector, VectorScratch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account, Buffer, MemoryAccount, OwnerList


ctypedef struct OpenPage:
    int64_t partition           # -1: the slot is free
    int64_t n_rows
    Buffer** values             # each owned; one a column, NULL where there is nothing to store
    Buffer** validity           # each owned; NULL until the first null
    OwnerList* heap             # owned; buffers with the bytes of long strings
    char* heap_cursor
    char* heap_end
    int64_t heap_bytes
    bint is_filled


ctypedef struct FullPage:
    int64_t partition
    int64_t n_bytes             # of memory the page holds
    Batch* batch                # owned


cdef class PageBuilder:
    """One operator's: open pages of all partitions, and those that are full."""
    cdef Account memory
    cdef MemoryAccount* account         # memory's, borrowed
    cdef CSchema* schema                # owned; of all open pages
    cdef int64_t n_partitions
    cdef int64_t page_bytes
    cdef int32_t n_columns
    cdef int64_t capacity               # rows of a page
    cdef int64_t n_slots
    cdef OpenPage* slots                # owned
    cdef Buffer** held                  # owned; what the slots' values and validity are parts of
    cdef char** bases                   # owned; n_slots a column: where its values begin in each page
    cdef int32_t* slot_of               # owned; a partition's page, -1: none
    cdef int32_t* free_slots            # owned
    cdef int64_t n_free
    cdef int32_t* filled                # owned; slots whose pages take no more
    cdef int64_t n_filled
    cdef FullPage* full                 # owned; a ring
    cdef int64_t full_capacity
    cdef int64_t full_head
    cdef int64_t n_full
    cdef VectorScratch* scratch         # owned
    cdef OwnerList** parts              # owned; rows of each partition as they came; NULL unless a column is nested
    cdef int64_t* part_rows             # owned

    # A new schema: open pages become full ones first.
    cdef int bind(self, CSchema* schema) except -1 nogil
    # Take n <= VECTOR_ROWS rows of those that count, from `start`, a multiple of 8, on.
    cdef int append(self, Batch* batch, int64_t start, int64_t n, const uint16_t* partitions) except -1 nogil
    # False when no page is full; else the caller owns page.batch.
    cdef bint take_full(self, FullPage* page) noexcept nogil
    # Make every open page a full one.
    cdef int close_pages(self) except -1 nogil
    cdef void release(self) noexcept nogil

    cdef int lay_out(self) except -1 nogil
    cdef void drop_layout(self) noexcept nogil
    cdef int32_t open_page(self, int64_t partition) except -1 nogil
    cdef int assign_positions(
        self, const uint16_t* partitions, int64_t n, uint16_t* slots, uint32_t* positions,
    ) except -1 nogil
    cdef void note_filled(self, OpenPage* page) noexcept nogil
    cdef int scatter_column(
        self, int32_t column, const Vector* vector, const uint16_t* slots, const uint32_t* positions, int64_t n,
    ) except -1 nogil
    cdef int clear_nulls(
        self, int32_t column, const Vector* vector, const uint16_t* slots, const uint32_t* positions, int64_t n,
    ) except -1 nogil
    cdef int close_page(self, int32_t slot) except -1 nogil
    cdef Batch* page_batch(self, OpenPage* page, int64_t* n_bytes) except NULL nogil
    cdef int add_full(self, int64_t partition, Batch* batch, int64_t n_bytes) except -1 nogil
    cdef int append_parts(self, Batch* batch, int64_t start, int64_t n, const uint16_t* partitions) except -1 nogil
    cdef int close_part(self, int64_t partition) except -1 nogil
