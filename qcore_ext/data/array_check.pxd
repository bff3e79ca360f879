"""Checks of an Arrow array from outside, made before its pointers are followed.

The checks cover counts of buffers and children, missing buffers, lengths that contradict each other or overflow,
offsets that descend or point outside their array, views that point outside their buffers, indices outside their
dictionary, run ends, type codes, and text. The C Data interface does not state the sizes of buffers. For arrays of
pyarrow, which knows the sizes, `validate()` must be called first.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema


cdef enum IndexState:
    INDICES_GOOD
    INDICES_OUTSIDE             # an index of a valid row is not below n_values
    INDICES_NOT_INTEGER         # the format is not an integer's


# Functions that return `const char*` return the fault, or NULL if there is none.
# Check a record batch, a struct with one child for each column. After a fault `name` is the column's name, or NULL. The
# check is one pass over offsets, views, indices and text. Values of other types are not read. Dictionaries and elements
# of lists are checked as a whole. `text_only`: the layout is known to be sound, and only UTF-8 is checked.
cdef const char* batch_fault(
    const ArrowArray* batch, const ArrowSchema* layout, bint text_only, const char** name,
) noexcept nogil
# Check the counts and buffers of an array, without its values.
cdef const char* array_fault(const ArrowArray* array, const ArrowSchema* layout) noexcept nogil
# Check n >= 1 rows of an array of strings that has passed array_fault, from position `first` of its buffers on, which
# includes the array's offset. data_bytes: the size of the buffer with the strings' bytes, unless they are views.
cdef const char* run_fault(
    const ArrowArray* array, const ArrowSchema* layout, int64_t data_bytes, int64_t first, int64_t n,
) noexcept nogil
# The same for the rows first + picked[i].
cdef const char* fault_at_rows(
    const ArrowArray* array, const ArrowSchema* layout, int64_t data_bytes, int64_t first, const uint32_t* picked,
    int64_t n,
) noexcept nogil
# The text of an error about a fault.
cdef str explain_fault(const char* fault, const char* name)
# Check the n indices from `first` of a dictionary-encoded array, and write them to `out` as uint32, 0 for null rows. If
# `out` is NULL nothing is written. `format` is the Arrow format of the indices. Bit `validity_first` of `validity` is
# that of the first row. n_values must fit uint32 unless `out` is NULL.
cdef IndexState read_indices(
    const char* format, const void* values, int64_t first, int64_t n, const uint8_t* validity, int64_t validity_first,
    uint64_t n_values, uint32_t* out,
) noexcept nogil
