"""A wait token that a thread sleeps on: how the world outside waits for the engine. Floor E0."""

from libc.stdint cimport int64_t

from qcore_ext.ground.condition cimport Condition
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.wait_token cimport WaitToken


ctypedef struct ThreadToken:
    WaitToken token             # first: a ThreadToken* is a WaitToken*
    Mutex mutex
    Condition condition
    bint fired


cdef ThreadToken* thread_token_new() except NULL nogil
# Sleep until the token fires, consuming that, or `nanos` are over. True when it fired.
cdef bint thread_token_sleep(ThreadToken* self, int64_t nanos) noexcept nogil
# Sleep with the GIL given up, in slices, so that Ctrl-C is heard on the main thread (KeyboardInterrupt is raised).
# Returns 1 when the token fired, 0 when `nanos` are over; nanos < 0: no bound.
cdef int thread_token_wait(ThreadToken* self, int64_t nanos) except -1
