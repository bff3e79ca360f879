"""Kernels of LIKE, ILIKE and tests for what a text begins with, ends with or contains."""

from qcore_ext.compute.kernel cimport Step

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these. step.flags are set
# before.
cdef bint pattern_bind(Step* step, str name, dict options) except -1
