"""Wavelet matrix: finds the k-th smallest number in ranges of positions, in one step for each bit of the numbers."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from qcore_ext.ground.bitmap cimport qc_popcount
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, account_check, buffer_new, buffer_new_zeroed, buffer_unref,
)
from qcore_ext.ground.probe cimport RankWord
from qcore_ext.window.frames cimport Stretches


cdef int wavelet_matrix_init(
    WaveletMatrix* self, const uint32_t* numbers, int64_t n, MemoryAccount* account,
) except -1 nogil:
    cdef Buffer* scratch = NULL
    cdef uint32_t* numbers_here
    cdef uint32_t* next_numbers
    cdef RankWord* words
    cdef int64_t i
    cdef int32_t level
    self.n_levels = 0
    while n > (<int64_t> 1 << self.n_levels):
        self.n_levels += 1
    self.n_words = (n >> 6) + 1
    self.words = buffer_new_zeroed(account, max(self.n_levels, 1) * self.n_words * <int64_t> sizeof(RankWord))
    try:
        scratch = buffer_new(account, (2 * n + 1) * sizeof(uint32_t))
        numbers_here = <uint32_t*> scratch.data
        next_numbers = numbers_here + n
        for i in range(n):
            numbers_here[i] = numbers[i]
        for level in range(self.n_levels):
            account_check(account)
            words = <RankWord*> self.words.data + level * self.n_words
            self.zeros[level] = partition_by_bit(
                numbers_here, n, self.n_levels - 1 - level, words, self.n_words, next_numbers
            )
            numbers_here, next_numbers = next_numbers, numbers_here
    finally:
        buffer_unref(scratch)
    return 0


cdef uint32_t partition_by_bit(
    const uint32_t* numbers, int64_t n, int32_t bit, RankWord* words, int64_t n_words, uint32_t* out,
) noexcept nogil:
    """Write the words of a level, and the numbers without the bit followed by those with it. Returns how many numbers
    do not have the bit.
    """
    cdef int64_t i
    cdef uint32_t set_before = 0
    cdef uint32_t at[2]
    for i in range(n):
        words[i >> 6].bits |= <uint64_t> ((numbers[i] >> bit) & 1) << (i & 63)
    for i in range(n_words):
        words[i].rank = set_before
        set_before += qc_popcount(words[i].bits)
    at[0] = 0
    at[1] = <uint32_t> n - set_before
    for i in range(n):
        qc_check(at[(numbers[i] >> bit) & 1] < n, b"a number's next position is within the level")
        out[at[(numbers[i] >> bit) & 1]] = numbers[i]
        at[(numbers[i] >> bit) & 1] += 1
    return <uint32_t> n - set_before


cdef void wavelet_matrix_free(WaveletMatrix* self) noexcept nogil:
    buffer_unref(self.words)
    self.words = NULL


cdef inline uint32_t ones_before(const RankWord* words, uint32_t position) noexcept nogil:
    cdef const RankWord* word = &words[position >> 6]
    return word.rank + <uint32_t> qc_popcount(word.bits & ((<uint64_t> 1 << (position & 63)) - 1))


cdef uint32_t wavelet_matrix_pick(const WaveletMatrix* self, const Stretches* at, int64_t k) noexcept nogil:
    cdef Stretches here = at[0]
    cdef uint32_t begins[3]
    cdef uint32_t ends[3]
    cdef const RankWord* words
    cdef uint32_t number = 0
    cdef int64_t n_zeros
    cdef int32_t level, s
    for level in range(self.n_levels):
        words = <const RankWord*> self.words.data + level * self.n_words
        n_zeros = 0
        for s in range(here.n):
            qc_check(here.begin[s] <= here.end[s], b"a stretch begins before its end")
            qc_check(here.end[s] >> 6 < self.n_words, b"a stretch ends within the level")
            begins[s] = ones_before(words, here.begin[s])
            ends[s] = ones_before(words, here.end[s])
            n_zeros += <int64_t> (here.end[s] - here.begin[s]) - (ends[s] - begins[s])
        if k < n_zeros:
            number <<= 1
            for s in range(here.n):
                here.begin[s] -= begins[s]
                here.end[s] -= ends[s]
        else:
            number = (number << 1) | 1
            k -= n_zeros
            for s in range(here.n):
                here.begin[s] = self.zeros[level] + begins[s]
                here.end[s] = self.zeros[level] + ends[s]
    return number
