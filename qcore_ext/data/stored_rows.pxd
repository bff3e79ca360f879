"""Rows of a table in memory, which drivers read without the GIL."""

from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.row_check cimport RowCheck
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.memory cimport MemoryAccount, Owner


cdef struct StoredPiece:
    # One batch of the stream that was stored. Not counted by struct_new: it lives as long as the table.
    Owner owner
    ArrowArray array            # owned
    int64_t start               # the number of its first row among all rows


cdef class StoredRows:
    cdef StoredPiece** pieces   # each owned
    cdef int64_t n_pieces
    cdef int64_t capacity
    cdef readonly int64_t n_rows
    cdef readonly bint is_checked
    cdef ArrowSchema layout     # owned
    cdef RowCheck** checks      # owned, one for each column of each piece; NULL where nothing is checked. NULL: nowhere
    cdef bint has_schema(self, CSchema* schema) except -1
    cdef int fill(self, source) except -1
    cdef int add_piece(self, ArrowArray* array) except -1
    cdef bint find_checks(self, row_checks) except -1
    # At most n rows, from row `start` on, in a batch of that schema, which has the rows' types. Fewer at a piece's end.
    cdef Batch* read(self, int64_t start, int64_t n, CSchema* schema, MemoryAccount* account) except NULL nogil
