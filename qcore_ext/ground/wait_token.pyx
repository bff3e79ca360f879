"""Wake-ups: how a resource brings a waiting driver back. Floor E0."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref
from qcore_ext.ground.status cimport raise_memory_limit


cdef int wait_list_add(WaitList* waiting, WaitToken* token) except -1 nogil:
    cdef int64_t i
    cdef WaitToken** tokens
    for i in range(waiting.n_tokens):
        if waiting.tokens[i] == token:
            return 0
    if waiting.n_tokens == waiting.capacity:
        tokens = <WaitToken**> realloc(waiting.tokens, (waiting.capacity * 2 + 4) * sizeof(WaitToken*))
        if tokens == NULL:
            return raise_memory_limit(b"the machine has no memory left")
        waiting.tokens = tokens
        waiting.capacity = waiting.capacity * 2 + 4
    waiting.tokens[waiting.n_tokens] = <WaitToken*> owner_ref(<Owner*> token)
    waiting.n_tokens += 1
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
