"""Lists, structs and maps of kept rows. They stay in their batches, and pyarrow concatenates them once at the end."""

from libc.stdint cimport int32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount, OwnerList

cdef bint schema_has_nested(const CSchema* schema) noexcept nogil
# The nested columns of a schema alone: a new reference.
cdef CSchema* nested_fields(const CSchema* stored) except NULL nogil
# A batch with the nested columns of `batch` and its selection. `stored` describes the columns to keep; positions[i] is
# the column of `batch` for field i of `stored`.
cdef Batch* nested_part(Batch* batch, const CSchema* stored, const int32_t* positions) except NULL nogil
# One batch with flat columns of all rows of the parts, in order. There must be a part. The account is charged for the
# result and, during the call, for pyarrow's copies.
cdef Batch* nested_concat(const OwnerList* parts, MemoryAccount* account) except NULL nogil
