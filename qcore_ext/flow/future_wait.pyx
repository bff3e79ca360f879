"""Waiting for a Python future: of concurrent.futures, of asyncio, or any object with add_done_callback."""

from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref
from qcore_ext.ground.stats cimport N_BLOCK_REASONS, NOT_BLOCKED, WAIT_FOR_CONSUMER
from qcore_ext.ground.wait_token cimport WaitToken, wait_token_fire

from qcore_ext.ground.error_text import class_name, show_value
from qcore_ext.ground.stats import REASON_NAMES
from qcore_ext.ground.status import ExecutionError


cdef class TokenWaker:
    """Callback of a future that fires a token."""
    cdef WaitToken* token

    def __dealloc__(self):
        owner_unref(<Owner*> self.token)

    def __call__(self, future=None):
        with nogil:
            wait_token_fire(self.token)


def reason_number(reason):
    """Return the BlockReason of a number, or of a name of ground.stats.REASON_NAMES."""
    if isinstance(reason, str):
        name = reason.lower().removeprefix("wait_for_")
        if name in REASON_NAMES[1:]:
            return REASON_NAMES.index(name)
    elif isinstance(reason, int) and NOT_BLOCKED < reason < N_BLOCK_REASONS:
        return int(reason)
    elif reason is None:
        return WAIT_FOR_CONSUMER
    raise TypeError(f"{show_value(reason)} is not a block reason; the reasons are {', '.join(REASON_NAMES[1:])}")


cdef class FutureWait:

    def __dealloc__(self):
        owner_unref(<Owner*> self.registered)

    cdef int begin(self, object blocked) except -1:
        future = getattr(blocked, "future", None)
        if not hasattr(future, "add_done_callback"):
            raise TypeError(
                "blocking needs an object with a reason and a future that has add_done_callback, not "
                f"{show_value(blocked)}"
            )
        self.reason = reason_number(getattr(blocked, "reason", None))
        self.future = future
        return 0

    cdef bint poll(self, WaitToken* token) except -1:
        cdef TokenWaker waker
        if self.future is None:
            return True
        token.n_registered += 1         # it is registered now, or was by an earlier poll
        if self.registered != token and not self.future.done():
            waker = TokenWaker()
            waker.token = <WaitToken*> owner_ref(<Owner*> token)
            if hasattr(self.future, "get_loop"):
                # A future of asyncio may be touched only on its loop's thread.
                self.future.get_loop().call_soon_threadsafe(self.future.add_done_callback, waker)
            else:
                self.future.add_done_callback(waker)
            owner_ref(<Owner*> token)
            owner_unref(<Owner*> self.registered)
            self.registered = token
        if not self.future.done():
            return False
        finished = self.future
        self.forget()
        try:
            finished.result()
        except BaseException as error:
            if class_name(type(error)) == "CancelledError":
                # asyncio's CancelledError is not an Exception. The future was cancelled, not the query.
                raise ExecutionError("the future it waited for was cancelled") from error
            raise
        return True

    cdef void forget(self) noexcept:
        self.future = None
        owner_unref(<Owner*> self.registered)
        self.registered = NULL
