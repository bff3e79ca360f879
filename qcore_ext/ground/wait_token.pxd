"""Wake-ups: how a resource brings a waiting driver back. Floor E0.

A blocked operator (1) adds its driver's token to the resource's wait list, (2) checks the resource again, (3) answers
BLOCKED. Whoever makes the resource ready takes the list under the resource's lock and fires it after unlocking, so that
no wake-up runs under a lock (Velox #4111). Firing early, late, twice or from any thread is harmless: a driver that is
woken for nothing asks its operators again.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref


ctypedef struct WaitToken:
    Owner owner
    void (*notify)(WaitToken* self) noexcept nogil      # set by who runs drivers; coalesces
    void* context                                       # the scheduler's
    int64_t state                                       # the scheduler's


cdef inline void wait_token_fire(WaitToken* token) noexcept nogil:
    token.notify(token)


ctypedef struct WaitList:
    # Zero-initialised is empty. The resource's lock guards it.
    WaitToken** tokens          # each owned
    int64_t n_tokens
    int64_t capacity

cdef int wait_list_add(WaitList* waiting, WaitToken* token) except -1 nogil     # one already there is not added again
# Move all tokens of `waiting` to `taken` (empty before); then, outside the lock, wait_list_fire(&taken).
cdef void wait_list_take(WaitList* waiting, WaitList* taken) noexcept nogil
cdef void wait_list_fire(WaitList* taken) noexcept nogil        # fires, drops and frees
cdef void wait_list_clear(WaitList* waiting) noexcept nogil     # drops without firing
