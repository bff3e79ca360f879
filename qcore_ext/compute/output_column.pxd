"""A column written a vector at a time from registers. Floor E2."""

from libc.stdint cimport int64_t, uint8_t

from qcore_ext.compute.kernel cimport Register
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner


ctypedef struct OutputColumn:
    # Zero-initialised, then output_begin. output_finish hands the column over; output_drop frees what is left.
    DataType type
    MemoryAccount* account      # borrowed
    int64_t n_rows
    # of the values so far: decimals of more than 18 digits stay PHYS_I64 as long as they fit
    uint8_t phys
    Buffer* values
    Buffer* validity            # NULL until a null comes

cdef int output_begin(OutputColumn* self, const DataType* type, int64_t n_rows, MemoryAccount* account) except -1 nogil
# Where the n values from row `start` on may be written directly; NULL when they may not.
cdef char* output_place(OutputColumn* self, int64_t start) noexcept nogil
# Rows start..start+n := register's; start a multiple of VECTOR_ROWS.
cdef int output_write(OutputColumn* self, const Register* register, int64_t start, int64_t n) except -1 nogil
cdef Column* output_finish(OutputColumn* self, Owner* heap) except NULL nogil      # references heap
cdef void output_drop(OutputColumn* self) noexcept nogil
