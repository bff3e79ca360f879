"""Join keys as one integer each: the distance from the build side's smallest key, several keys packed by range.

The build side is complete before the first probe. A key outside its range cannot match, and a key inside it needs only
as many bits as the range has. Two or three integer keys nearly always fit one 64-bit code. Codes of a small range are
addressed directly.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector, VectorScratch
from qcore_ext.ground.memory cimport MemoryAccount


ctypedef struct KeyPart:
    uint64_t minimum            # of the keys' 64-bit patterns, which order as the keys' type does
    uint64_t range              # largest minus smallest
    int shift
    bint is_signed
    bint is_real


ctypedef struct KeyCoder:
    int32_t n_parts
    KeyPart* parts              # owned
    uint64_t range              # no code is larger
    int n_bits
    int64_t n_rows              # rows without a null key


# True when all columns are of types that codes can be made of: integers, dates, decimals of 64 bits, floats, booleans.
cdef bint key_codable(Column** columns, int32_t n_columns) noexcept nogil
# Measure flat key columns over all rows that have no null key: 1 and a coder to be freed when their ranges fit 64 bits
# together, else 0 and nothing to free (but n_rows is set).
cdef int key_coder_measure(
    KeyCoder* coder, Column** columns, int32_t n_columns, VectorScratch* scratch, Vector* vectors,
    const MemoryAccount* account,
) except -1 nogil
cdef void key_coder_free(KeyCoder* coder) noexcept nogil
# flags[i]: 1 when row i has no null and lies in the range; then codes[i] is its code, else 0.
cdef void key_codes(
    const KeyCoder* coder, const Vector* vectors, int64_t n,
    uint64_t* codes,            # OUT
    uint8_t* flags,             # OUT
) noexcept nogil
# flags[i] = 1 where all vectors are valid. False when every row is.
cdef bint rows_without_null(const Vector* vectors, int32_t n_vectors, int64_t n, uint8_t* flags) noexcept nogil
