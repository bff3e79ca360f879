"""Kernels from text to text, and to lengths and positions."""

from qcore_ext.compute.kernel cimport Step

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations.
cdef bint text_bind(Step* step, str name, dict options) except -1
