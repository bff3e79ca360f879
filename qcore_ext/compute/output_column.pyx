"""An output column: written from registers, one vector at a time."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.kernel cimport Register
from qcore_ext.data.column cimport FLAT, STORE_CANONICAL, STORE_DECIMAL64, Column, column_new
from qcore_ext.data.schema cimport PHYS_I64, PHYS_I128, TYPE_DECIMAL, DataType, phys_width
from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, Owner, buffer_new, buffer_unref, owner_ref
from qcore_ext.ground.dispatch cimport simd_kernels


cdef int output_begin(OutputColumn* self, const DataType* type, int64_t n_rows, MemoryAccount* account) except -1 nogil:
    self.type = type[0]
    self.account = account
    self.n_rows = n_rows
    self.phys = PHYS_I64 if type.phys == PHYS_I128 else type.phys
    self.values = buffer_new(account, n_rows * phys_width(self.phys))
    return 0


cdef void output_lend(OutputColumn* self, Register* register, int64_t start) noexcept nogil:
    # Kernels of decimals may write 128-bit values before they narrow them.
    if self.type.id == TYPE_DECIMAL:
        return
    if self.lent_values == NULL:
        self.lent_values = register.own_values
    register.own_values = self.values.data + start * phys_width(self.phys)


cdef void output_return(OutputColumn* self, Register* register) noexcept nogil:
    if self.lent_values != NULL:
        register.own_values = self.lent_values
        self.lent_values = NULL


cdef int widen_all(OutputColumn* self, int64_t n_written) except -1 nogil:
    cdef Buffer* wide = buffer_new(self.account, self.n_rows * 16)
    simd_kernels().widen(<const int64_t*> self.values.data, n_written, <int64_t*> wide.data)
    buffer_unref(self.values)
    self.values = wide
    self.phys = PHYS_I128
    return 0


cdef int output_write(OutputColumn* self, const Register* register, int64_t start, int64_t n) except -1 nogil:
    cdef int width
    cdef char* target
    qc_check((start >= 0) & (start + n <= self.n_rows), b"rows to write are rows of the column")
    qc_check(start % 8 == 0, b"rows to write start at a byte of the bitmap")
    if register.phys == PHYS_I128 and self.phys == PHYS_I64:
        widen_all(self, start)
    width = phys_width(self.phys)
    qc_check((start + n) * width <= self.values.size, b"the values of a vector are within the column's buffer")
    target = self.values.data + start * width
    if register.phys == PHYS_I64 and self.phys == PHYS_I128:
        simd_kernels().widen(<const int64_t*> register.values, n, <int64_t*> target)
    elif register.values != target:
        qc_check(phys_width(register.phys) == width, b"a register's values have the width of the column's")
        memcpy(target, register.values, n * width)
    if register.validity != NULL:
        if self.validity == NULL:
            self.validity = buffer_new(self.account, bitmap_bytes(self.n_rows))
            memset(self.validity.data, 0xFF, self.validity.size)
        memcpy(self.validity.data + (start >> 3), register.validity, (n + 7) >> 3)
    return 0


cdef Column* output_finish(OutputColumn* self, Owner* heap) except NULL nogil:
    cdef Column* column = column_new(&self.type, self.n_rows)
    column.encoding = FLAT
    column.storage = STORE_DECIMAL64 if self.phys != self.type.phys else STORE_CANONICAL
    column.values = self.values.data
    column.values_owner = <Owner*> self.values
    self.values = NULL
    if self.validity != NULL:
        column.validity = <const uint8_t*> self.validity.data
        column.validity_owner = <Owner*> self.validity
        self.validity = NULL
    column.heap_owner = owner_ref(heap)
    return column


cdef void output_drop(OutputColumn* self) noexcept nogil:
    buffer_unref(self.values)
    buffer_unref(self.validity)
    self.values = NULL
    self.validity = NULL
