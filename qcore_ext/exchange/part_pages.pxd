"""Pages of radix parts: rows for consumers that group them by part.

A consumer of a hash exchange with many groups partitions its rows again, by hash, so that the groups of one part stay
in the cache (aggregate/radix_groups). Here a producer partitions its rows so once. Each page has the rows of one part,
and each part belongs to one consumer. The consumer adds a page to the groups of its part.

The pages share the memory of the part buffers that the rows were scattered into. When the buffer of one part is full
the buffers of all parts become pages, and new ones are begun.
"""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column, Vector, VectorScratch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.exchange.hash_partitioner cimport HashPartitioner
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.rows.part_buffers cimport RADIX_PARTS, PartBuffers, PartColumn


cdef class PartPages:
    """Belongs to one operator: the rows of open pages, and the full pages."""
    cdef MemoryAccount* account         # borrowed
    cdef CSchema* schema                # owned; of the rows
    cdef PartBuffers* buffers           # owned; NULL before begin
    cdef Vector* vectors                # owned; one a column
    cdef VectorScratch* scratch         # owned; one a column
    cdef Batch** pages                  # owned; RADIX_PARTS; those from `next` to `n_pages` are owned too
    cdef int64_t next
    cdef int64_t n_pages
    cdef int64_t n_rows                 # number of rows in the buffers
    cdef bint is_skewed                 # one part filled its buffer while the others had few rows

    # Prepare for pages of at most `page_rows` rows of this schema. Returns False if there can be none: a column has
    # text or nested values, or memory is short.
    cdef bint begin(self, MemoryAccount* account, CSchema* schema, int64_t page_rows) except -1 nogil
    # Add the selected rows of a batch from `start` on, until all are added or pages are full. Returns the number added.
    cdef int64_t add(self, Batch* batch, int64_t start, HashPartitioner partitioner) except -1 nogil
    # Make pages of all rows. There must be no page.
    cdef int close_pages(self) except -1 nogil
    # The next full page, borrowed until page_taken; NULL: there is none.
    cdef Batch* first_page(self) noexcept nogil
    cdef void page_taken(self) noexcept nogil
    cdef void release(self) noexcept nogil
    cdef Buffer* pack_validity(self, PartColumn* column) except NULL nogil
    cdef Batch* page_of(self, int64_t part, Buffer** validity) except NULL nogil
