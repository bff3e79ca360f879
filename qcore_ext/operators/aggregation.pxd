"""Hash aggregation: partial, final or in a single step. Floor E4."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.compute.aggregate_calls cimport AggregateCalls
from qcore_ext.compute.aggregate_state cimport AggregateState
from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Vector, VectorScratch
from qcore_ext.data.schema cimport DataType, Schema
from qcore_ext.ground.memory cimport Buffer
from qcore_ext.operators.operator cimport Operator
from qcore_ext.structures.aggregate_input cimport AggregateInput
from qcore_ext.structures.group_table cimport GroupTable
from qcore_ext.structures.stored_keys cimport StoredKeys


cdef class HashAggregation(Operator):
    cdef object compile
    cdef Evaluator evaluator
    cdef bint evaluating            # evaluator is set and open
    cdef AggregateCalls calls
    cdef int step
    cdef int32_t n_keys
    cdef int32_t n_inputs           # of calls; kept here for when calls is gone
    cdef int32_t n_states
    cdef int32_t n_loaded           # vectors a load gives
    cdef int64_t partial_groups_max
    cdef DataType* types            # owned; of the vectors
    cdef Vector* vectors            # owned; n_loaded
    cdef Buffer* scratch            # owned; a VectorScratch a vector, when there is no program
    cdef Buffer* groups             # owned; uint32 a row of the vector
    cdef GroupTable* table          # owned
    cdef AggregateInput* inputs     # owned; calls.n_inputs
    cdef AggregateState* states     # owned; calls.n_states
    cdef Batch* batch               # owned; being read
    cdef int64_t position           # rows of it done
    cdef bint input_over
    cdef bint emitting
    cdef bint done
    cdef int64_t emitted            # groups given out of those being emitted
    # Partial step: rows since the table was last emptied, and rows still to pass through without a table.
    cdef int64_t rows_grouped
    cdef int64_t rows_to_pass
    cdef StoredKeys* passed         # owned; keys of rows passed through, NULL when the table is in use

    cdef int bind_program(self, Schema schema) except -1
    cdef int prepare(self) except -1
    cdef int load(self, int64_t n) except -1 nogil
    cdef int64_t n_groups(self) noexcept nogil
    cdef int assign(self, int64_t n) except -1 nogil
    cdef int update(self, const uint32_t* groups, int64_t n_groups, int64_t n) except -1 nogil
    cdef int merge(self, const uint32_t* groups, int64_t n_groups, int64_t n) except -1 nogil
    cdef int consume(self) except -1 nogil
    cdef int start_emitting(self) except -1 nogil
    cdef int stop_emitting(self) except -1 nogil
    cdef Batch* emit(self) except NULL nogil
    cdef Batch* emit_nothing_read(self) except NULL nogil
    cdef void release(self) noexcept nogil
