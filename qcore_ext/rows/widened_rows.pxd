"""Conversion of kept rows to a wider schema."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account
from qcore_ext.rows.column_store cimport ColumnStore

# The batch converted to a wider schema, as a new reference. compute.widener converts many batches at a lower cost.
cdef Batch* batch_widen(Batch* batch, CSchema* wide, Account account) except NULL nogil
# The rows of a store converted from schema `held` to schema `wide`, which data.widening.schema_widen made of `held`.
# Returns a new reference, to the same store if the schemas are equal. New columns are null, nested ones too.
cdef ColumnStore* column_store_widen(
    ColumnStore* store, CSchema* held, CSchema* wide, Account account,
) except NULL nogil
