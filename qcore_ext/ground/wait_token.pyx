"""Wake-ups: how a resource wakes a blocked driver."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, realloc

from qcore_ext.ground.atomic cimport qc_add, qc_cas_pointer, qc_fetch_add, qc_load, qc_load_pointer, qc_swap
from qcore_ext.ground.fault cimport FAULT_WAIT, fault_here
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref
from qcore_ext.ground.status cimport raise_memory_limit


cdef const char* wait_list_try_add(WaitList* waiting, WaitToken* token) noexcept nogil:
    cdef int64_t i
    cdef WaitToken** tokens
    token.n_registered += 1
    for i in range(waiting.n_tokens):
        if waiting.tokens[i] == token:
            return NULL
    if fault_here(FAULT_WAIT):
        return b"injected fault: wait"
    if waiting.n_tokens == waiting.capacity:
        tokens = <WaitToken**> realloc(waiting.tokens, (waiting.capacity * 2 + 4) * sizeof(WaitToken*))
        if tokens == NULL:
            return b"the machine has no memory left"
        waiting.tokens = tokens
        waiting.capacity = waiting.capacity * 2 + 4
    waiting.tokens[waiting.n_tokens] = <WaitToken*> owner_ref(<Owner*> token)
    waiting.n_tokens += 1
    return NULL


cdef int wait_list_add(WaitList* waiting, WaitToken* token) except -1 nogil:
    cdef const char* failed = wait_list_try_add(waiting, token)
    if failed != NULL:
        return raise_memory_limit(failed)
    return 0


cdef void wait_list_take(WaitList* waiting, WaitList* taken) noexcept nogil:
    taken[0] = waiting[0]
    waiting.tokens = NULL
    waiting.n_tokens = 0
    waiting.capacity = 0


cdef void wait_list_fire(WaitList* taken) noexcept nogil:
    cdef int64_t i
    for i in range(taken.n_tokens):
        wait_token_fire(taken.tokens[i])
    wait_list_clear(taken)


cdef void wait_list_clear(WaitList* waiting) noexcept nogil:
    cdef int64_t i
    for i in range(waiting.n_tokens):
        owner_unref(<Owner*> waiting.tokens[i])
    free(waiting.tokens)
    waiting.tokens = NULL
    waiting.n_tokens = 0
    waiting.capacity = 0


cdef WaitSlot* wait_set_find(WaitSet* waiting, WaitToken* token, bint make) except? NULL nogil:
    """The slot of the token. If it has none: a new one if `make`, else NULL."""
    cdef WaitChunk* chunk = &waiting.first
    cdef WaitChunk* further
    cdef WaitSlot* slot
    cdef int i
    while True:
        for i in range(WAIT_CHUNK):
            slot = &chunk.slots[i]
            if qc_load_pointer(<void**> &slot.token) == token:
                return slot
            if qc_load_pointer(<void**> &slot.token) == NULL:
                if not make:
                    return NULL
                if fault_here(FAULT_WAIT):
                    raise_memory_limit(b"injected fault: wait")
                    return NULL
                owner_ref(<Owner*> token)
                if qc_cas_pointer(<void**> &slot.token, NULL, token):
                    return slot
                owner_unref(<Owner*> token)     # another token took the slot
        further = <WaitChunk*> qc_load_pointer(<void**> &chunk.next)
        if further == NULL:
            if not make:
                return NULL
            further = <WaitChunk*> calloc(1, sizeof(WaitChunk))
            if further == NULL:
                raise_memory_limit(b"the machine has no memory left")
                return NULL
            if not qc_cas_pointer(<void**> &chunk.next, NULL, further):
                free(further)
                further = <WaitChunk*> qc_load_pointer(<void**> &chunk.next)
        chunk = further


cdef int wait_set_add(WaitSet* waiting, WaitToken* token) except -1 nogil:
    cdef WaitSlot* slot = wait_set_find(waiting, token, True)
    token.n_registered += 1
    # The count is raised first, so that a waiting slot is never overlooked.
    qc_fetch_add(&waiting.n_waiting, 1)
    if qc_swap(&slot.waiting, 1) != 0:
        qc_add(&waiting.n_waiting, -1)
    return 0


cdef void wait_set_remove(WaitSet* waiting, WaitToken* token) noexcept nogil:
    cdef WaitSlot* slot = wait_set_find(waiting, token, False)
    if slot != NULL and qc_swap(&slot.waiting, 0) != 0:
        qc_add(&waiting.n_waiting, -1)


cdef void wait_set_fire_all(WaitSet* waiting) noexcept nogil:
    cdef WaitChunk* chunk = &waiting.first
    cdef WaitToken* token
    cdef int i
    while chunk != NULL:
        for i in range(WAIT_CHUNK):
            token = <WaitToken*> qc_load_pointer(<void**> &chunk.slots[i].token)
            if token == NULL:
                return
            if qc_load(&chunk.slots[i].waiting) != 0 and qc_swap(&chunk.slots[i].waiting, 0) != 0:
                qc_add(&waiting.n_waiting, -1)
                wait_token_fire(token)
        chunk = <WaitChunk*> qc_load_pointer(<void**> &chunk.next)


cdef void wait_set_clear(WaitSet* waiting) noexcept nogil:
    cdef WaitChunk* chunk = &waiting.first
    cdef WaitChunk* following
    cdef int i
    while chunk != NULL:
        for i in range(WAIT_CHUNK):
            owner_unref(<Owner*> chunk.slots[i].token)
            chunk.slots[i].token = NULL
            chunk.slots[i].waiting = 0
        following = chunk.next
        chunk.next = NULL
        if chunk != &waiting.first:
            free(chunk)
        chunk = following
    waiting.n_waiting = 0
