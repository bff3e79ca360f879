"""Rows of a flat column as canonical values: the one place that reads foreign layouts. Floor E1."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column, Vector, VectorScratch

# `column` is FLAT or CONSTANT (then row 0 is the value); n <= VECTOR_ROWS rows: rows[0..n), or start..start+n when rows
# is NULL. `narrow`: a decimal of more than 18 digits comes as PHYS_I64 when all values fit.
cdef int load_flat(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, bint narrow, VectorScratch* scratch,
    Vector* out,
) except -1 nogil
