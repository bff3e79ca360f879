"""Hash aggregation in a single step, or in a partial and a final step."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.aggregate.calls cimport AggregateCalls
from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column, Vector, VectorScratch
from qcore_ext.data.schema cimport CSchema, DataType, Schema
from qcore_ext.ground.memory cimport Buffer
from qcore_ext.flow.operator cimport Operator
from qcore_ext.aggregate.call_input cimport AggregateInput
from qcore_ext.aggregate.group_set cimport GroupPlan, GroupSet
from qcore_ext.aggregate.key_runs cimport KeyRuns
from qcore_ext.aggregate.radix_groups cimport RadixGroups
from qcore_ext.aggregate.text_numbers cimport TextNumbers
from qcore_ext.rows.key_columns cimport KeyColumns


cdef class HashAggregation(Operator):
    cdef object compile
    cdef Schema declared            # schema of the vectors that the output schema was made for, or None
    cdef Schema declared_output     # the output schema made for it
    cdef Evaluator evaluator
    cdef bint evaluating            # evaluator is set and open
    cdef AggregateCalls calls
    cdef int step
    cdef int32_t n_keys
    cdef int32_t n_inputs           # calls.n_inputs; release() needs it when calls may be gone
    cdef int32_t n_states
    cdef int32_t n_loaded           # number of vectors that load() fills
    cdef bint needs_all_rows
    cdef int64_t partial_groups_max
    cdef int64_t radix_groups_min
    cdef DataType* types            # owned; the vectors' types, then the argument type of each state
    cdef Vector* vectors            # owned; n_loaded
    cdef Buffer* scratch            # owned; one VectorScratch a vector; NULL if there is a program
    cdef Buffer* numbers            # owned; the group (uint32) of each row of the vector
    cdef int64_t n_last             # number of rows of the last vector that was grouped
    cdef AggregateInput* inputs     # owned; calls.n_inputs
    cdef GroupPlan plan
    cdef GroupSet* groups           # owned; NULL until bound
    cdef RadixGroups* radix         # owned; replaces `groups` when there are many groups
    # Owned; numbers the texts of the keys before they are grouped; NULL if the groups have the texts.
    cdef TextNumbers* texts
    cdef TextNumbers* next_texts    # owned; prepare() moves it to `texts`; NULL otherwise
    cdef bint may_number            # texts may be numbered from now on, or not any more
    cdef int64_t part               # the part of radix whose groups are returned
    cdef bint takes_parts           # rows in pages of one part are added to the groups of that part
    cdef bint takes_columns         # whole_columns_suit
    cdef Batch* batch               # owned; the input batch that is being read
    # Vectors for which masks are not tried, and how many that will be after the next vector that has a new key.
    cdef int64_t mask_wait
    cdef int64_t mask_wait_next
    cdef int64_t masked_rows        # rows that were computed under a mask
    # Groups that were returned from an array, a table and a partitioned table, rows that were passed on without one,
    # groups of runs, groups that came whole, rows that came in pages of one part, and groups of numbers. Atomic.
    cdef int64_t[8] counts
    cdef int64_t position           # number of its rows that were read
    cdef bint input_over
    cdef bint emitting              # groups are being returned
    cdef bint done
    cdef int64_t emitted            # number of groups of this part that were returned
    cdef int64_t n_emitting         # number of groups to return, of all parts
    # Partial step: rows grouped since the table was last empty, and rows still to pass through without a table.
    cdef int64_t rows_grouped
    cdef bint is_roomy          # the partial step's table may have as many groups as a partitioned one
    cdef int64_t rows_to_pass
    cdef KeyColumns* passed         # owned; keys of rows passed through, or of runs; NULL if the table is in use
    cdef bint ordered               # the rows come in the order of their key
    cdef bytes fences               # of KeyRuns, int64
    cdef KeyRuns* runs              # owned; NULL unless each run of equal keys is a group
    cdef Batch* ready               # owned; the next output, or NULL

    cdef int bind_program(self, Schema schema) except -1
    cdef bint types_differ(self, CSchema* loaded) noexcept nogil
    cdef int set_types(self, CSchema* loaded) except -1
    cdef int widen_output(self) except -1
    cdef int widen_groups(self, CSchema* loaded) except -1
    cdef void free_scratch(self) noexcept nogil
    cdef bint must_renumber(self) noexcept nogil
    cdef int renumber(self) except -1 nogil
    cdef int prepare(self) except -1
    cdef int load(self, int64_t n) except -1 nogil
    cdef bint takes_mask(self) noexcept nogil
    cdef bint add_part(self) except -1 nogil
    cdef bint add_columns(self) except -1 nogil
    cdef int64_t add_under_mask(self) except -1 nogil
    cdef int pass_through(self, int64_t n) except -1 nogil
    cdef int add_runs(self, int64_t n) except -1 nogil
    cdef Batch* take_whole_groups(self) except NULL nogil
    cdef int start_radix(self) except -1 nogil
    cdef bint is_full(self) noexcept nogil
    cdef int64_t n_weighed(self) noexcept nogil
    cdef bint try_radix(self) except -1 nogil
    cdef int consume(self) except -1 nogil
    cdef int64_t n_groups(self) noexcept nogil
    cdef int64_t n_in_parts(self) noexcept nogil
    cdef int start_emitting(self) except -1 nogil
    cdef void count_groups(self, int64_t n_groups) noexcept nogil
    cdef int stop_emitting(self) except -1 nogil
    cdef bint next_part(self) except -1 nogil
    cdef int emit_columns(self, int64_t start, int64_t n, Column** columns) except -1 nogil
    cdef Batch* emit(self) except NULL nogil
    cdef void release(self) noexcept nogil
