"""Kernels of mathematical functions, of rounding to digits that differ by row, and of bits."""

from qcore_ext.compute.kernel cimport Step


cdef bint numeric_bind(Step* step, str name, dict options) except -1
