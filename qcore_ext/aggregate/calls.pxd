"""Aggregate calls taken apart: what is read, which states are kept, how results come of them.

A call is (function, argument, filter, distinct), with positions among the inputs or -1; arguments may be a tuple.
Calls that need the same state share it: sum(x) and avg(x) keep one sum, avg(x) and count(x) one count.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from qcore_ext.aggregate.state cimport AggregateState
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
    RESULT_COLLECTED = 7        # of a collection
    RESULT_COMOMENT = 8         # ComomentResult, from here on

cdef enum:
    ARGUMENTS_MAX = 64          # of one call

cpdef enum CollectKind:
    COLLECT_TEXT = 0            # strings put together
    COLLECT_LIST = 1
    COLLECT_FIRST = 2           # of the order, null or not
    COLLECT_LAST = 3
    COLLECT_BETWEEN = 4         # quantile, between the two values that are nearest
    COLLECT_NEAREST = 5         # quantile, one of the values
    COLLECT_MODE = 6            # the most frequent; of several the first in the order


ctypedef struct CallInput:
    int32_t argument            # position of the first argument among the inputs, -1: none
    int32_t n_arguments
    int32_t[ARGUMENTS_MAX] arguments  # positions of all
    int32_t n_required          # of the first arguments: none may be null in a row that takes part
    int32_t filter              # position, -1: none
    bint distinct               # each value once a group
    bint nulls                  # the rows whose argument is null, instead of those where it is not


ctypedef struct CallState:
    uint8_t kind                # StateKind
    int32_t input               # index of its CallInput
    int32_t column              # of its (first) column behind the keys, in the partial step's output


ctypedef struct CallCollection:
    # Rows are kept, in the order of the arguments behind the first, until all are there.
    int32_t input               # index of its CallInput
    uint8_t kind                # CollectKind
    bint[ARGUMENTS_MAX] descending   # of each argument but the first
    bint[ARGUMENTS_MAX] nulls_first
    double fraction             # of a quantile
    const char* separator       # of text, borrowed
    int64_t separator_bytes


ctypedef struct CallResult:
    uint8_t how                 # RESULT_*
    int32_t states[2]           # of RESULT_COLLECTED: the collection


cdef class AggregateCalls:
    """Immutable; made once for an operator."""
    cdef list functions
    cdef int32_t n_inputs
    cdef int32_t n_states
    cdef int32_t n_results
    cdef int32_t n_state_columns
    cdef int32_t n_collections
    cdef list kept              # what separators point into
    cdef CallCollection* collections
    cdef CallInput* inputs
    cdef CallState* states
    cdef CallResult* results
    # PlanError when a call's function does not take values of its argument's type; types are those of the inputs.
    cdef int check_types(self, const DataType* types, int32_t n_types) except -1
    cdef int keep_collections(self, list collections) except -1
    cdef int refuse(self, int32_t argument, const DataType* type) except -1


# The results of n groups from start, as a column of `type`. ExecutionError when a sum does not fit it.
cdef Column* result_column(
    const CallResult* result, AggregateState* states, const DataType* type, int64_t start, int64_t n,
    MemoryAccount* account,
) except NULL nogil
