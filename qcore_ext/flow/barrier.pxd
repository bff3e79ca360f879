"""Members of a barrier, and how many have left it.

Every operator leaves each barrier it joined exactly once, by finish, abandon or close. The barrier counts its leavers
to know when all have left. Each member counts its own, so that checked mode can name one that left twice or never.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_fetch_add, qc_load


ctypedef struct Membership:
    # An operator's part in its barriers. Joined before it runs, then touched by its driver alone.
    int64_t n_joined
    int64_t n_left
    int64_t n_too_many          # barriers it left that had no member left


ctypedef struct Barrier:
    int64_t n_members           # declared when the barrier was made
    int64_t n_left              # atomic


cdef inline void barrier_join(Membership* member) noexcept nogil:
    """Count a barrier that the member joined; the barrier's own count was declared when it was made."""
    member.n_joined += 1


cdef inline int64_t barrier_leave(Barrier* barrier, Membership* member) noexcept nogil:
    """Leave the barrier; return the number of members still in it."""
    cdef int64_t left = qc_fetch_add(&barrier.n_left, 1) + 1
    if member != NULL:
        member.n_left += 1
        if left > barrier.n_members:
            member.n_too_many += 1
    return barrier.n_members - left


cdef inline bint barrier_is_empty(const Barrier* barrier) noexcept nogil:
    """Return whether all members have left."""
    return qc_load(&barrier.n_left) >= barrier.n_members
