"""Waiting for a Python future: of concurrent.futures, of asyncio, or any object with add_done_callback."""

from qcore_ext.ground.wait_token cimport WaitToken


cdef class FutureWait:
    """Owned by one operator. `begin` and `poll` need the GIL."""
    cdef object future
    cdef readonly int reason            # BlockReason
    cdef WaitToken* registered          # owned; the token that the future fires, or NULL

    # `blocked` has `reason` (a BlockReason or its name) and `future`. Raises TypeError if it has not.
    cdef int begin(self, object blocked) except -1
    # True if there is nothing to wait for; else the future will fire `token`. Raises the future's exception.
    cdef bint poll(self, WaitToken* token) except -1
    cdef void forget(self) noexcept
