"""Kernels that choose among their arguments row by row: CASE and COALESCE."""

from qcore_ext.compute.kernel cimport Step

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these.
cdef bint conditional_bind(Step* step, str name, dict options) except -1
