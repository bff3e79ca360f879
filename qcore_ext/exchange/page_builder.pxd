"""Pages of a task's output: rows are collected by partition until a page is full.

A page owns its memory. String bytes are copied, so a page that waits keeps no input alive, and the limit of the output
buffer counts all memory that is held. The rows of a vector are ordered by partition. Then each column is copied to the
pages run by run (bench/kernels/partitioning.py).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account, Buffer, MemoryAccount, OwnerList


ctypedef struct OpenPage:
    int64_t partition           # -1: the slot is free
    int64_t n_rows
    Buffer** values             # each owned; by column; NULL if the column has no values to store
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


ctypedef struct PageRuns:
    # The rows of a vector, ordered by partition. Each run goes to one page.
    int64_t n
    uint32_t rows[VECTOR_ROWS]
    uint32_t ends[VECTOR_ROWS]          # where each run ends in `rows`
    int32_t slots[VECTOR_ROWS]          # slot of the page of each run
    uint32_t positions[VECTOR_ROWS]     # position of its first row in the page
    char* out[VECTOR_ROWS]              # of its first value, for one column at a time


cdef class PageBuilder:
    """Belongs to one operator: the open pages of all partitions, and the full pages."""
    cdef Account memory
    cdef MemoryAccount* account         # memory's, borrowed
    cdef CSchema* schema                # owned; of all open pages
    cdef int64_t n_partitions
    cdef int64_t page_bytes
    cdef int32_t n_columns
    cdef int64_t capacity               # rows of a page
    cdef int64_t n_slots
    cdef OpenPage* slots                # owned
    cdef Buffer** held                  # owned; the array that the slots' values and validity are parts of
    cdef char** bases                   # owned; n_slots for each column: start of its values in each page
    cdef int32_t* slot_of               # owned; by partition: slot of its open page, or -1
    cdef int32_t* free_slots            # owned
    cdef int64_t n_free
    cdef int32_t* filled                # owned; slots whose pages are full
    cdef int64_t n_filled
    cdef FullPage* full                 # owned; a ring
    cdef int64_t full_capacity
    cdef int64_t full_head
    cdef int64_t n_full
    cdef VectorScratch* scratch         # owned
    cdef OwnerList** parts              # owned; by partition: batches of its rows; NULL unless a column is nested
    cdef int64_t* part_rows             # owned

    # Set a new schema. Open pages of the old one become full pages.
    cdef int bind(self, CSchema* schema) except -1 nogil
    # Append n <= VECTOR_ROWS selected rows from `start` on, a multiple of 8.
    cdef int append(self, Batch* batch, int64_t start, int64_t n, const uint16_t* partitions) except -1 nogil
    # False: no page is full. Otherwise the caller owns page.batch.
    cdef bint take_full(self, FullPage* page) noexcept nogil
    # Turn every open page into a full one.
    cdef int close_pages(self) except -1 nogil
    cdef void release(self) noexcept nogil

    cdef int lay_out(self) except -1 nogil
    cdef void drop_layout(self) noexcept nogil
    cdef int32_t open_page(self, int64_t partition) except -1 nogil
    cdef int assign_pages(self, const uint16_t* partitions, int64_t n, PageRuns* runs) except -1 nogil
    cdef void note_filled(self, OpenPage* page) noexcept nogil
    cdef int scatter_column(self, int32_t column, const Vector* vector, int64_t n, PageRuns* runs) except -1 nogil
    cdef int clear_nulls(self, int32_t column, const Vector* vector, const PageRuns* runs) except -1 nogil
    cdef int close_page(self, int32_t slot) except -1 nogil
    cdef Batch* page_batch(self, OpenPage* page, int64_t* n_bytes) except NULL nogil
    cdef int add_full(self, int64_t partition, Batch* batch, int64_t n_bytes) except -1 nogil
    cdef int append_parts(self, Batch* batch, int64_t start, int64_t n, const uint16_t* partitions) except -1 nogil
    cdef int close_part(self, int64_t partition) except -1 nogil
