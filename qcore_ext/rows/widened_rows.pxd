"""Kept rows under a wider schema than they came in. SPEC D6."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account
from qcore_ext.rows.column_store cimport ColumnStore

# A batch under a wider schema, a new reference: for one batch at a time; compute.widener is for many.
cdef Batch* batch_widened(Batch* batch, CSchema* wide, Account account) except NULL nogil
# The rows of a store whose columns are `held`, under `wide`, which data.widening.schema_widen made of it: a new
# reference, to the same store when nothing changes. SchemaChangeError when a column of lists, structs or maps is new:
# the rows kept have none.
cdef ColumnStore* column_store_widened(
    ColumnStore* store, CSchema* held, CSchema* wide, Account account,
) except NULL nogil
