"""Wake-ups: how a resource brings a waiting driver back.

A blocked operator (1) adds its driver's token to the resource's wait list, (2) checks the resource again, (3) answers
BLOCKED. Whoever makes the resource ready takes the list under the resource's lock and fires it after unlocking, so that
no wake-up runs under a lock (Velox #4111). Firing early, late, twice or from any thread is harmless: a driver that is
woken for nothing asks its operators again.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref


ctypedef struct WaitToken:
    Owner owner
    void (*notify)(WaitToken* self) noexcept nogil      # set by who runs drivers; coalesces
    void* context                                       # the scheduler's
    int64_t state                                       # the scheduler's
    int64_t n_registered        # times its driver left it somewhere; checked mode looks for that in a call that blocks


cdef inline void wait_token_fire(WaitToken* token) noexcept nogil:
    token.notify(token)


ctypedef struct WaitList:
    # Zero-initialised is empty. The resource's lock guards it.
    WaitToken** tokens          # each owned
    int64_t n_tokens
    int64_t capacity

# As wait_list_add, below a lock that threads with the GIL take too; what to raise then, outside of it, or NULL.
cdef const char* wait_list_try_add(WaitList* waiting, WaitToken* token) noexcept nogil
cdef int wait_list_add(WaitList* waiting, WaitToken* token) except -1 nogil     # one already there is not added again
# Move all tokens of `waiting` to `taken` (empty before); then, outside the lock, wait_list_fire(&taken).
cdef void wait_list_take(WaitList* waiting, WaitList* taken) noexcept nogil
cdef void wait_list_fire(WaitList* taken) noexcept nogil        # fires, drops and frees
cdef void wait_list_clear(WaitList* waiting) noexcept nogil     # drops without firing


cdef enum:
    WAIT_CHUNK = 8


ctypedef struct WaitSlot:
    WaitToken* token            # owned; set once, NULL before
    int64_t waiting             # atomic


ctypedef struct WaitChunk:
    WaitSlot slots[WAIT_CHUNK]
    WaitChunk* next


ctypedef struct WaitSet:
    # Wait list without a lock, for where polls pass by. A token gets a slot the first time and keeps it until the set
    # is cleared: a resource is waited for by the same few drivers again and again. Zero-initialised is empty.
    WaitChunk first
    int64_t n_waiting           # atomic; slots that wait

# After adding, check the resource again: whoever made it ready before may have seen nobody wait.
cdef int wait_set_add(WaitSet* waiting, WaitToken* token) except -1 nogil
cdef void wait_set_remove(WaitSet* waiting, WaitToken* token) noexcept nogil    # need not be fired any more
cdef void wait_set_fire_all(WaitSet* waiting) noexcept nogil
cdef void wait_set_clear(WaitSet* waiting) noexcept nogil       # when nobody uses it any more

cdef inline void wait_set_fire(WaitSet* waiting) noexcept nogil:
    """After a sequentially consistent change of the resource."""
    if qc_load(&waiting.n_waiting) > 0:
        wait_set_fire_all(waiting)
