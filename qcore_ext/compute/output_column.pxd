"""An output column: written from registers, one vector at a time."""

from libc.stdint cimport int64_t, uint8_t

from qcore_ext.compute.kernel cimport Register
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner


ctypedef struct OutputColumn:
    # Zeroed, then initialised by output_begin. output_finish returns the column. output_drop frees the memory that is
    # left.
    DataType type
    MemoryAccount* account      # borrowed
    int64_t n_rows
    uint8_t phys                # of the written values: decimals of more than 18 digits are PHYS_I64 while they fit
    Buffer* values              # owned
    Buffer* validity            # owned; NULL before the first null
    char* lent_values           # the register's own_values while its kernel writes to the column; otherwise NULL

cdef int output_begin(OutputColumn* self, const DataType* type, int64_t n_rows, MemoryAccount* account) except -1 nogil
# Let the register's kernel write its next vector directly to the column, from row `start` on. Does nothing for
# decimals.
cdef void output_lend(OutputColumn* self, Register* register, int64_t start) noexcept nogil
# Restore the register's own_values. Columns must be returned in reverse order, because they may share a register.
cdef void output_return(OutputColumn* self, Register* register) noexcept nogil
# Copy the register's n rows to rows start..start+n. `start` is a multiple of VECTOR_ROWS.
cdef int output_write(OutputColumn* self, const Register* register, int64_t start, int64_t n) except -1 nogil
cdef Column* output_finish(OutputColumn* self, Owner* heap) except NULL nogil      # takes a new reference to `heap`
cdef void output_drop(OutputColumn* self) noexcept nogil
