"""The bytes that an account and its parents may still reserve."""

from libc.stdint cimport INT64_MAX, int64_t

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.memory cimport MemoryAccount


cdef inline int64_t bytes_left(MemoryAccount* account) noexcept nogil:
    cdef int64_t left = INT64_MAX
    while account != NULL:
        if account.limit > 0:
            left = min(left, account.limit - qc_load(&account.reserved))
        account = account.parent
    return left
