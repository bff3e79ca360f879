"""Assertions. `make debug` compiles them in; a release build evaluates none of them.

An assertion states what the following code relies on: a slot is below the capacity, a row below the row count, a
selection ascends. It does not check input: wrong input of users or files raises an error in every build.
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t


cdef extern from "native/check.h" nogil:
    # Ends the process with `claim`, file and line unless `condition` holds.
    void qc_check(bint condition, const char* claim)
    # values[0..n) ascend strictly and are below `limit`.
    void qc_check_selection(const uint32_t* values, int64_t n, int64_t limit, const char* claim)
    # values[0..n) are below `limit`.
    void qc_check_rows(const uint32_t* values, int64_t n, int64_t limit, const char* claim)
    # values[0..n) are below `limit`, or NO_ROW.
    void qc_check_indices(const uint32_t* values, int64_t n, int64_t limit, const char* claim)
    # values[0..n) are below `limit`.
    void qc_check_partitions(const uint16_t* values, int64_t n, int64_t limit, const char* claim)
    # offsets[0..n] ascend; equal ones may follow each other.
    void qc_check_offsets(const int32_t* offsets, int64_t n, const char* claim)
    void qc_check_large_offsets(const int64_t* offsets, int64_t n, const char* claim)
