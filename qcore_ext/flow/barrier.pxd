"""Who takes part in a barrier, and who has left it.

Every operator leaves each barrier it joined exactly once, by finish, abandon or close. Both sides count: the barrier,
to know when all have left; the member, so that checked mode can name one that left twice or never.
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
    """A member is made; how many come is the barrier's to know."""
    member.n_joined += 1


cdef inline int64_t barrier_leave(Barrier* barrier, Membership* member) noexcept nogil:
    """How many members are still in it."""
    cdef int64_t left = qc_fetch_add(&barrier.n_left, 1) + 1
    if member != NULL:
        member.n_left += 1
        if left > barrier.n_members:
            member.n_too_many += 1
    return barrier.n_members - left


cdef inline bint barrier_is_empty(const Barrier* barrier) noexcept nogil:
    """Whether all have left."""
    return qc_load(&barrier.n_left) >= barrier.n_members
