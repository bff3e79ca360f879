"""Aggregates over frames that need all values at once: quantiles, lists, text, mode.

Cost of a frame: for a quantile, or the first or last of an order, one step for each bit of the row count; for text
without an order, one view; for mode over growing frames, its new rows; for others, all its rows.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport CallCollection, CallInput
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows

# *out is the value of each frame as a column of its own. Or it is NULL, and result_rows[f] is the row of the argument
# that is the result of frame f (0xFFFFFFFF: null). `field` of `schema` is the result. Arguments and filter of `input`
# are positions among `columns`, which are flat and canonical. ExecutionError where a result is too large.
cdef int frame_values(
    const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input, CSchema* schema,
    int32_t field, uint32_t* result_rows, Column** out, MemoryAccount* account,
) except -1 nogil
