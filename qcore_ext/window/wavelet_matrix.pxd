"""The k-th smallest of the numbers at some positions, in one step a bit of the numbers: a wavelet matrix.

For quantiles over frames: the cost of a frame does not depend on its size.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.window.frames cimport Stretches


ctypedef struct WaveletMatrix:
    # Zero-initialised, then wavelet_matrix_init. A level a bit, the highest first: the bits at each position, where the
    # numbers stand that the levels before have parted stably, those with a 0 first.
    int32_t n_levels
    int64_t n_words             # a level
    Buffer* words               # owned; RankWord: 64 bits, and how many are set before them
    uint32_t zeros[32]          # of each level

# `numbers` are the numbers 0..n in any order.
cdef int wavelet_matrix_init(
    WaveletMatrix* self, const uint32_t* numbers, int64_t n, MemoryAccount* account,
) except -1 nogil
cdef void wavelet_matrix_free(WaveletMatrix* self) noexcept nogil
# The k-th smallest number (from 0) among those at the positions; there are more than k of these.
cdef uint32_t wavelet_matrix_pick(const WaveletMatrix* self, const Stretches* at, int64_t k) noexcept nogil
