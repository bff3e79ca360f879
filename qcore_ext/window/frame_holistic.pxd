"""Aggregates over frames that need all values at once: quantiles, lists, text, the most frequent.

Each frame costs: a quantile, or the first or last of an order, one step a bit of the number of rows; text without an
order one view; what is left reads the frame's rows, but mode only the new ones while frames grow.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport CallCollection, CallInput
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows

# The value of each frame as a column of its own; or NULL, and places[f] is the row of the argument that frame f gives,
# 0xFFFFFFFF: null. `field` of `schema` is the result. Arguments and filter of `input` are positions among `columns`,
# which are flat and canonical. ExecutionError where a result is too large.
cdef int frame_values(
    const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input, CSchema* schema,
    int32_t field, uint32_t* places, Column** out, MemoryAccount* account,
) except -1 nogil
