"""Kernels of dates, timestamps and intervals."""

from qcore_ext.compute.kernel cimport Step

# Set step.kernel and its parameters for the operation `name`. Returns False if it is none of these operations.
cdef bint temporal_bind(Step* step, str name, dict options) except -1
