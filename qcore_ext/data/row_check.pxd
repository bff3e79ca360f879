"""Rows of an array of strings from outside, checked when they are first loaded.

The check reads the bytes that the load reads next, so it costs little more than its arithmetic. It fetches the next
section into the cache while the load works: the check alone would wait for memory. Rows that no query loads are not
checked. Sections of ROW_CHECK_ROWS rows that were checked are remembered, and are not checked again. Of
a section of which a query loads a few rows, only these are checked, and not remembered: until as many rows as the array
has were checked so. From then on such a section is checked as a whole. So all checks of an array together cost at
most about twice a check of all its rows, and a query never pays for many rows that it does not load before that. Any
thread may load.
"""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.memory cimport Owner


cdef enum:
    # Rows of a section. A load checks and loads that many at a time, which are then in the first-level cache. Fewer
    # would cost more calls.
    ROW_CHECK_ROWS = 256


cdef struct RowCheck:
    Owner owner
    ArrowArray array            # owned
    ArrowSchema layout          # owned; without the name, which stands in `name`
    char* name                  # owned; the column's
    int64_t data_bytes          # of the buffer that offsets point into
    int64_t n_left              # atomic; sections that are not done
    int64_t n_picked            # atomic; rows checked without their section, those checked twice counted twice
    int64_t n_sections
    int64_t* done               # owned, atomic; 1 for each section that is, by position in the array's buffers


# Called before the rows first + rows[i], or first + i if `rows` is NULL, of the array's buffers are loaded.
# ExecutionError, naming the column, if one of them is malformed.
cdef int row_check(RowCheck* self, int64_t first, const uint32_t* rows, int64_t n) except -1 nogil


# Whether n rows of an array, from position `first` of its buffers on, are among those that are checked.
cdef bint row_check_covers(const RowCheck* self, const ArrowArray* array, int64_t first, int64_t n) noexcept nogil


cdef class RowChecks:
    """The check of one array; a Stream gives it to the columns over the same buffers."""
    cdef RowCheck* check        # owned
