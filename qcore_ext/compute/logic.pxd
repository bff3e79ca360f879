"""Kernels of three-valued logic: AND, OR, NOT and tests for null and truth."""

from qcore_ext.compute.kernel cimport Step

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these.
cdef bint logic_bind(Step* step, str name, dict options) except -1
