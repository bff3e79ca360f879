"""Kernels that group rows and sum by group. native/grouping.h documents each; ground.dispatch gives the table."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "native/grouping.h" nogil:
    enum:
        GROUPING_FEW
        TEXT_LONGER "QC_TEXT_LONGER"

    ctypedef struct TextKey "QcTextKey":
        uint64_t words[4]

    ctypedef struct Positions "QcPositions":
        uint32_t* numbers
        uint16_t* shifts
        uint64_t factor
        uint64_t position_mask
        int64_t n_keys
        int bucket_shift
        int position_shift

    ctypedef struct GroupingKernels:
        void (*hash_one)(const uint64_t* low, const uint32_t* nulls, int64_t n, uint64_t* hashes) noexcept nogil
        void (*hash_two)(
            const uint64_t* low, const uint64_t* high, const uint32_t* nulls, int64_t n, uint64_t* hashes,
        ) noexcept nogil
        int64_t (*find_one)(
            const uint32_t* slots, int64_t mask, const uint64_t* words, const uint32_t* masks, const uint64_t* low,
            const uint32_t* nulls, int64_t n, uint64_t* hashes, uint32_t* groups, uint32_t* pending,
        ) noexcept nogil
        int64_t (*find_two)(
            const uint32_t* slots, int64_t mask, const uint64_t* words, const uint32_t* masks, const uint64_t* low,
            const uint64_t* high, const uint32_t* nulls, int64_t n, uint64_t* hashes, uint32_t* groups,
            uint32_t* pending,
        ) noexcept nogil
        uint32_t (*add_letters)(
            const uint32_t* views, int64_t n, uint32_t low, uint32_t span, uint32_t stride, uint32_t* codes,
        ) noexcept nogil
        uint64_t (*sum_few)(
            const int64_t* values, const uint32_t* groups, const uint8_t* bits, int64_t n, int64_t n_groups,
            int64_t* sums,
        ) noexcept nogil
        uint64_t (*magnitude_bits)(const int64_t* values, int64_t n) noexcept nogil
        void (*count_few)(
            const uint32_t* groups, const uint8_t* bits, int64_t n, int64_t n_groups, int64_t* counts,
        ) noexcept nogil
        void (*sum_all)(
            const int64_t* values, const uint8_t* bits, int64_t n, int64_t* high, uint64_t* low,
        ) noexcept nogil
        double (*sum_doubles)(const double* values, const uint8_t* bits, int64_t n) noexcept nogil
        void (*mask_words)(const uint64_t* values, const uint8_t* bits, int64_t n, uint64_t* out) noexcept nogil
        void (*text_keys)(
            const void* views, const uint8_t* valid, int64_t n, TextKey* keys, uint64_t* prints,
        ) noexcept nogil
        int64_t (*find_texts)(
            const Positions* positions, const TextKey* keys, const void* views, const uint8_t* valid, int64_t n,
            uint32_t* numbers, uint32_t* misses,
        ) noexcept nogil
        uint64_t (*find_words)(
            const Positions* positions, const uint64_t* words, const uint64_t* keys, int64_t n, uint32_t* numbers,
        ) noexcept nogil
        int64_t (*hash_texts)(
            const void* views, const uint8_t* valid, int64_t n, uint64_t* hashes, uint32_t* longer,
        ) noexcept nogil
