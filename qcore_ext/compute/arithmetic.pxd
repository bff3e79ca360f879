"""Kernels of + - * / % and of functions from numbers to numbers."""

from qcore_ext.compute.kernel cimport Step

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these.
cdef bint arithmetic_bind(Step* step, str name, dict options) except -1
