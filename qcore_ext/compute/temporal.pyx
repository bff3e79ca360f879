"""Stand-in. Floor E2."""
from qcore_ext.compute.kernel cimport Step
cdef bint temporal_bind(Step* step, str name, dict options) except -1:
    return False
