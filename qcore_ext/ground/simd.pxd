"""Kernels over vectors of plain values. native/simd.h documents each; ground.dispatch gives the table."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "native/simd.h" nogil:
    enum:
        SIMD_ADD
        SIMD_SUBTRACT
        SIMD_MULTIPLY
        SIMD_EQUAL
        SIMD_NOT_EQUAL
        SIMD_LESS
        SIMD_LESS_EQUAL
        SIMD_GREATER
        SIMD_GREATER_EQUAL
        SIMD_VV
        SIMD_VS
        SIMD_SV
        SIMD_CHECK_ROWS

    ctypedef int (*SimdArithmetic)(const void* a, const void* b, void* out, int64_t n) noexcept nogil
    ctypedef void (*SimdCompare)(const void* a, const void* b, uint8_t* out, int64_t n) noexcept nogil

    ctypedef struct SimdKernels:
        SimdArithmetic arithmetic[3][12][3]
        SimdArithmetic unchecked[3][3]
        SimdCompare compare[6][12][2]
        uint64_t (*magnitude)(const int64_t* values, int64_t n) noexcept nogil
        uint64_t (*narrow)(const int64_t* wide, int64_t n, int64_t* out) noexcept nogil
        void (*widen)(const int64_t* values, int64_t n, int64_t* out) noexcept nogil
        int64_t (*mask_rows)(const uint8_t* mask, int64_t n, uint32_t base, uint32_t* out) noexcept nogil
        int64_t (*mask_filter)(const uint8_t* mask, const uint32_t* rows, int64_t n, uint32_t* out) noexcept nogil
        int64_t (*mask_count)(const uint8_t* mask, int64_t n) noexcept nogil
        void (*bits_to_mask)(const uint8_t* bits, int64_t n, uint8_t* mask) noexcept nogil
        void (*mask_to_bits)(const uint8_t* mask, int64_t n, uint8_t* bits) noexcept nogil
        void (*mask_and)(const uint8_t* a, const uint8_t* b, uint8_t* out, int64_t n) noexcept nogil
        void (*mask_or)(const uint8_t* a, const uint8_t* b, uint8_t* out, int64_t n) noexcept nogil
        void (*views)(
            const int32_t* offsets, const char* data, int64_t last, const uint32_t* rows, int64_t n, void* out,
        ) noexcept nogil
        void (*views_large)(
            const int64_t* offsets, const char* data, int64_t last, const uint32_t* rows, int64_t n, void* out,
        ) noexcept nogil
        void (*select[5])(const uint8_t* mask, const void* a, const void* b, void* out, int64_t n) noexcept nogil
        uint64_t (*narrow_rows)(const int64_t* wide, const uint32_t* rows, int64_t n, int64_t* out) noexcept nogil
        int64_t (*find)(const char* text, int64_t n, const char* needle, int64_t m) noexcept nogil
        bint (*views_sound)(
            const void* views, const uint32_t* rows, int64_t n, const void** buffers, const int64_t* sizes,
            int64_t n_buffers, bint text,
        ) noexcept nogil
        bint (*strings_sound)(
            const int32_t* offsets, const uint32_t* rows, int64_t n, const uint8_t* data, int64_t limit, bint text,
        ) noexcept nogil
        bint (*large_strings_sound)(
            const int64_t* offsets, const uint32_t* rows, int64_t n, const uint8_t* data, int64_t limit, bint text,
        ) noexcept nogil
        uint8_t (*or_bytes)(const uint8_t* data, int64_t n) noexcept nogil
        int32_t (*or_steps)(const int32_t* offsets, int64_t n) noexcept nogil
        void (*range)(const uint32_t* values, int64_t n, uint32_t* least, uint32_t* most) noexcept nogil
        void (*gather[5])(const void* values, const uint32_t* rows, int64_t n, void* out) noexcept nogil
        void (*scatter_parts[5])(
            const void* values, const uint8_t* parts, int64_t n, uint32_t* counts, int64_t capacity, char* lines,
            char* out,
        ) noexcept nogil
        void (*scatter_parts_pair)(
            const void* values, const void* more, const uint8_t* parts, int64_t n, uint32_t* counts, int64_t capacity,
            char* lines, char* more_lines, char* out, char* more_out,
        ) noexcept nogil
        void (*scatter_runs[5])(
            const void* values, const uint32_t* rows, const uint32_t* ends, int64_t n_runs, char** out,
        ) noexcept nogil
        bint (*views_long)(const void* views, int64_t n) noexcept nogil
        void (*rows_to_bits)(
            const uint32_t* rows, int64_t n, uint32_t base, uint8_t* bits, int64_t n_bytes,
        ) noexcept nogil
