"""Kernels of + - * / % and of functions from numbers to numbers."""

from qcore_ext.compute.kernel cimport Step

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations.
cdef bint arithmetic_bind(Step* step, str name, dict options) except -1
