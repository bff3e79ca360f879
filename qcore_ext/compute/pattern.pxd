"""Kernels of LIKE, ILIKE, starts_with, ends_with and contains."""

from qcore_ext.compute.kernel cimport Step

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations. The
# caller has set step.flags.
cdef bint pattern_bind(Step* step, str name, dict options) except -1
