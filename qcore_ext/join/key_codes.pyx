"""Key codes: the keys of a row as one integer, made of their distances from the smallest keys of the build side."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_U8, PHYS_U16, PHYS_U32, PHYS_U64,
)
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport MemoryAccount, account_check, struct_free, struct_new
from qcore_ext.ground.dispatch cimport probe_kernels, simd_kernels
from qcore_ext.ground.words cimport Real, SmallInteger

cdef uint64_t HIGH_FACTOR = 0x9E3779B97F4A7C15ULL       # odd, so that different numbers have different products
cdef uint64_t HIGH_MAX = 0xFFFFFFFD                 # a number is stored plus one, in 32 bits, and is not NO_POSITION


cdef void widen(const SmallInteger* values, int64_t n, uint64_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <uint64_t> <int64_t> values[i]


cdef void real_patterns(const Real* values, int64_t n, uint64_t* out) noexcept nogil:
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
        out[i] = bits


cdef const uint64_t* patterns(const Vector* vector, int64_t n, uint64_t* scratch) noexcept nogil:
    """The vector's values as 64-bit words, in its own buffer or converted in `scratch`. NULL if its type has no codes.
    """
    if vector.phys == PHYS_I64 or vector.phys == PHYS_U64:
        return <const uint64_t*> vector.values
    if vector.phys == PHYS_I32:
        widen[int32_t](<const int32_t*> vector.values, n, scratch)
    elif vector.phys == PHYS_I16:
        widen[int16_t](<const int16_t*> vector.values, n, scratch)
    elif vector.phys == PHYS_I8:
        widen[int8_t](<const int8_t*> vector.values, n, scratch)
    elif vector.phys == PHYS_U32:
        widen[uint32_t](<const uint32_t*> vector.values, n, scratch)
    elif vector.phys == PHYS_U16:
        widen[uint16_t](<const uint16_t*> vector.values, n, scratch)
    elif vector.phys == PHYS_U8 or vector.phys == PHYS_BOOL:
        widen[uint8_t](<const uint8_t*> vector.values, n, scratch)
    elif vector.phys == PHYS_F64:
        real_patterns[double](<const double*> vector.values, n, scratch)
    elif vector.phys == PHYS_F32:
        real_patterns[float](<const float*> vector.values, n, scratch)
    else:
        return NULL
    return scratch


cdef bint is_codable(uint8_t phys) noexcept nogil:
    return PHYS_BOOL <= phys <= PHYS_F64


cdef bint is_signed(uint8_t phys) noexcept nogil:
    return PHYS_I8 <= phys <= PHYS_I64


cdef bint key_codable(Column** columns, int32_t n_columns) noexcept nogil:
    cdef int32_t i
    for i in range(n_columns):
        if not is_codable(columns[i].type.phys):
            return False
    return True


cdef bint rows_without_null(const Vector* vectors, int32_t n_vectors, int64_t n, uint8_t* flags) noexcept nogil:
    cdef bint some = False
    cdef uint8_t valid[VECTOR_ROWS]
    cdef int32_t k
    for k in range(n_vectors):
        if vectors[k].validity == NULL:
            continue
        if some:
            simd_kernels().bits_to_mask(vectors[k].validity, n, valid)
            simd_kernels().mask_and(flags, valid, flags, n)
        else:
            simd_kernels().bits_to_mask(vectors[k].validity, n, flags)
        some = True
    if not some:
        memset(flags, 1, n)
    return some


cdef void measure_part(
    KeyPart* part, const uint64_t* words, const uint8_t* flags, int64_t n, uint64_t* smallest, uint64_t* largest,
) noexcept nogil:
    """Extend the range smallest..largest by the words of flagged rows. The sign bit of signed words is flipped, so that
    all compare as unsigned numbers.
    """
    cdef uint64_t low = smallest[0]
    cdef uint64_t high = largest[0]
    cdef uint64_t flip = (<uint64_t> 1) << 63 if part.is_signed else 0
    cdef uint64_t word
    cdef int64_t i
    for i in range(n):
        word = words[i] ^ flip
        low = word if flags[i] and word < low else low
        high = word if flags[i] and word > high else high
    smallest[0] = low
    largest[0] = high


cdef int bit_length(uint64_t value) noexcept nogil:
    cdef int n = 0
    while value != 0:
        value >>= 1
        n += 1
    return n


cdef int key_coder_open(KeyCoder* coder, Column** columns, int32_t n_columns) except -1 nogil:
    cdef int32_t k
    coder.parts = <KeyPart*> struct_new(n_columns * sizeof(KeyPart))
    coder.n_parts = n_columns
    coder.n_bits = 0
    coder.n_rows = 0
    coder.range = 0
    for k in range(n_columns):
        coder.parts[k].is_signed = is_signed(columns[k].type.phys)
        coder.parts[k].is_real = columns[k].type.phys == PHYS_F32 or columns[k].type.phys == PHYS_F64
    return 0


cdef int key_coder_measure(
    const KeyCoder* coder, Column** columns, int64_t start, int64_t n_rows, uint64_t* bounds, VectorScratch* scratch,
    Vector* vectors, const MemoryAccount* account,
) except -1 nogil:
    cdef uint64_t words[VECTOR_ROWS]
    cdef uint8_t flags[VECTOR_ROWS]
    cdef uint64_t* smallest = bounds
    cdef uint64_t* largest = bounds + coder.n_parts
    cdef int64_t end = start + n_rows
    cdef int64_t n, i
    cdef int64_t n_valid = 0
    cdef int32_t k
    for k in range(coder.n_parts):
        smallest[k] = ~(<uint64_t> 0)
        largest[k] = 0
    while start < end:
        n = min(<int64_t> VECTOR_ROWS, end - start)
        account_check(account)
        for k in range(coder.n_parts):
            column_load(columns[k], start, NULL, n, &scratch[k], &vectors[k])
        if rows_without_null(vectors, coder.n_parts, n, flags):
            for i in range(n):
                n_valid += flags[i]
        else:
            n_valid += n
        for k in range(coder.n_parts):
            measure_part(&coder.parts[k], patterns(&vectors[k], n, words), flags, n, &smallest[k], &largest[k])
        start += n
    bounds[2 * coder.n_parts] = <uint64_t> n_valid
    return 0


cdef inline uint64_t high_bits(uint64_t code, int shift) noexcept nogil:
    """The bits of a shifted code from bit 64 on. The shift is below 96."""
    if shift >= 64:
        return code << (shift - 64)
    return code >> (64 - shift) if shift > 0 else 0


cdef bint key_coder_fit(KeyCoder* coder, const uint64_t* bounds, int64_t n_bounds) noexcept nogil:
    cdef int32_t n_parts = coder.n_parts
    cdef int64_t step = 2 * n_parts + 1
    cdef KeyPart* part
    cdef uint64_t high = 0
    cdef uint64_t flip, smallest, largest
    cdef int64_t b
    cdef int32_t k
    coder.n_rows = 0
    for b in range(n_bounds):
        coder.n_rows += <int64_t> bounds[b * step + 2 * n_parts]
    if coder.n_rows == 0:
        return False
    for k in range(n_parts):
        part = &coder.parts[k]
        smallest = ~(<uint64_t> 0)
        largest = 0
        for b in range(n_bounds):
            smallest = min(smallest, bounds[b * step + k])
            largest = max(largest, bounds[b * step + n_parts + k])
        flip = (<uint64_t> 1) << 63 if part.is_signed else 0
        part.minimum = smallest ^ flip
        part.range = largest - smallest
        part.shift = coder.n_bits
        if coder.n_bits < 64:
            coder.range |= part.range << coder.n_bits
        coder.n_bits += bit_length(part.range)
        if coder.n_bits <= 96:
            high |= high_bits(part.range, part.shift)
    coder.is_wide = coder.n_bits > 64
    if coder.is_wide:
        coder.range = ~(<uint64_t> 0)
    return coder.n_bits <= 96 and high <= HIGH_MAX


cdef void key_coder_free(KeyCoder* coder) noexcept nogil:
    struct_free(coder.parts)
    coder.parts = NULL
    coder.n_parts = 0


cdef void add_codes(
    const uint64_t* words, int64_t n, uint64_t minimum, uint64_t span, int shift, uint64_t* codes, uint8_t* flags,
) noexcept nogil:
    cdef int64_t i
    cdef uint64_t code
    for i in range(n):
        code = words[i] - minimum
        flags[i] &= code <= span
        codes[i] = (codes[i] | code << shift) if flags[i] else 0


cdef void add_high_bits(
    const uint64_t* words, int64_t n, uint64_t minimum, int shift, uint32_t* high,
) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        high[i] |= <uint32_t> high_bits(words[i] - minimum, shift)


cdef void key_codes_wide(
    const KeyCoder* coder, const Vector* vectors, int64_t n, uint64_t* codes, uint32_t* high, uint8_t* flags,
) noexcept nogil:
    cdef uint64_t converted[VECTOR_ROWS]
    cdef uint8_t valid[VECTOR_ROWS]
    cdef const uint64_t* words
    cdef const KeyPart* part
    cdef int64_t i
    cdef int32_t k
    memset(codes, 0, n * 8)
    memset(high, 0, n * 4)
    memset(flags, 1, n)
    for k in range(coder.n_parts):
        part = &coder.parts[k]
        words = patterns(&vectors[k], n, converted)
        if part.shift < 64:
            add_codes(words, n, part.minimum, part.range, part.shift, codes, flags)
        else:
            for i in range(n):
                flags[i] &= words[i] - part.minimum <= part.range
        add_high_bits(words, n, part.minimum, part.shift, high)
    for i in range(n):
        high[i] += 1
        codes[i] ^= high[i] * HIGH_FACTOR
    if rows_without_null(vectors, coder.n_parts, n, valid):
        for i in range(n):
            flags[i] &= valid[i]


cdef void key_codes(
    const KeyCoder* coder, const Vector* vectors, int64_t n, uint64_t* codes, uint8_t* flags,
) noexcept nogil:
    cdef uint64_t words[VECTOR_ROWS]
    cdef uint8_t valid[VECTOR_ROWS]
    cdef const KeyPart* part
    cdef int64_t i
    cdef int32_t k
    for k in range(coder.n_parts):
        part = &coder.parts[k]
        if k == 0:
            probe_kernels().codes(patterns(&vectors[k], n, words), n, part.minimum, part.range, codes, flags)
        else:
            # A part after 64 bits has range 0 and adds nothing. A shift by 64 would be undefined.
            add_codes(
                patterns(&vectors[k], n, words), n, part.minimum, part.range, part.shift & 63, codes, flags
            )
    if rows_without_null(vectors, coder.n_parts, n, valid):
        # All null rows read the same slot, which stays in the cache.
        for i in range(n):
            flags[i] &= valid[i]
            codes[i] &= -<uint64_t> valid[i]
    for i in range(n):
        qc_check(codes[i] <= coder.range, b"a code is within the range of codes")
