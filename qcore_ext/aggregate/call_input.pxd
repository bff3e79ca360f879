"""The input of aggregates: the arguments of one vector of rows, widened, and the mask of the rows that take part."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.calls cimport CallInput
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.aggregate.group_table cimport GroupTable


ctypedef struct AggregateInput:
    CallInput call
    GroupTable* pairs           # owned; for distinct calls: the pairs (group, values) seen so far
    int32_t n_compared          # for distinct calls: the number of arguments that are compared
    Buffer* scratch             # owned; CallScratch
    # Set by aggregate_input_load for its vector:
    const uint8_t* taken        # a bitmap of the rows that take part; NULL: all rows
    bint whole                  # all rows of `bits` take part
    bint nothing                # no row takes part
    # What states are updated by: all rows, or those that take part if they are few.
    Vector[2] vectors           # the first two arguments, widened
    const uint32_t* groups
    int64_t n
    const uint8_t* mask         # of these rows, those that take part; NULL: all of them


# `types` are the types of all loaded vectors.
cdef int aggregate_input_init(
    AggregateInput* input, MemoryAccount* account, const CallInput* call, const DataType* types,
) except -1 nogil
cdef void aggregate_input_free(AggregateInput* input) noexcept nogil
cdef void aggregate_inputs_free(AggregateInput* inputs, int32_t n_inputs) noexcept nogil      # frees the array too
# `loaded` are all loaded vectors. If groups is NULL all rows belong to group 0. `bits` is a bitmap of the rows to load;
# NULL: all rows. `groups` and `bits` must last as long as the input that is set.
cdef int aggregate_input_load(
    AggregateInput* input, const Vector* loaded, const uint32_t* groups, int64_t n_groups, int64_t n,
    const uint8_t* bits,
) except -1 nogil
