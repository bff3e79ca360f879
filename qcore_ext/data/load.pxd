"""Rows of a flat column as canonical values. Only this module reads storage layouts."""

from libc.stdint cimport int64_t, uint32_t

from qcore_ext.data.column cimport Column, Vector, VectorScratch
from qcore_ext.data.schema cimport DataType

# Canonical values of n <= VECTOR_ROWS rows: rows[0..n) of the column, or start..start+n if rows is NULL; `start` is a
# multiple of 8 then. The physical type is that of the column's type. Raises ExecutionError if a stored decimal does not
# fit its type.
cdef int column_load(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) except -1 nogil
# column_load, but a decimal of more than 18 digits is loaded as PHYS_I64 if all n values fit 64 bits.
cdef int column_load_narrow(
    const Column* column, int64_t start, const uint32_t* rows, int64_t n, VectorScratch* scratch, Vector* out,
) except -1 nogil
# The first value of a FLAT column whose values of fixed width are stored as Arrow stores them, decimals in 16 bytes and
# everything else but booleans as Physical describes; NULL for other columns and layouts.
cdef const char* column_arrow_values(const Column* column) noexcept nogil
# Bytes of such a value in Arrow; 0: values of the type have no fixed width of whole bytes.
cdef int arrow_width(const DataType* type) noexcept nogil
