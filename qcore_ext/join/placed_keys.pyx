"""Placed keys: the keys of a join table at places of their own (key_places), for one probe driver."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, buffer_new, buffer_new_zeroed, buffer_unref
from qcore_ext.ground.probe cimport Slot
from qcore_ext.rows.key_places cimport key_places_free, key_places_make, key_places_note

cdef enum:
    # With 30K and 60K keys a row takes as long at places as in slots, with 125K a tenth longer: it reads three lines of
    # the second-level cache, and in slots one.
    PLACED_ROWS_MAX = 16384
    BYTES_A_ROW = 16            # of words, counts, and what key_places_make is told of numbers without a key
    SHARE_LEFT = 4              # at most a quarter of the memory that is left: a join runs without places


cdef void placed_keys_free(PlacedKeys* placed) noexcept nogil:
    key_places_free(&placed.places)
    buffer_unref(placed.buffer)
    memset(placed, 0, sizeof(PlacedKeys))


cdef bint placed_keys_note(PlacedKeys* placed, int64_t n, int64_t n_rows) noexcept nogil:
    return key_places_note(&placed.places, n, n_rows, PLACED_ROWS_MAX)


cdef int placed_keys_make(
    PlacedKeys* placed, const Slot* slots, int64_t n_slots, int64_t n_rows, MemoryAccount* account,
) except -1 nogil:
    cdef Buffer* missing = NULL
    cdef uint32_t start
    cdef int64_t i
    cdef bint done = False
    placed_keys_free(placed)
    # Whether or not they can be placed, the same keys are not placed again.
    placed.places.n_keys = n_rows
    if n_rows * <int64_t> BYTES_A_ROW > bytes_left(account) // SHARE_LEFT:
        return 0
    try:
        placed.buffer = buffer_new_zeroed(account, n_rows * (sizeof(uint64_t) + sizeof(uint32_t)))
        placed.words = <uint64_t*> placed.buffer.data
        placed.counts = <uint32_t*> (placed.words + n_rows)
        missing = buffer_new(account, n_rows * sizeof(uint32_t))
        memset(missing.data, 1, n_rows * sizeof(uint32_t))
        for i in range(n_slots):
            if slots[i].group.count != 0:
                start = slots[i].group.start
                qc_check(start < n_rows, b"a group starts at one of the rows of the table")
                placed.words[start] = slots[i].key
                placed.counts[start] = slots[i].group.count
                (<uint32_t*> missing.data)[start] = 0
        key_places_make(&placed.places, placed.words, <uint32_t*> missing.data, n_rows, account)
        if placed.places.buffer == NULL:
            buffer_unref(placed.buffer)
            placed.buffer = NULL
        done = True
    finally:
        buffer_unref(missing)
        if not done:
            placed_keys_free(placed)
    return 0
