"""Kernels that turn values of one type into another."""

from qcore_ext.compute.kernel cimport Step

# Fill step.kernel and its parameters for the operation `name`; False when it is none of these. step.p1 is set for
# try_cast.
cdef bint cast_bind(Step* step, str name, dict options) except -1
