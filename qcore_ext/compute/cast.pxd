"""Kernels that convert values from one type to another."""

from qcore_ext.compute.kernel cimport Step

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations. step.p1
# is 1 for try_cast.
cdef bint cast_bind(Step* step, str name, dict options) except -1
