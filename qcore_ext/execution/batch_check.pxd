"""Checks of the batches that operators hand over, in checked mode (QCORE_DEBUG=1)."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema

# Raise ExecutionError if `batch` violates batch.pxd or column.pxd, or has another schema than `schema` (may be NULL).
cdef int check_batch(const Batch* batch, const CSchema* schema) except -1 nogil
