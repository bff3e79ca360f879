"""Schema drift: batches of another schema than their operator declares.

A source may read files of different schemas. `Operator.drift` states how the schemas of its batches may differ from
its output schema. The source returns each batch with the schema of its file. The driver converts the batch to the
output schema (execution/schema_meeting).
"""

from qcore_ext.data.schema cimport CSchema
from qcore_ext.flow.operator cimport Operator


cpdef enum Drift:
    DRIFT_NONE = 0          # every batch has the output schema
    DRIFT_WITHIN = 1        # the output schema holds every batch; columns that it does not have are left out
    DRIFT_WIDENS = 2        # the output schema widens to every batch


# The next batches of `source`, which may drift, have the schema `given`. Widens the output schema if the source's
# `drift` allows it. Raises a SchemaChangeError that names the column and both types if the output schema cannot hold
# the batches.
cdef int drift_to(Operator source, CSchema* given) except -1 nogil
