"""Key places: a perfect hash of numbered keys, each of one word. Each key has a place of its own."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, account_check, buffer_new, buffer_new_zeroed, buffer_unref

cdef extern from "native/mix.h" nogil:
    uint64_t qc_mix(uint64_t value)

cdef enum:
    PLACE_BITS_MIN = 3
    BUCKET_BITS_LESS = 2        # a quarter as many buckets as places: one to two keys each
    ROWS_A_KEY = 32             # rows looked up otherwise, for each key, before the places are made
    FACTORS_MAX = 8
    SHIFTS_MAX = 65536          # tried for a bucket
    BUCKET_KEYS_MAX = 32
    SHARE_LEFT = 4              # at most a quarter of the memory that is left: a query runs without places


ctypedef struct Placing:
    # The keys by bucket, while their places are searched.
    uint64_t* products          # key * factor, in the order of the buckets
    uint32_t* numbers           # the number of each
    uint32_t* starts            # the keys of bucket b are starts[b]..starts[b + 1]
    uint8_t* taken              # by place
    int64_t n_buckets


cdef void key_places_free(KeyPlaces* places) noexcept nogil:
    buffer_unref(places.buffer)
    memset(places, 0, sizeof(KeyPlaces))


cdef inline uint32_t number_at(const KeyPlaces* places, uint64_t key) noexcept nogil:
    """The number of the key that has the place of `key`."""
    cdef uint64_t product = key * places.factor
    return places.numbers[
        ((product >> places.place_shift) & places.place_mask) ^ places.shifts[product >> places.bucket_shift]
    ]


cdef bint key_places_find(
    const KeyPlaces* places, const uint64_t* words, const uint64_t* keys, int64_t n, uint32_t* numbers,
) noexcept nogil:
    cdef KeyPlaces at = places[0]       # a copy, which the stores to `numbers` cannot change
    cdef uint64_t missing = 0
    cdef int64_t i
    for i in range(n):
        numbers[i] = number_at(&at, keys[i])
        missing |= words[numbers[i]] ^ keys[i]
    return missing == 0


cdef void key_places_test(
    const KeyPlaces* places, const uint64_t* words, const uint64_t* keys, int64_t n, uint8_t* flags, uint32_t* numbers,
) noexcept nogil:
    cdef KeyPlaces at = places[0]
    cdef int64_t i
    for i in range(n):
        numbers[i] = number_at(&at, keys[i])
        flags[i] &= words[numbers[i]] == keys[i]


# --- making ---

cdef int64_t sort_by_bucket(
    const KeyPlaces* places, Placing* placing, const uint64_t* words, const uint32_t* nulls, int64_t n_keys,
) noexcept nogil:
    """Sort the keys without nulls by bucket. Returns the number of keys of the largest bucket."""
    cdef uint32_t* starts = placing.starts
    cdef uint64_t product
    cdef int64_t i, b, at
    cdef uint32_t most = 0
    memset(starts, 0, (placing.n_buckets + 2) * sizeof(uint32_t))
    for i in range(n_keys):
        if nulls[i] == 0:
            b = <int64_t> (words[i] * places.factor >> places.bucket_shift)
            starts[b] += 1
            most = max(most, starts[b])
    for b in range(1, placing.n_buckets + 1):
        starts[b] += starts[b - 1]
    # Each start is the end of its bucket until the keys are stored, from the last to the first.
    for i in range(n_keys):
        if nulls[i] == 0:
            product = words[i] * places.factor
            b = <int64_t> (product >> places.bucket_shift)
            starts[b] -= 1
            at = starts[b]
            qc_check(0 <= at < n_keys, b"the keys by bucket are the keys")
            placing.products[at] = product
            placing.numbers[at] = <uint32_t> i
    return most


cdef bint place_bucket(KeyPlaces* places, Placing* placing, int64_t bucket) noexcept nogil:
    """Find a shift that moves all keys of the bucket to free places. Returns False if there is none."""
    cdef int64_t start = placing.starts[bucket]
    cdef int64_t n = placing.starts[bucket + 1] - start
    cdef const uint64_t* products = placing.products + start
    cdef uint64_t shift = 0
    cdef uint64_t most = min(places.place_mask + 1, <uint64_t> SHIFTS_MAX)
    cdef uint64_t at
    cdef int64_t k = 0
    while shift < most:
        k = 0
        while k < n:
            at = ((products[k] >> places.place_shift) & places.place_mask) ^ shift
            if placing.taken[at]:
                break
            placing.taken[at] = 1
            places.numbers[at] = placing.numbers[start + k]
            k += 1
        if k == n:
            places.shifts[bucket] = <uint16_t> shift
            return True
        while k > 0:
            k -= 1
            placing.taken[((products[k] >> places.place_shift) & places.place_mask) ^ shift] = 0
        shift += 1
    return False


cdef int place_keys(
    KeyPlaces* places, Placing* placing, const uint64_t* words, const uint32_t* nulls, int64_t n_keys,
    const MemoryAccount* account,
) except -1 nogil:
    """Place all keys by one factor. Returns 0 if that is not possible."""
    cdef int64_t size = sort_by_bucket(places, placing, words, nulls, n_keys)
    cdef int64_t b
    if size == 0 or size > BUCKET_KEYS_MAX:
        return 0
    memset(placing.taken, 0, places.place_mask + 1)
    # No row of an empty place equals the key of another place.
    for b in range(<int64_t> places.place_mask + 1):
        places.numbers[b] = placing.numbers[0]
    # The larger buckets first, while most places are free.
    while size > 0:
        account_check(account)
        for b in range(placing.n_buckets):
            if placing.starts[b + 1] - placing.starts[b] == size and not place_bucket(places, placing, b):
                return 0
        size -= 1
    return 1


cdef int key_places_make(
    KeyPlaces* places, const uint64_t* words, const uint32_t* nulls, int64_t n_keys, MemoryAccount* account,
) except -1 nogil:
    cdef Placing placing
    cdef int bits = PLACE_BITS_MIN
    cdef int64_t n_places
    cdef Buffer* scratch = NULL
    cdef int64_t n_bytes, n_scratch_bytes
    cdef int64_t tried
    cdef bint done = False
    while (<int64_t> 1 << bits) < 2 * n_keys:
        bits += 1
    n_places = <int64_t> 1 << bits
    placing.n_buckets = n_places >> BUCKET_BITS_LESS
    n_bytes = n_places * sizeof(uint32_t) + placing.n_buckets * sizeof(uint16_t)
    n_scratch_bytes = n_keys * 12 + (placing.n_buckets + 2) * 4 + n_places
    key_places_free(places)
    places.n_keys = n_keys
    if n_bytes + n_scratch_bytes > bytes_left(account) // SHARE_LEFT:
        return 0
    try:
        # An empty bucket has the shift 0.
        places.buffer = buffer_new_zeroed(account, n_bytes)
        places.numbers = <uint32_t*> places.buffer.data
        places.shifts = <uint16_t*> (places.numbers + n_places)
        places.place_mask = <uint64_t> (n_places - 1)
        places.bucket_shift = 64 - (bits - BUCKET_BITS_LESS)
        places.place_shift = places.bucket_shift - bits
        scratch = buffer_new(account, n_scratch_bytes)
        placing.products = <uint64_t*> scratch.data
        placing.numbers = <uint32_t*> (placing.products + n_keys)
        placing.starts = placing.numbers + n_keys
        placing.taken = <uint8_t*> (placing.starts + placing.n_buckets + 2)
        for tried in range(FACTORS_MAX):
            places.factor = qc_mix(<uint64_t> tried + 1) | 1
            if place_keys(places, &placing, words, nulls, n_keys, account):
                done = True
                break
    finally:
        buffer_unref(scratch)
        if not done:
            key_places_free(places)
    places.n_keys = n_keys
    return 0


cdef bint key_places_note(KeyPlaces* places, int64_t n, int64_t n_keys, int64_t keys_max) noexcept nogil:
    places.rows_without += n
    return places.rows_without >= ROWS_A_KEY * n_keys and n_keys != places.n_keys and n_keys <= keys_max
