"""Assertions: `make debug` compiles them in, a release build evaluates none of them.

An assertion states what the code below it relies on: a slot is below the capacity, a row below the row count, a
selection ascends. It is no check of input: what users or files can get wrong raises an error in every build.
"""

from libc.stdint cimport int64_t, uint32_t


cdef extern from "native/check.h" nogil:
    # Ends the process with `claim`, file and line unless `condition` holds.
    void qc_check(bint condition, const char* claim)
    # values[0..n) ascend strictly and are below `limit`.
    void qc_check_selection(const uint32_t* values, int64_t n, int64_t limit, const char* claim)
    # values[0..n) are below `limit`.
    void qc_check_rows(const uint32_t* values, int64_t n, int64_t limit, const char* claim)
