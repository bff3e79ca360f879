"""Aggregates over frames: one state for many stretches of rows."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport CallInput, CallState
from qcore_ext.aggregate.state cimport AggregateState
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount
from qcore_ext.window.frame_rows cimport FrameRows

# Group f of `out` (initialised here) takes the rows at positions lo[f]..hi[f] of 0..n; perm[p] is the row of the
# `columns` at position p. With `frame_of`, that of stretch s is group frame_of[s]: these ascend, as do the stretches of
# a group. There are no columns for a count of rows. `previous`, if not NULL, is one more than the position before p
# where the same value stands, or 0: each value then counts once a group. Uses up lo and hi.
cdef int frame_state(
    AggregateState* out, int kind, const DataType* type, Column** columns, int32_t n_columns, const uint32_t* perm,
    int64_t n, const uint32_t* previous, uint32_t* lo, uint32_t* hi, const uint32_t* frame_of, int64_t n_stretches,
    int64_t n_frames, MemoryAccount* account,
) except -1 nogil

# The states of all frames, of rows as `input` says; positions of arguments and filter are among `columns`. `out` is
# zeroed, and the caller frees it whatever comes.
cdef int aggregate_over_frames(
    const FrameRows* frames, Column** columns, const CallInput* input, const CallState* states, int32_t n_states,
    AggregateState* out, MemoryAccount* account,
) except -1 nogil
