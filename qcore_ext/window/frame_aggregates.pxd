"""Aggregates over frames: the state of each frame, computed from stretches of rows.

A stretch is a range of consecutive positions.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport CallInput, CallState
from qcore_ext.aggregate.state cimport AggregateState
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows

# Initialise `out`, and add the rows at the positions lo[s]..hi[s] of each stretch s to group frame_of[s], or to group s
# if frame_of is NULL. Both the groups and the stretches of a group ascend. There are n positions; perm[p] is the row of
# `columns` at position p. A count of rows has no columns.
#
# If `previous` is not NULL each value counts once a group: previous[p] is one more than the last position before p with
# the same value, or 0 if there is none. The call overwrites lo and hi.
cdef int frame_state(
    AggregateState* out, int kind, const DataType* type, Column** columns, int32_t n_columns, const uint32_t* perm,
    int64_t n, const uint32_t* previous, uint32_t* lo, uint32_t* hi, const uint32_t* frame_of, int64_t n_stretches,
    int64_t n_frames, MemoryAccount* account,
) except -1 nogil

# Compute the states of all frames for the rows that `input` describes. Its arguments and filter are positions of
# `columns`. `out` must be zeroed, and the caller frees it, also after an error.
cdef int aggregate_over_frames(
    const FrameRows* frames, Column** columns, const CallInput* input, const CallState* states, int32_t n_states,
    AggregateState* out, MemoryAccount* account,
) except -1 nogil
