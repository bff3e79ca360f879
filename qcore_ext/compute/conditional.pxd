"""Kernels that choose among their arguments row by row: CASE and COALESCE."""

from qcore_ext.compute.kernel cimport Step

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations.
cdef bint conditional_bind(Step* step, str name, dict options) except -1
