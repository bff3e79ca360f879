"""Kernels that look keys up in join tables. native/probe.h documents each; ground.dispatch gives the table."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "native/probe.h" nogil:
    ctypedef struct RankWord "QcRankWord":
        uint64_t bits
        uint32_t rank

    ctypedef struct Group "QcGroup":
        uint32_t start
        uint32_t count

    ctypedef struct Slot "QcSlot":
        uint64_t key
        Group group             # or, in the same bytes:
        uint64_t value

    enum:
        LINE_SLOTS "QC_LINE_SLOTS"

    uint64_t FREE_KEY "QC_FREE_KEY"

    ctypedef struct ProbeKernels:
        void (*codes)(
            const uint64_t* keys, int64_t n, uint64_t minimum, uint64_t range, uint64_t* codes, uint8_t* flags,
        ) noexcept nogil
        void (*rank_test)(const RankWord* words, const uint64_t* codes, int64_t n, uint8_t* flags) noexcept nogil
        void (*ranks)(
            const RankWord* words, const uint64_t* codes, const uint32_t* at, int64_t n, uint32_t* ranks,
        ) noexcept nogil
        int64_t (*rank_fill)(RankWord* words, int64_t n_words, uint32_t rank) noexcept nogil
        void (*home_slots)(const uint64_t* keys, int64_t n, uint64_t mask, uint32_t* out) noexcept nogil
        void (*filter_test)(
            const uint32_t* filter, uint32_t mask, const uint32_t* hashes, int64_t n, uint8_t* flags,
        ) noexcept nogil
        int64_t (*line_slots)(
            const Slot* slots, bint of_values, const uint64_t* keys, uint32_t* slot_numbers, int64_t n,
            uint8_t* flags, uint8_t* pending, Group* groups,
        ) noexcept nogil
