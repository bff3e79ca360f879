"""Key codes: the keys of a row as one integer, made of their distances from the smallest keys of the build side.

The build side is complete before the first probe. A key outside its range cannot match. A key inside it needs only as
many bits as the range has, so two or three integer keys nearly always fit in one 64-bit code. Codes of a small range
are indices of an array. Codes of up to 96 bits are wide: a word and a further number of 32 bits.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column, Vector, VectorScratch
from qcore_ext.ground.memory cimport MemoryAccount


ctypedef struct KeyPart:
    uint64_t minimum            # smallest key, as a 64-bit pattern
    uint64_t range              # largest key minus smallest key
    int shift
    bint is_signed
    bint is_real


ctypedef struct KeyCoder:
    int32_t n_parts
    KeyPart* parts              # owned
    uint64_t range              # the largest possible code; of a wide code all bits are 1
    int n_bits
    bint is_wide                # the code has more than 64 bits: key_codes_wide makes it
    int64_t n_rows              # number of rows without a null key


# Whether codes can be made of all columns. Possible types are integers, dates, decimals of 64 bits, floats and
# booleans.
cdef bint key_codable(Column** columns, int32_t n_columns) noexcept nogil
# Prepare to measure the columns. The coder must then be freed.
cdef int key_coder_open(KeyCoder* coder, Column** columns, int32_t n_columns) except -1 nogil
# Find the smallest and the largest key of each part, among the rows start..start+n_rows without a null key. Several
# threads may measure different rows.
cdef int key_coder_measure(
    const KeyCoder* coder, Column** columns, int64_t start, int64_t n_rows,
    uint64_t* bounds,           # OUT, 2 * n_parts + 1: the smallest keys, the largest keys, the number of rows
    VectorScratch* scratch, Vector* vectors, const MemoryAccount* account,
) except -1 nogil
# Lay the codes out for all rows that were measured. Returns False if their ranges do not fit a code together, or if no
# row has all keys; only n_rows is then useful.
cdef bint key_coder_fit(KeyCoder* coder, const uint64_t* bounds, int64_t n_bounds) noexcept nogil
cdef void key_coder_free(KeyCoder* coder) noexcept nogil
# Set flags[i] to 1 if row i has no null key and its keys are in the ranges; codes[i] is then its code. Otherwise
# flags[i] is 0, and codes[i] is any number up to the largest code.
cdef void key_codes(
    const KeyCoder* coder, const Vector* vectors, int64_t n,
    uint64_t* codes,            # OUT
    uint8_t* flags,             # OUT
) noexcept nogil
# The same for wide codes. Rows have equal keys if their `codes` and their `high` numbers are equal. The words are mixed
# with the numbers, so that keys which differ in their high bits alone have different words. `high` is never 0.
cdef void key_codes_wide(
    const KeyCoder* coder, const Vector* vectors, int64_t n,
    uint64_t* codes,            # OUT
    uint32_t* high,             # OUT
    uint8_t* flags,             # OUT
) noexcept nogil
# Set flags[i] to 1 if row i is valid in all vectors. Returns False if no vector has a validity bitmap.
cdef bint rows_without_null(const Vector* vectors, int32_t n_vectors, int64_t n, uint8_t* flags) noexcept nogil
