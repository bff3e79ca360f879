"""Checks of an Arrow array from outside, made before its pointers are followed.

The C Data interface does not state the sizes of buffers. These are checked: counts of buffers and children,
buffers that are NULL, lengths that do not fit each other or overflow, offsets that descend or leave the array below,
views that leave their buffers, indices outside their dictionary, run ends, type codes, and text. Where pyarrow knows
the sizes, its `validate()` must be called first.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema


cdef enum IndexState:
    INDICES_GOOD
    INDICES_OUTSIDE             # an index of a valid row is not below n_values
    INDICES_NOT_INTEGER         # the format is not an integer's


# What is wrong with a record batch, a struct with one child a column, or NULL; `name` is then the column's, or NULL.
# One pass over offsets, views, indices and text; the values of other types are not read. Dictionaries and the elements
# of lists are checked whole. `text_only`: the layout is known to be good, and only UTF-8 is looked for.
cdef const char* batch_fault(
    const ArrowArray* batch, const ArrowSchema* layout, bint text_only, const char** name,
) noexcept nogil
# What is wrong with the counts and buffers of an array, whose values are not read; or NULL.
cdef const char* array_fault(const ArrowArray* array, const ArrowSchema* layout) noexcept nogil
# What is wrong with n >= 1 rows of an array of strings, past array_fault, from position `first` of its buffers on (the
# array's offset counts in); or NULL. data_bytes: the size of the buffer with the strings' bytes, unless they are views.
cdef const char* run_fault(
    const ArrowArray* array, const ArrowSchema* layout, int64_t data_bytes, int64_t first, int64_t n,
) noexcept nogil
# The same of the rows first + picked[i].
cdef const char* picked_fault(
    const ArrowArray* array, const ArrowSchema* layout, int64_t data_bytes, int64_t first, const uint32_t* picked,
    int64_t n,
) noexcept nogil
# What an error says of it.
cdef str explain_fault(const char* fault, const char* name)
# Checks the n indices from `first` of a dictionary-encoded array, and writes them to `out` as uint32, 0 for null rows.
# `out` may be NULL: nothing is written. `format` is the Arrow format of the indices. Bit `validity_first` of `validity`
# is the first row's. n_values must fit uint32 where `out` is given.
cdef IndexState read_indices(
    const char* format, const void* values, int64_t first, int64_t n, const uint8_t* validity, int64_t validity_first,
    uint64_t n_values, uint32_t* out,
) noexcept nogil
