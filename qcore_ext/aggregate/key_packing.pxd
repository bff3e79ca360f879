"""Key packing: group keys as one or two 64-bit words, if their types and lengths fit.

Two keys are equal if and only if their words and null masks are equal. Therefore -0.0 is stored as 0.0, each NaN as the
same NaN, and the value of a null as zero bits. The null mask has one bit a column.

A string of up to 7 bytes takes one word, with its length in the top byte. A string that is the only key takes both
words, as an inline view of up to 12 bytes.
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
    KEYS_STORED = 3             # other keys: a hash, and key columns


ctypedef struct KeyField:
    uint8_t phys
    uint8_t width               # bytes in the words; 0 for a column of type null
    uint8_t word                # 0 or 1
    uint8_t shift               # bits


ctypedef struct KeyLayout:
    int mode                    # KeyMode; `fields` are set for ONE_WORD and TWO_WORDS only
    int32_t n_columns
    bint is_empty               # all columns are of type null
    KeyField fields[PACKED_COLUMNS_MAX]


cdef void key_layout_choose(KeyLayout* layout, const DataType* types, int32_t n_columns) noexcept nogil
# Pack n keys. Returns False if a string is too long for the layout; the outputs are then undefined. `high` is not
# written for ONE_WORD keys.
cdef bint key_pack(
    const KeyLayout* layout, const Vector* keys, int64_t n,
    uint64_t* low,              # OUT
    uint64_t* high,             # OUT
    uint32_t* nulls,            # OUT; bit c is 1 if column c is null
    uint64_t* scratch,          # n words
) noexcept nogil
# The packed words of keys that need no packing, lone 64-bit integers without nulls; otherwise NULL.
cdef const uint64_t* key_words(const KeyLayout* layout, const Vector* keys) noexcept nogil
# Unpack the canonical values and the validity bits of key column `column` of n keys. If `nulls` is NULL no key has a
# null. Returns whether any is null.
cdef bint key_unpack(
    const KeyLayout* layout, int32_t column, const uint64_t* words, const uint32_t* nulls, int64_t n,
    char* values,               # OUT
    uint8_t* validity,          # OUT; whole 64-bit words are written
) noexcept nogil
