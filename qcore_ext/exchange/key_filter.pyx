"""Filters of keys: the build keys of a join as bits, so that a probe row without a match is not exchanged.

A filter is an array of 64-bit words. A key sets four bits in one word: bits 0 to 31 of its hash choose the word, bits
32 to 55 the bits in it. A key that was added is always found. With 16 bits for each key about 1 in 100 others is found.
"""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from qcore_ext.compute.row_hash cimport HASH_FILTER_BITS, HASH_FILTER_SHIFT
from qcore_ext.ground.memory cimport Account, buffer_grow, buffer_new, buffer_unref

cdef enum:
    FIRST_HASHES = 8192
    HASH_BYTES = 8
    BITS_OF_A_KEY = 4


cdef inline uint64_t bits_of(uint64_t hash) noexcept nogil:
    """The bits that a key sets in its word."""
    cdef uint64_t bits = 0
    cdef int _
    hash >>= HASH_FILTER_SHIFT
    for _ in range(BITS_OF_A_KEY):
        bits |= <uint64_t> 1 << (hash & ((1 << HASH_FILTER_BITS) - 1))
        hash >>= HASH_FILTER_BITS
    return bits


cdef inline uint64_t word_of(uint64_t hash, uint64_t n_words) noexcept nogil:
    """The number of a key's word."""
    return ((hash & <uint64_t> 0xFFFFFFFF) * n_words) >> 32


cdef class KeyHashes:
    """Collects the hashes of the keys of rows.

    Parameters
    ----------
    memory : Account
        Pays for them.
    n_max : int
        If there are more, none is kept.

    Attributes
    ----------
    n : int
        Number of hashes.
    is_over : bool
        Whether there were more than n_max.
    """

    def __init__(self, Account memory, int64_t n_max):
        self.memory = memory
        self.n_max = n_max

    def __dealloc__(self):
        buffer_unref(self.values)

    cdef int add(self, const uint64_t* hashes, int64_t n) except -1 nogil:
        if self.is_over:
            return 0
        if self.n + n > self.n_max:
            self.is_over = True
            self.n = 0
            buffer_unref(self.values)
            self.values = NULL
            return 0
        if self.values == NULL:
            self.values = buffer_new(self.memory.account, max(n, <int64_t> FIRST_HASHES) * HASH_BYTES)
        elif (self.n + n) * HASH_BYTES > self.values.size:
            buffer_grow(&self.values, self.n * HASH_BYTES, 2 * (self.n + n) * HASH_BYTES)
        memcpy(self.values.data + self.n * HASH_BYTES, hashes, n * HASH_BYTES)
        self.n += n
        return 0

    def to_buffer(self):
        """Return the hashes as a pyarrow.Buffer of 8 bytes for each."""
        import pyarrow

        result = pyarrow.allocate_buffer(self.n * HASH_BYTES)
        cdef uintptr_t target = result.address
        if self.n > 0:
            memcpy(<void*> target, self.values.data, self.n * HASH_BYTES)
        return result


cdef class KeyFilter:
    """Tells keys that were added from most others.

    Parameters
    ----------
    words : pyarrow.Buffer
        The filter: at least one word of 8 bytes, at most 2**32. Must stay unchanged while operators read the filter.
    """

    def __init__(self, words):
        cdef int64_t n_bytes = words.size
        if n_bytes < HASH_BYTES or n_bytes % HASH_BYTES or n_bytes // HASH_BYTES > <int64_t> 1 << 32:
            raise ValueError(f"a filter of keys is 1 to 2**32 words of 8 bytes, not {n_bytes} bytes")
        self.held = words
        self.words = <uint64_t*> <uintptr_t> words.address
        self.n_words = <uint64_t> (n_bytes // HASH_BYTES)

    def add(self, hashes):
        """Add keys by their hashes, a pyarrow.Buffer of 8 bytes for each. The words must be a mutable buffer."""
        cdef const uint64_t* given = <const uint64_t*> <uintptr_t> hashes.address
        cdef int64_t i
        cdef int64_t n = hashes.size // HASH_BYTES
        if not self.held.is_mutable:
            raise ValueError("keys are added to a filter with words that can be changed")
        with nogil:
            for i in range(n):
                self.words[word_of(given[i], self.n_words)] |= bits_of(given[i])

    cdef void look_up(self, const uint64_t* hashes, int64_t n, bint* may_have) noexcept nogil:
        cdef int64_t i
        cdef uint64_t wanted
        for i in range(n):
            wanted = bits_of(hashes[i])
            may_have[i] = (self.words[word_of(hashes[i], self.n_words)] & wanted) == wanted
