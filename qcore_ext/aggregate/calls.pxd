"""Aggregate calls, divided into inputs, states and results.

A call is (function, argument, filter, distinct). Argument and filter are positions of the operator's inputs, or -1; the
argument may be a tuple of positions. Calls share states: sum(x) and avg(x) keep one sum, avg(x) and count(x) one count.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from qcore_ext.aggregate.state cimport AggregateState
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport MemoryAccount

cdef enum:
    RESULT_STATE = 0            # the state's column
    RESULT_SUM = 1              # a sum, converted to the result's type
    RESULT_AVG = 2              # a sum divided by a count
    RESULT_VAR_SAMP = 3
    RESULT_VAR_POP = 4
    RESULT_STDDEV_SAMP = 5
    RESULT_STDDEV_POP = 6
    RESULT_HOLISTIC = 7         # computed from a collection
    RESULT_COMOMENT = 8         # this plus a ComomentResult

cdef enum:
    ARGUMENTS_MAX = 64          # arguments of one call

cpdef enum CollectKind:
    COLLECT_TEXT = 0            # the strings, concatenated
    COLLECT_LIST = 1
    COLLECT_FIRST = 2           # the first value of the order, which may be null
    COLLECT_LAST = 3
    COLLECT_BETWEEN = 4         # a quantile, interpolated between the two nearest values
    COLLECT_NEAREST = 5         # a quantile that is one of the values
    COLLECT_MODE = 6            # the most frequent value; of several the first in the order


ctypedef struct CallInput:
    int32_t argument            # position of the first argument; -1: no argument
    int32_t n_arguments
    int32_t[ARGUMENTS_MAX] arguments  # positions of all arguments
    int32_t n_required          # a row takes part only if none of its first n_required arguments is null
    int32_t filter              # position of the filter; -1: no filter
    bint distinct               # each value counts once a group
    bint nulls                  # the rows whose argument is null take part, instead of the others


ctypedef struct CallState:
    uint8_t kind                # StateKind
    int32_t input               # index of its CallInput
    int32_t column              # index of its first column after the keys in the partial step's output


ctypedef struct CallCollection:
    # A holistic call: rows are kept until the last one, then sorted by the arguments after the first.
    int32_t input               # index of its CallInput
    uint8_t kind                # CollectKind
    bint[ARGUMENTS_MAX] descending   # for each argument but the first
    bint[ARGUMENTS_MAX] nulls_first
    double fraction             # for a quantile
    const char* separator       # for text; borrowed
    int64_t separator_bytes


ctypedef struct CallResult:
    uint8_t how                 # RESULT_*
    int32_t states[2]           # indices of its states; for RESULT_HOLISTIC the index of its collection


cdef class AggregateCalls:
    """The calls of one operator. Immutable."""
    cdef list functions
    cdef int32_t n_inputs
    cdef int32_t n_states
    cdef int32_t n_results
    cdef int32_t n_state_columns
    cdef int32_t n_collections
    cdef list kept              # the objects that separators point into
    cdef CallCollection* collections
    cdef CallInput* inputs
    cdef CallState* states
    cdef CallResult* results
    # Raises PlanError if a call's function does not take its argument's type. `types` are the types of the inputs.
    cdef int check_types(self, const DataType* types, int32_t n_types) except -1
    cdef int keep_collections(self, list collections) except -1
    cdef int refuse(self, int32_t argument, const DataType* type) except -1


# The results of n groups from start, as a column of `type`. Raises ExecutionError if a sum does not fit the type.
cdef Column* result_column(
    const CallResult* result, AggregateState* states, const DataType* type, int64_t start, int64_t n,
    MemoryAccount* account,
) except NULL nogil
