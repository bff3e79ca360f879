"""Group keys packed into one or two 64-bit words, where their types and lengths allow.

Equal keys are equal words: -0.0 is stored as 0.0, every NaN as one NaN, the value under a null as zero bits, and which
of a row's columns are null goes into a mask beside the words. A string of up to 7 bytes is one word, length in the top
byte; a lone string key uses both words as an inline view of up to 12 bytes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType

cdef enum:
    KEY_COLUMNS_MAX = 64
    PACKED_COLUMNS_MAX = 16

cpdef enum KeyMode:
    KEYS_NONE = 0               # no key columns: one group
    KEYS_ONE_WORD = 1
    KEYS_TWO_WORDS = 2
    KEYS_STORED = 3             # anything: hash and stored columns


ctypedef struct KeyField:
    uint8_t phys
    uint8_t width               # bytes it takes in the words; 0: a column of type null
    uint8_t word                # 0 or 1
    uint8_t shift               # bits


ctypedef struct KeyLayout:
    int mode                    # KeyMode; only the words of ONE_WORD and TWO_WORDS keys are described by fields
    int32_t n_columns
    bint is_empty               # all columns are of type null
    KeyField fields[PACKED_COLUMNS_MAX]


cdef void key_layout_choose(KeyLayout* layout, const DataType* types, int32_t n_columns) noexcept nogil
# False when a string is too long for the layout; the outputs then hold rubbish. `high` is not touched for ONE_WORD
# keys.
cdef bint key_pack(
    const KeyLayout* layout, const Vector* keys, int64_t n,
    uint64_t* low,              # OUT
    uint64_t* high,             # OUT
    uint32_t* nulls,            # OUT; bit c: column c is null
    uint64_t* scratch,          # n words
) noexcept nogil
# Canonical values of key column `column` of n packed keys, and their validity bits. Returns whether any is null.
cdef bint key_unpack(
    const KeyLayout* layout, int32_t column, const uint64_t* words, const uint32_t* nulls, int64_t n,
    char* values,               # OUT
    uint8_t* validity,          # OUT; whole 64-bit words are written
) noexcept nogil
