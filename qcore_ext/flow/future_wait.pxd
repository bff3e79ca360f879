"""Waiting for a future of Python's world: concurrent.futures, asyncio, or anything with add_done_callback."""

from qcore_ext.ground.wait_token cimport WaitToken


cdef class FutureWait:
    """Owned by one operator. `begin` and `poll` need the GIL."""
    cdef object future
    cdef readonly int reason            # BlockReason
    cdef WaitToken* registered          # owned; the token that the future fires, or NULL

    # `blocked` has `reason` (a BlockReason or its name) and `future`; TypeError when it has not.
    cdef int begin(self, object blocked) except -1
    # True when there is nothing to wait for; the future's exception is raised. Else `token` will be fired.
    cdef bint poll(self, WaitToken* token) except -1
    cdef void forget(self) noexcept
