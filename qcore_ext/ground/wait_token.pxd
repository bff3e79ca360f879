"""Wake-ups: how a resource wakes a blocked driver.

A blocked operator (1) adds its driver's token to the resource's wait list, (2) checks the resource again, (3) answers
BLOCKED. The thread that makes the resource ready takes the list under the resource's lock and fires it after unlocking,
so that no wake-up runs under a lock (Velox #4111). Firing early, late, twice or from any thread is harmless: the driver
asks its operators again.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref


ctypedef struct WaitToken:
    Owner owner
    void (*notify)(WaitToken* self) noexcept nogil      # set by the scheduler; several calls may count as one
    void* context                                       # used by the scheduler
    int64_t state                                       # used by the scheduler
    int64_t n_registered        # times it was added to a list or set; checked mode compares it around calls


cdef inline void wait_token_fire(WaitToken* token) noexcept nogil:
    token.notify(token)


ctypedef struct WaitList:
    # A zeroed struct is an empty list. The resource's lock guards it.
    WaitToken** tokens          # each owned
    int64_t n_tokens
    int64_t capacity

# wait_list_add for use under a lock that threads with the GIL take too. Returns NULL, or the message of the
# MemoryLimitError to raise after unlocking.
cdef const char* wait_list_try_add(WaitList* waiting, WaitToken* token) noexcept nogil
# Does nothing if the token is in the list already.
cdef int wait_list_add(WaitList* waiting, WaitToken* token) except -1 nogil
# Move all tokens of `waiting` to `taken`, which is empty before. Then call wait_list_fire(&taken) outside the lock.
cdef void wait_list_take(WaitList* waiting, WaitList* taken) noexcept nogil
cdef void wait_list_fire(WaitList* taken) noexcept nogil        # fires all tokens, then drops them
cdef void wait_list_clear(WaitList* waiting) noexcept nogil     # drops all tokens without firing


cdef enum:
    WAIT_CHUNK = 8


ctypedef struct WaitSlot:
    WaitToken* token            # owned; set once, NULL before
    int64_t waiting             # atomic


ctypedef struct WaitChunk:
    WaitSlot slots[WAIT_CHUNK]
    WaitChunk* next


ctypedef struct WaitSet:
    # A wait list without a lock, for resources that are polled often. A token gets a slot when it is first added and
    # keeps it until the set is cleared, because the same few drivers wait for a resource again and again. A zeroed
    # struct is an empty set.
    WaitChunk first
    int64_t n_waiting           # atomic; number of slots that wait

# After adding, check the resource again: it may have become ready before the token was added.
cdef int wait_set_add(WaitSet* waiting, WaitToken* token) except -1 nogil
cdef void wait_set_remove(WaitSet* waiting, WaitToken* token) noexcept nogil    # the token need not be fired any more
cdef void wait_set_fire_all(WaitSet* waiting) noexcept nogil
cdef void wait_set_clear(WaitSet* waiting) noexcept nogil       # when no thread uses it any more

cdef inline void wait_set_fire(WaitSet* waiting) noexcept nogil:
    """Fire the waiting tokens, after a sequentially consistent change of the resource."""
    if qc_load(&waiting.n_waiting) > 0:
        wait_set_fire_all(waiting)
