"""Placed keys: the keys of a join table at places of their own (key_places), for one probe driver."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, buffer_new, buffer_unref
from qcore_ext.ground.probe cimport Group, Slot
from qcore_ext.rows.key_places cimport key_places_free, key_places_make, key_places_note

cdef enum:
    # With 60K keys a row takes as long at places as in slots, with 125K a tenth longer: it reads three lines of the
    # second-level cache, and in slots one.
    PLACED_KEYS_MAX = 32768
    # Rows without a key take space too.
    NUMBERS_A_KEY_MAX = 4
    BYTES_A_KEY = 20            # of words, groups, and the numbers without a key
    SHARE_LEFT = 4              # at most a quarter of the memory that is left: a join runs without places


cdef void placed_keys_free(PlacedKeys* placed) noexcept nogil:
    key_places_free(&placed.places)
    buffer_unref(placed.buffer)
    memset(placed, 0, sizeof(PlacedKeys))


cdef bint placed_keys_note(PlacedKeys* placed, int64_t n, int64_t n_keys) noexcept nogil:
    return key_places_note(&placed.places, n, n_keys, PLACED_KEYS_MAX)


cdef int placed_keys_make(
    PlacedKeys* placed, const Slot* slots, int64_t n_slots, int64_t n_keys, int64_t numbers_max, MemoryAccount* account,
) except -1 nogil:
    cdef bint by_start = 0 < numbers_max <= NUMBERS_A_KEY_MAX * n_keys
    cdef int64_t n = numbers_max if by_start else n_keys
    cdef Buffer* nulls = NULL
    cdef uint32_t* missing
    cdef int64_t number = 0
    cdef int64_t i
    cdef bint done = False
    placed_keys_free(placed)
    # Whether or not they can be placed, the same keys are not placed again.
    placed.places.n_keys = n_keys
    if n * <int64_t> BYTES_A_KEY > bytes_left(account) // SHARE_LEFT:
        return 0
    try:
        placed.buffer = buffer_new(account, n * (sizeof(uint64_t) + sizeof(Group)))
        placed.words = <uint64_t*> placed.buffer.data
        placed.groups = <Group*> (placed.words + n)
        nulls = buffer_new(account, n * sizeof(uint32_t))
        missing = <uint32_t*> nulls.data
        memset(missing, 1, n * sizeof(uint32_t))
        memset(placed.words, 0, n * sizeof(uint64_t))
        for i in range(n_slots):
            if slots[i].group.count == 0:
                continue
            if by_start:
                number = slots[i].group.start
            qc_check(number < n, b"the number of a placed key is below their number")
            placed.words[number] = slots[i].key
            placed.groups[number] = slots[i].group
            missing[number] = 0
            number += 1
        key_places_make(&placed.places, placed.words, missing, n, account)
        placed.places.n_keys = n_keys
        if placed.places.buffer == NULL:
            buffer_unref(placed.buffer)
            placed.buffer = NULL
        done = True
    finally:
        buffer_unref(nulls)
        if not done:
            placed_keys_free(placed)
    if by_start:
        placed.groups = NULL
    return 0
