"""Kernels of mathematical functions, of rounding to a number of digits that is a column, and of bits."""

from qcore_ext.compute.kernel cimport Step


cdef bint numeric_bind(Step* step, str name, dict options) except -1
