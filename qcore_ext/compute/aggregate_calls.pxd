"""Aggregate calls taken apart: what is read, which states are kept, how results come of them. Floor E2.

A call is (function, argument, filter, distinct), with positions among the inputs or -1. Calls that need the same state
share it: sum(x) and avg(x) keep one sum, avg(x) and count(x) one count.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from qcore_ext.compute.aggregate_state cimport AggregateState
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount

cdef enum:
    RESULT_STATE = 0            # the state's own column
    RESULT_SUM = 1              # a sum in the result's type
    RESULT_AVG = 2              # of a sum and a count
    RESULT_VAR_SAMP = 3
    RESULT_VAR_POP = 4
    RESULT_STDDEV_SAMP = 5
    RESULT_STDDEV_POP = 6


ctypedef struct CallInput:
    int32_t argument            # position among the inputs, -1: none
    int32_t filter              # position, -1: none
    bint distinct               # each value once a group
    bint nulls                  # the rows whose argument is null, instead of those where it is not


ctypedef struct CallState:
    uint8_t kind                # StateKind
    int32_t input               # index of its CallInput
    int32_t column              # of its (first) column behind the keys, in the partial step's output


ctypedef struct CallResult:
    uint8_t how                 # RESULT_*
    int32_t states[2]


cdef class AggregateCalls:
    """Immutable; made once for an operator."""
    cdef list functions
    cdef int32_t n_inputs
    cdef int32_t n_states
    cdef int32_t n_results
    cdef int32_t n_state_columns
    cdef CallInput* inputs
    cdef CallState* states
    cdef CallResult* results
    # PlanError when a call's function does not take values of its argument's type; types are those of the inputs.
    cdef int check_types(self, const DataType* types, int32_t n_types) except -1


# The results of n groups from start, as a column of `type`. ExecutionError when a sum does not fit it.
cdef Column* result_column(
    const CallResult* result, AggregateState* states, const DataType* type, int64_t start, int64_t n,
    MemoryAccount* account,
) except NULL nogil
