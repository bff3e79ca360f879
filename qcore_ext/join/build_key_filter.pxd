"""Drops rows of a source whose key no build row of a join has."""

from libc.stdint cimport int64_t

from qcore_ext.data.column cimport Column
from qcore_ext.data.row_filter cimport RowFilter
from qcore_ext.data.schema cimport CSchema
from qcore_ext.join.bridge cimport JoinBridge
from qcore_ext.join.table cimport JoinLookup, JoinTable


cdef class BuildKeyFilter(RowFilter):
    cdef JoinBridge bridge
    cdef JoinTable* table           # owned; NULL before the filter is open
    cdef JoinLookup lookup
    cdef Column** keys              # owned array; borrowed columns of the current batch

    cdef bint has_types_of(self, const CSchema* schema) noexcept nogil
