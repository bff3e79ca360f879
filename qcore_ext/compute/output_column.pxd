"""A column written a vector at a time from registers."""

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
    char* displaced             # the register's own room, while its kernel writes here

cdef int output_begin(OutputColumn* self, const DataType* type, int64_t n_rows, MemoryAccount* account) except -1 nogil
# Let the register's kernel write its next vector, from row `start`, into the column itself; no effect where it cannot.
cdef void output_lend(OutputColumn* self, Register* register, int64_t start) noexcept nogil
# Give the register its own room back; in reverse order, for one register may feed several columns.
cdef void output_return(OutputColumn* self, Register* register) noexcept nogil
# Rows start..start+n := register's; start a multiple of VECTOR_ROWS.
cdef int output_write(OutputColumn* self, const Register* register, int64_t start, int64_t n) except -1 nogil
cdef Column* output_finish(OutputColumn* self, Owner* heap) except NULL nogil      # references heap
cdef void output_drop(OutputColumn* self) noexcept nogil
