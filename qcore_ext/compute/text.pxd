"""Kernels from text to text, and to lengths and positions."""

from qcore_ext.compute.kernel cimport Step

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these.
cdef bint text_bind(Step* step, str name, dict options) except -1
