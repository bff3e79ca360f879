"""64-bit hashes of key columns, a vector at a time. Joins, groups and partitions use the same hash function."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.compute.exact_values cimport (
    EXACT_NOTHING, EXACT_NUMBER, EXACT_REAL, EXACT_TIME, exact_kind, exact_rescale, exact_tick, exact_whole,
)
from qcore_ext.data.column cimport VECTOR_ROWS, StringView, Vector
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_INTERVAL, PHYS_U8, PHYS_U16,
    PHYS_U32, PHYS_U64, PHYS_VIEW, TYPE_DECIMAL, TYPE_INT8, TYPE_UINT64, DataType, type_equal,
)
from qcore_ext.ground.bitmap cimport bit_get, is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport grouping_kernels
from qcore_ext.ground.memory cimport account_check
from qcore_ext.ground.prefetch cimport qc_prefetch_range
from qcore_ext.ground.wide cimport int128
from qcore_ext.ground.words cimport Integer, Real

cdef extern from "native/mix.h" nogil:
    uint64_t qc_mix(uint64_t value)
    uint64_t qc_combine(uint64_t so_far, uint64_t value)
    uint64_t qc_hash_bytes(const char* data, int64_t n_bytes)
    uint64_t QC_NULL_HASH

cdef enum:
    LOOK_BYTES = 4194304
    TEXTS_AHEAD = 16            # rows between the one that is hashed and the one whose text is fetched


# The null masks of rows whose columns are all valid.
cdef uint32_t[VECTOR_ROWS] no_nulls


cdef void hash_integers(const Integer* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i = 0
    if Integer is int64_t or Integer is uint64_t:
        # qc_mix of each value, in the processor's widest vectors.
        while i < n:
            grouping_kernels().hash_one(
                <const uint64_t*> values + i, no_nulls, min(n - i, <int64_t> VECTOR_ROWS), out + i
            )
            i += VECTOR_ROWS
    else:
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
            bits = 0x7FF8000000000000ULL        # all NaNs are equal
        out[i] = qc_mix(bits)


cdef void hash_wide(const int64_t* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i, low, high
    for i in range(n):
        low = values[2 * i]
        high = values[2 * i + 1]
        # A value that fits 64 bits has the hash of these bits, because decimals may have either width.
        out[i] = qc_mix(<uint64_t> low) if high == low >> 63 else qc_combine(qc_mix(<uint64_t> low), <uint64_t> high)


cdef int hash_views(
    const StringView* values, const uint8_t* validity, int64_t n, uint64_t* out, const MemoryAccount* account,
) except -1 nogil:
    cdef uint32_t longer[VECTOR_ROWS]
    cdef const StringView* view
    cdef int64_t start = 0
    cdef int64_t n_bytes = 0        # hashed since the last look
    cdef int64_t n_longer, j
    while start < n:
        n_longer = grouping_kernels().hash_texts(
            values + start, NULL if validity == NULL else validity + (start >> 3),
            min(n - start, <int64_t> VECTOR_ROWS), out + start, longer,
        )
        for j in range(n_longer):
            if j + TEXTS_AHEAD < n_longer:
                qc_prefetch_range(values[start + longer[j + TEXTS_AHEAD]].pointer, 1)
            view = &values[start + longer[j]]
            out[start + longer[j]] = qc_hash_bytes(view.pointer, view.length)
            n_bytes += view.length
            if n_bytes >= LOOK_BYTES:
                n_bytes = 0
                account_check(account)
        start += VECTOR_ROWS
    return 0


cdef void hash_intervals(const uint64_t* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = qc_combine(qc_mix(values[2 * i]), values[2 * i + 1])


cdef void hash_nulls(const uint8_t* validity, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = out[i] if bit_get(validity, i) else QC_NULL_HASH


cdef int hash_values(const Vector* vector, int64_t n, uint64_t* out, const MemoryAccount* account) except -1 nogil:
    cdef int64_t i
    if vector.phys == PHYS_I64:
        hash_integers[int64_t](<const int64_t*> vector.values, n, out)
    elif vector.phys == PHYS_I32:
        hash_integers[int32_t](<const int32_t*> vector.values, n, out)
    elif vector.phys == PHYS_VIEW:
        hash_views(<const StringView*> vector.values, vector.validity, n, out, account)
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
    return 0


cdef void combine_hashes(const uint64_t* fresh, int64_t n, uint64_t* hashes) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        hashes[i] = qc_combine(hashes[i], fresh[i])


cdef int hash_vector(
    const Vector* vector, int64_t n, bint combine, uint64_t* hashes, const MemoryAccount* account,
) except -1 nogil:
    cdef uint64_t fresh[VECTOR_ROWS]
    cdef uint64_t* out = hashes
    if combine:
        qc_check(n <= VECTOR_ROWS, b"the hashes of at most a vector of rows are combined at a time")
        out = fresh
    hash_values(vector, n, out, account)
    if vector.validity != NULL:
        hash_nulls(vector.validity, n, out)
    if combine:
        combine_hashes(fresh, n, hashes)
    return 0


cdef bint hash_survives(const DataType* given, const DataType* declared) noexcept nogil:
    if type_equal(given, declared):
        return True
    if TYPE_INT8 <= given.id <= TYPE_UINT64:
        return TYPE_INT8 <= declared.id <= TYPE_UINT64
    if given.id == TYPE_DECIMAL:
        return declared.id == TYPE_DECIMAL and declared.scale == given.scale
    return exact_kind(given) == EXACT_REAL and exact_kind(declared) == EXACT_REAL


cdef uint64_t hash_whole(int128 value) noexcept nogil:
    """The hash of an integer, equal to that of hash_vector for all integer types."""
    cdef uint64_t low = <uint64_t> value
    if value >> 63 == 0 or value >> 63 == -1 or value >> 64 == 0:
        return qc_mix(low)
    return qc_combine(qc_mix(low), <uint64_t> (value >> 64))


cdef uint64_t hash_number(int128 value, int scale, const DataType* declared) noexcept nogil:
    """The hash of an integer divided by a power of ten."""
    cdef int128 there
    cdef uint64_t out
    if declared.id == TYPE_DECIMAL and exact_rescale(value, scale, declared.scale, &there):
        hash_wide(<const int64_t*> &there, 1, &out)
        return out
    while scale > 0 and value % 10 == 0:
        value = value / 10
        scale -= 1
    if exact_rescale(value, scale, 0, &there):
        return hash_whole(there)
    return qc_combine(hash_whole(value), <uint64_t> <int64_t> scale)


cdef uint64_t hash_real(double value) noexcept nogil:
    """The hash of a float. A whole float has the hash of the equal integer."""
    cdef uint64_t out
    if -9223372036854775808.0 <= value < 9223372036854775808.0 and <double> <int64_t> value == value:
        return qc_mix(<uint64_t> <int64_t> value)
    hash_reals[double](&value, 1, &out)
    return out


cdef uint64_t hash_time(int128 nanos, const DataType* declared) noexcept nogil:
    cdef int128 ticks
    if exact_kind(declared) == EXACT_TIME:
        ticks = nanos / exact_tick(declared)
        if ticks * exact_tick(declared) == nanos:
            return qc_mix(<uint64_t> ticks)
    return hash_whole(nanos)


cdef int hash_as_declared(
    const Vector* vector, const DataType* given, const DataType* declared, int64_t n, bint combine, uint64_t* hashes,
    const MemoryAccount* account,
) except -1 nogil:
    cdef int kind = exact_kind(given)
    cdef bint as_real = exact_kind(declared) == EXACT_REAL
    cdef int scale = given.scale if given.id == TYPE_DECIMAL else 0
    cdef uint64_t out
    cdef double value
    cdef int64_t i
    if kind == EXACT_NOTHING:
        return hash_vector(vector, n, combine, hashes, account)
    for i in range(n):
        out = QC_NULL_HASH
        if is_valid(vector.validity, i):
            if kind == EXACT_NUMBER and as_real:
                value = <double> exact_whole(vector, i)
                hash_reals[double](&value, 1, &out)
            elif kind == EXACT_NUMBER:
                out = hash_number(exact_whole(vector, i), scale, declared)
            elif kind == EXACT_TIME:
                out = hash_time(exact_whole(vector, i) * exact_tick(given), declared)
            elif vector.phys == PHYS_F64:
                out = hash_real((<const double*> vector.values)[i])
            else:
                out = hash_real((<const float*> vector.values)[i])
        hashes[i] = qc_combine(hashes[i], out) if combine else out
    return 0
