"""What an aggregate reads of one vector: its arguments, widened, and which rows take part."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.aggregate.calls cimport CallInput
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.aggregate.group_table cimport GroupTable


ctypedef struct AggregateInput:
    CallInput call
    GroupTable* pairs           # owned; distinct: the (group, values) met so far
    int32_t n_compared          # distinct: arguments that make up the values
    Buffer* room                # owned
    # Of the vector last loaded:
    Vector[2] vectors           # the first two arguments, widened
    const uint8_t* mask         # NULL: every row takes part
    bint nothing                # no row takes part


# `types` of all that is loaded.
cdef int aggregate_input_init(
    AggregateInput* input, MemoryAccount* account, const CallInput* call, const DataType* types,
) except -1 nogil
cdef void aggregate_input_free(AggregateInput* input) noexcept nogil
cdef void aggregate_inputs_free(AggregateInput* inputs, int32_t n_inputs) noexcept nogil      # and their array
# `loaded`: the vectors of all inputs; `groups` NULL: all rows are of group 0.
cdef int aggregate_input_load(
    AggregateInput* input, const Vector* loaded, const uint32_t* groups, int64_t n,
) except -1 nogil
