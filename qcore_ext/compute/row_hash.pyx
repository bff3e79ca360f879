"""64-bit hashes of key columns, a vector at a time; the one hash function of joins, groups and partitions. Floor E2."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.data.column cimport VECTOR_ROWS, VIEW_INLINE_BYTES, StringView, Vector, view_data
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_INTERVAL, PHYS_U8, PHYS_U16,
    PHYS_U32, PHYS_U64, PHYS_VIEW, TYPE_DECIMAL, TYPE_FLOAT32, TYPE_FLOAT64, TYPE_INT8, TYPE_NULL, TYPE_UINT64,
    DataType, type_equal,
)
from qcore_ext.ground.bitmap cimport bit_get

cdef extern from "native/mix.h" nogil:
    uint64_t qc_mix(uint64_t value)
    uint64_t qc_combine(uint64_t so_far, uint64_t value)
    uint64_t qc_hash_bytes(const char* data, int64_t n_bytes)
    uint64_t QC_NULL_HASH

ctypedef fused Integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Real:
    float
    double


cdef void hash_integers(const Integer* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = qc_mix(<uint64_t> <int64_t> values[i])


cdef void hash_reals(const Real* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    cdef double value
    cdef uint64_t bits
    for i in range(n):
        value = values[i]
        if value == 0:
            value = 0               # -0.0 equals 0.0
        memcpy(&bits, &value, 8)
        if value != value:
            bits = 0x7FF8000000000000ULL        # every NaN is one value
        out[i] = qc_mix(bits)


cdef void hash_wide(const int64_t* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i, low, high
    for i in range(n):
        low = values[2 * i]
        high = values[2 * i + 1]
        # A value that fits 64 bits hashes as those bits alone: decimals come in either width.
        out[i] = qc_mix(<uint64_t> low) if high == low >> 63 else qc_combine(qc_mix(<uint64_t> low), <uint64_t> high)


cdef void hash_views(const StringView* values, const uint8_t* validity, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    cdef const uint64_t* words
    for i in range(n):
        words = <const uint64_t*> &values[i]
        if values[i].length <= VIEW_INLINE_BYTES:
            out[i] = qc_combine(qc_mix(words[0]), words[1])
        elif validity == NULL or bit_get(validity, i):
            out[i] = qc_hash_bytes(view_data(&values[i]), values[i].length)


cdef void hash_intervals(const uint64_t* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = qc_combine(qc_mix(values[2 * i]), values[2 * i + 1])


cdef void hash_nulls(const uint8_t* validity, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = out[i] if bit_get(validity, i) else QC_NULL_HASH


cdef void hash_values(const Vector* vector, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    if vector.phys == PHYS_I64:
        hash_integers[int64_t](<const int64_t*> vector.values, n, out)
    elif vector.phys == PHYS_I32:
        hash_integers[int32_t](<const int32_t*> vector.values, n, out)
    elif vector.phys == PHYS_VIEW:
        hash_views(<const StringView*> vector.values, vector.validity, n, out)
    elif vector.phys == PHYS_I128:
        hash_wide(<const int64_t*> vector.values, n, out)
    elif vector.phys == PHYS_F64:
        hash_reals[double](<const double*> vector.values, n, out)
    elif vector.phys == PHYS_F32:
        hash_reals[float](<const float*> vector.values, n, out)
    elif vector.phys == PHYS_I16:
        hash_integers[int16_t](<const int16_t*> vector.values, n, out)
    elif vector.phys == PHYS_I8:
        hash_integers[int8_t](<const int8_t*> vector.values, n, out)
    elif vector.phys == PHYS_U8 or vector.phys == PHYS_BOOL:
        hash_integers[uint8_t](<const uint8_t*> vector.values, n, out)
    elif vector.phys == PHYS_U16:
        hash_integers[uint16_t](<const uint16_t*> vector.values, n, out)
    elif vector.phys == PHYS_U32:
        hash_integers[uint32_t](<const uint32_t*> vector.values, n, out)
    elif vector.phys == PHYS_U64:
        hash_integers[uint64_t](<const uint64_t*> vector.values, n, out)
    elif vector.phys == PHYS_INTERVAL:
        hash_intervals(<const uint64_t*> vector.values, n, out)
    else:
        for i in range(n):
            out[i] = QC_NULL_HASH


cdef void combine_hashes(const uint64_t* fresh, int64_t n, uint64_t* hashes) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        hashes[i] = qc_combine(hashes[i], fresh[i])


cdef void hash_vector(const Vector* vector, int64_t n, bint combine, uint64_t* hashes) noexcept nogil:
    cdef uint64_t fresh[VECTOR_ROWS]
    cdef uint64_t* out = hashes
    if combine:
        out = fresh
    hash_values(vector, n, out)
    if vector.validity != NULL:
        hash_nulls(vector.validity, n, out)
    if combine:
        combine_hashes(fresh, n, hashes)


cdef bint hash_survives(const DataType* narrow, const DataType* wide) noexcept nogil:
    if type_equal(narrow, wide) or narrow.id == TYPE_NULL or wide.id == TYPE_NULL:
        return True
    if TYPE_INT8 <= narrow.id <= TYPE_UINT64:
        if TYPE_INT8 <= wide.id <= TYPE_UINT64:
            return True
        # Unsigned values past 63 bits are negative as integers, and not as decimals.
        return wide.id == TYPE_DECIMAL and wide.scale == 0 and narrow.id != TYPE_UINT64
    if narrow.id == TYPE_DECIMAL:
        return wide.id == TYPE_DECIMAL and wide.scale == narrow.scale
    return narrow.id == TYPE_FLOAT32 and wide.id == TYPE_FLOAT64
