"""Perfect hash of numbered keys, each of one word: each key has a position of its own."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport grouping_kernels
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, account_check, buffer_new, buffer_new_zeroed, buffer_unref

cdef extern from "native/mix.h" nogil:
    uint64_t qc_mix(uint64_t value)

cdef enum:
    POSITION_BITS_MIN = 3
    BUCKET_BITS_LESS = 2        # a quarter as many buckets as positions: one to two keys each
    SHIFTS_SPARE = 2            # bytes after the last shift, which lookups read with it
    FACTORS_MAX = 8
    SHIFTS_MAX = 65536          # tried for a bucket
    BUCKET_KEYS_MAX = 32
    SHARE_LEFT = 4              # at most a quarter of the memory that is left: a query runs without a hash


ctypedef struct HashDraft:
    # The keys by bucket, while their positions are searched.
    uint64_t* products          # key * factor, in the order of the buckets
    uint32_t* numbers           # the number of each
    uint32_t* starts            # the keys of bucket b are starts[b]..starts[b + 1]
    uint8_t* taken              # by position
    int64_t n_buckets


cdef void perfect_hash_free(PerfectHash* hash) noexcept nogil:
    buffer_unref(hash.buffer)
    memset(hash, 0, sizeof(PerfectHash))


cdef bint perfect_hash_find(
    const PerfectHash* hash, const uint64_t* words, const uint64_t* keys, int64_t n, uint32_t* numbers,
) noexcept nogil:
    return grouping_kernels().find_words(&hash.at, words, keys, n, numbers) == 0


cdef void perfect_hash_test(
    const PerfectHash* hash, const uint64_t* words, const uint64_t* keys, int64_t n, uint8_t* flags, uint32_t* numbers,
) noexcept nogil:
    cdef int64_t i
    grouping_kernels().find_words(&hash.at, words, keys, n, numbers)
    for i in range(n):
        flags[i] &= words[numbers[i]] == keys[i]


# --- making ---

cdef int64_t sort_by_bucket(
    const PerfectHash* hash, HashDraft* draft, const uint64_t* words, const uint32_t* nulls, int64_t n_keys,
) noexcept nogil:
    """Sort the keys without nulls by bucket. Returns the number of keys of the largest bucket."""
    cdef uint32_t* starts = draft.starts
    cdef uint64_t product
    cdef int64_t i, b, at
    cdef uint32_t most = 0
    memset(starts, 0, (draft.n_buckets + 2) * sizeof(uint32_t))
    for i in range(n_keys):
        if nulls == NULL or nulls[i] == 0:
            b = <int64_t> (words[i] * hash.at.factor >> hash.at.bucket_shift)
            starts[b] += 1
            most = max(most, starts[b])
    for b in range(1, draft.n_buckets + 1):
        starts[b] += starts[b - 1]
    # Each start is the end of its bucket until the keys are stored, from the last to the first.
    for i in range(n_keys):
        if nulls == NULL or nulls[i] == 0:
            product = words[i] * hash.at.factor
            b = <int64_t> (product >> hash.at.bucket_shift)
            starts[b] -= 1
            at = starts[b]
            qc_check(0 <= at < n_keys, b"the keys by bucket are the keys")
            draft.products[at] = product
            draft.numbers[at] = <uint32_t> i
    return most


cdef bint fit_bucket(PerfectHash* hash, HashDraft* draft, int64_t bucket) noexcept nogil:
    """Find a shift that moves all keys of the bucket to free positions. Returns False if there is none."""
    cdef int64_t start = draft.starts[bucket]
    cdef int64_t n = draft.starts[bucket + 1] - start
    cdef const uint64_t* products = draft.products + start
    cdef uint64_t shift = 0
    cdef uint64_t most = min(hash.at.position_mask + 1, <uint64_t> SHIFTS_MAX)
    cdef uint64_t at
    cdef int64_t k = 0
    while shift < most:
        k = 0
        while k < n:
            at = ((products[k] >> hash.at.position_shift) & hash.at.position_mask) ^ shift
            if draft.taken[at]:
                break
            draft.taken[at] = 1
            hash.at.numbers[at] = draft.numbers[start + k]
            k += 1
        if k == n:
            hash.at.shifts[bucket] = <uint16_t> shift
            return True
        while k > 0:
            k -= 1
            draft.taken[((products[k] >> hash.at.position_shift) & hash.at.position_mask) ^ shift] = 0
        shift += 1
    return False


cdef int fit_keys(
    PerfectHash* hash, HashDraft* draft, const uint64_t* words, const uint32_t* nulls, int64_t n_keys,
    const MemoryAccount* account,
) except -1 nogil:
    """Fit all keys by one factor. Returns 0 if that is not possible."""
    cdef int64_t size = sort_by_bucket(hash, draft, words, nulls, n_keys)
    cdef int64_t b
    if size == 0 or size > BUCKET_KEYS_MAX:
        return 0
    memset(draft.taken, 0, hash.at.position_mask + 1)
    # No row of an empty position equals the key of another position.
    for b in range(<int64_t> hash.at.position_mask + 1):
        hash.at.numbers[b] = draft.numbers[0]
    # The larger buckets first, while most positions are free.
    while size > 0:
        account_check(account)
        for b in range(draft.n_buckets):
            if draft.starts[b + 1] - draft.starts[b] == size and not fit_bucket(hash, draft, b):
                return 0
        size -= 1
    return 1


cdef int perfect_hash_make(
    PerfectHash* hash, const uint64_t* words, const uint32_t* nulls, int64_t n_keys, MemoryAccount* account,
) except -1 nogil:
    cdef HashDraft draft
    cdef int bits = POSITION_BITS_MIN
    cdef int64_t n_positions
    cdef Buffer* scratch = NULL
    cdef int64_t n_bytes, n_scratch_bytes
    cdef int64_t tried
    cdef bint done = False
    while (<int64_t> 1 << bits) < 2 * n_keys:
        bits += 1
    n_positions = <int64_t> 1 << bits
    draft.n_buckets = n_positions >> BUCKET_BITS_LESS
    n_bytes = n_positions * sizeof(uint32_t) + draft.n_buckets * sizeof(uint16_t) + SHIFTS_SPARE
    n_scratch_bytes = n_keys * 12 + (draft.n_buckets + 2) * 4 + n_positions
    perfect_hash_free(hash)
    hash.at.n_keys = n_keys
    if n_bytes + n_scratch_bytes > bytes_left(account) // SHARE_LEFT:
        return 0
    try:
        # An empty bucket has the shift 0.
        hash.buffer = buffer_new_zeroed(account, n_bytes)
        hash.at.numbers = <uint32_t*> hash.buffer.data
        hash.at.shifts = <uint16_t*> (hash.at.numbers + n_positions)
        hash.at.position_mask = <uint64_t> (n_positions - 1)
        hash.at.bucket_shift = 64 - (bits - BUCKET_BITS_LESS)
        hash.at.position_shift = hash.at.bucket_shift - bits
        scratch = buffer_new(account, n_scratch_bytes)
        draft.products = <uint64_t*> scratch.data
        draft.numbers = <uint32_t*> (draft.products + n_keys)
        draft.starts = draft.numbers + n_keys
        draft.taken = <uint8_t*> (draft.starts + draft.n_buckets + 2)
        for tried in range(FACTORS_MAX):
            hash.at.factor = qc_mix(<uint64_t> tried + 1) | 1
            if fit_keys(hash, &draft, words, nulls, n_keys, account):
                done = True
                break
    finally:
        buffer_unref(scratch)
        if not done:
            perfect_hash_free(hash)
    hash.at.n_keys = n_keys
    return 0


cdef bint perfect_hash_note(
    PerfectHash* hash, int64_t n, int64_t n_keys, int64_t keys_max, int64_t rows_a_key,
) noexcept nogil:
    hash.rows_without += n
    return hash.rows_without >= rows_a_key * n_keys and n_keys != hash.at.n_keys and n_keys <= keys_max
