"""Wavelet matrix: finds the k-th smallest number in ranges of positions, in one step for each bit of the numbers.

It computes quantiles over frames. The cost of a frame does not depend on its size.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.window.frames cimport Stretches


ctypedef struct WaveletMatrix:
    # Zeroed, then initialised by wavelet_matrix_init. It has one level for each bit, the highest bit first. A level has
    # this bit of each number. The numbers of a level are in the order of a stable partition by the bit of the level
    # before it, with the zeros first.
    int32_t n_levels
    int64_t n_words             # words of one level
    Buffer* words               # owned; RankWord: 64 bits, and the number of bits set before them in the level
    uint32_t zeros[32]          # the number of zero bits of each level

# `numbers` are the numbers 0..n in any order.
cdef int wavelet_matrix_init(
    WaveletMatrix* self, const uint32_t* numbers, int64_t n, MemoryAccount* account,
) except -1 nogil
cdef void wavelet_matrix_free(WaveletMatrix* self) noexcept nogil
# The k-th smallest number, counted from 0, at the positions of the stretches. They must have more than k positions.
cdef uint32_t wavelet_matrix_pick(const WaveletMatrix* self, const Stretches* at, int64_t k) noexcept nogil
