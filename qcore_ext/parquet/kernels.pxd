"""Decoders of Parquet's pages and encodings. The headers in native/ document each."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "parquet/native/kernels.h" nogil:
    enum:
        QP_SLACK
        QP_STEP

    ctypedef struct QpRuns:
        const uint8_t* at
        int64_t left

    ctypedef struct QpDelta:
        int64_t left

    ctypedef struct QpView:
        uint32_t length
        const uint8_t* pointer

    void qp_runs_open(QpRuns* runs, const uint8_t* at, const uint8_t* end, int width)
    void qp_runs_packed(QpRuns* runs, const uint8_t* at, const uint8_t* end, int width, int64_t n)
    bint qp_runs_skip(QpRuns* runs, int64_t n)
    bint qp_runs_pick(QpRuns* runs, const uint32_t* places, int64_t k, int64_t n, uint32_t* out)
    void qp_set_bits(uint8_t* bits, int64_t at, int64_t n)
    int64_t qp_msb_bits(const uint8_t* packed, int64_t first, int64_t n, uint8_t* bits, int64_t at)
    int64_t qp_delta_open(QpDelta* delta, const uint8_t* at, const uint8_t* end)
    bint qp_delta_next(QpDelta* delta, int64_t n, int64_t* out)
    const uint8_t* qp_delta_end(const QpDelta* delta)
    int64_t qp_views_plain(const uint8_t** at, const uint8_t* end, int64_t n, QpView* out)
    int64_t qp_plain_skip(const uint8_t** at, const uint8_t* end, int64_t n)
    bint qp_views_pick(
        const uint8_t** at, const uint8_t* end, const uint32_t* places, int64_t k, int64_t n, QpView* out,
    )
    int64_t qp_views_lengths(const int64_t* lengths, int64_t n, const uint8_t** at, const uint8_t* end, QpView* out)
    void qp_pick(const uint8_t* values, int64_t width, const uint32_t* places, int64_t k, uint8_t* out)
    void qp_decimals(const uint8_t* values, int64_t n, int width, int64_t* out)
    void qp_decimals_wide(const uint8_t* values, int64_t n, int width, int64_t* out)
    bint qp_decimals_narrow(const uint8_t* values, int64_t n, int width, int64_t* out)
    void qp_widen32(const uint8_t* values, int64_t n, int64_t* out)
    void qp_cut16(const uint8_t* values, int64_t n, uint16_t* out)
    void qp_cut8(const uint8_t* values, int64_t n, uint8_t* out)
    void qp_cut64(const int64_t* values, int64_t n, int bytes, void* out)
    void qp_streams(const uint8_t* values, int64_t total, int64_t at, int64_t n, int width, uint8_t* out)

    ctypedef struct QpKernels:
        const char* instruction_set
        int64_t (*codes)(QpRuns* runs, int64_t n, uint32_t* out) noexcept nogil
        int64_t (*bits)(QpRuns* runs, int64_t n, uint8_t* bits, int64_t at) noexcept nogil
        uint32_t (*greatest)(const uint32_t* codes, int64_t n) noexcept nogil
        void (*gather[5])(const void* values, const uint32_t* codes, int64_t n, void* out) noexcept nogil
        void (*spread[5])(const uint8_t* bits, int64_t first, int64_t n, int64_t n_values, void* values) noexcept nogil
        int64_t (*places)(
            const uint8_t* bits, const uint32_t* rows, uint32_t base, int64_t k, uint32_t* places, uint8_t* validity,
            int64_t first,
        ) noexcept nogil


cdef extern from "parquet/native/page_header.h" nogil:
    enum:
        QP_DATA_PAGE
        QP_INDEX_PAGE
        QP_DICTIONARY_PAGE
        QP_DATA_PAGE_V2

    ctypedef struct QpPage:
        int64_t type
        int64_t n_bytes
        int64_t n_uncompressed
        int64_t n_values
        int64_t encoding
        int64_t level_encoding
        int64_t n_nulls
        int64_t definition_bytes
        int64_t repetition_bytes
        int64_t is_compressed
        int has_details

    int64_t qp_page_header(const uint8_t* bytes, int64_t n, QpPage* page)


cdef extern from "parquet/native/snappy.h" nogil:
    int64_t qp_snappy_length(const uint8_t* compressed, int64_t n)
    bint qp_snappy(const uint8_t* compressed, int64_t n, uint8_t* out, int64_t size)
    bint qp_snappy_pair(
        const uint8_t* a, int64_t n_a, uint8_t* out_a, int64_t size_a,
        const uint8_t* b, int64_t n_b, uint8_t* out_b, int64_t size_b,
    )


# The decoders for the instruction set that ground/dispatch uses now. Called with the GIL.
cdef const QpKernels* parquet_kernels() except NULL
