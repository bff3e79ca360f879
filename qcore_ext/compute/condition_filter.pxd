"""Drops rows of a source that fail a condition."""

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.row_filter cimport RowFilter


cdef class ConditionFilter(RowFilter):
    cdef object compile
    cdef Evaluator evaluator        # None before the filter is open, or if it never will be
