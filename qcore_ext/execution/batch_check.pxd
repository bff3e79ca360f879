"""Verification of the batches that operators hand over, in checked mode (QCORE_DEBUG=1)."""

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema

# ExecutionError when `batch` breaks a promise of batch.pxd or column.pxd, or differs from `schema` (NULL: not checked).
cdef int check_batch(const Batch* batch, const CSchema* schema) except -1 nogil
