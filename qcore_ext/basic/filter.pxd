"""Rows that meet a condition."""

from libc.stdint cimport int64_t

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch
from qcore_ext.flow.operator cimport Operator


cdef class Filter(Operator):
    cdef object compile
    cdef Evaluator evaluator        # of the schema last bound
    cdef Batch* pending             # owned; the answer to the last input
    cdef bint finishing

    cdef int make_evaluator(self) except -1
