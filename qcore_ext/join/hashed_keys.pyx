"""Hashed keys: a perfect hash of the keys of a join table, for one probe driver."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, buffer_new, buffer_new_zeroed, buffer_unref
from qcore_ext.ground.probe cimport Slot
from qcore_ext.rows.perfect_hash cimport perfect_hash_free, perfect_hash_make, perfect_hash_note

cdef enum:
    BYTES_A_ROW = 16            # of words, counts, and what perfect_hash_make is told of numbers without a key
    ROWS_A_KEY = 32             # probe rows looked up in slots, for each key, before a hash is made
    SHARE_LEFT = 4              # at most a quarter of the memory that is left: a join runs without a hash


cdef void hashed_keys_free(HashedKeys* hashed) noexcept nogil:
    perfect_hash_free(&hashed.hash)
    buffer_unref(hashed.buffer)
    memset(hashed, 0, sizeof(HashedKeys))


cdef bint hashed_keys_note(HashedKeys* hashed, int64_t n, int64_t n_rows) noexcept nogil:
    return perfect_hash_note(&hashed.hash, n, n_rows, HASHED_ROWS_MAX, ROWS_A_KEY)


cdef int hashed_keys_make(
    HashedKeys* hashed, const Slot* slots, int64_t n_slots, int64_t n_rows, MemoryAccount* account,
) except -1 nogil:
    cdef Buffer* missing = NULL
    cdef uint32_t start
    cdef int64_t i
    cdef bint done = False
    hashed_keys_free(hashed)
    # Whether or not there is a hash of them, the same keys are not tried again.
    hashed.hash.at.n_keys = n_rows
    if n_rows * <int64_t> BYTES_A_ROW > bytes_left(account) // SHARE_LEFT:
        return 0
    try:
        hashed.buffer = buffer_new_zeroed(account, n_rows * (sizeof(uint64_t) + sizeof(uint32_t)))
        hashed.words = <uint64_t*> hashed.buffer.data
        hashed.counts = <uint32_t*> (hashed.words + n_rows)
        missing = buffer_new(account, n_rows * sizeof(uint32_t))
        memset(missing.data, 1, n_rows * sizeof(uint32_t))
        for i in range(n_slots):
            if slots[i].group.count != 0:
                start = slots[i].group.start
                qc_check(start < n_rows, b"a group starts at one of the rows of the table")
                hashed.words[start] = slots[i].key
                hashed.counts[start] = slots[i].group.count
                (<uint32_t*> missing.data)[start] = 0
        perfect_hash_make(&hashed.hash, hashed.words, <uint32_t*> missing.data, n_rows, account)
        if hashed.hash.buffer == NULL:
            buffer_unref(hashed.buffer)
            hashed.buffer = NULL
        done = True
    finally:
        buffer_unref(missing)
        if not done:
            hashed_keys_free(hashed)
    return 0
