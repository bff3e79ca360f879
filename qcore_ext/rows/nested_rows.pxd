"""Lists, structs and maps that are kept: as they came, put together once by pyarrow."""

from libc.stdint cimport int32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount, OwnerList

cdef bint schema_has_nested(const CSchema* schema) noexcept nogil
# A batch of the nested ones among the columns at `positions`, which `stored` describes, with the rows that `batch`
# selects.
cdef Batch* nested_part(Batch* batch, const CSchema* stored, const int32_t* positions) except NULL nogil
# One batch with flat columns of all rows of the parts, in order; there is at least one part. The account pays for it,
# and meanwhile for what pyarrow puts together.
cdef Batch* nested_concat(const OwnerList* parts, MemoryAccount* account) except NULL nogil
