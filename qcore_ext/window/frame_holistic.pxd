"""Holistic aggregates over frames: quantiles, lists, text, mode.

The cost of a frame depends on the call:
- a quantile, or the first or last value of an order: one step for each bit of the row count;
- text without an order: one view;
- mode over growing frames: its new rows;
- other calls: all its rows.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport CallCollection, CallInput
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows

# Compute the result of each frame, as field `field` of `schema`. Either *out is a column with a value for each frame.
# Or *out is NULL, and result_rows[f] is the row of the argument with the result of frame f, or NO_ROW for null.
# Arguments and filter of `input` are positions of `columns`, which are flat and canonical. Raises ExecutionError if a
# result is too large.
cdef int frame_results(
    const FrameRows* frames, Column** columns, const CallCollection* call, const CallInput* input, CSchema* schema,
    int32_t field, uint32_t* result_rows, Column** out, MemoryAccount* account,
) except -1 nogil
