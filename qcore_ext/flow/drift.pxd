"""Schema drift: batches of another schema than their operator declares. SPEC D6.

A source may read parts of different schemas. It says with `Operator.drift` what its batches may have, and gives each
batch with the schema that it came with. The driver converts the batch to the source's output schema
(execution/schema_meeting).
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
