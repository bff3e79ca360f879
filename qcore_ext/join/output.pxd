"""Output batches of a join: columns of the probe batch and of the build side, with row numbers as indices.

No value is copied. A probe column is indexed by the pairs' probe rows. A build column is a dictionary over the table's
flat column, with the build rows as indices. An operator that needs the values gathers them. Only of an index of values
a build column is flat: its values were read with the keys (slot_values).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.join.table cimport JoinTable

cdef enum OutputSide:
    SIDE_PROBE = 0
    SIDE_BUILD = 1
    SIDE_MARK = 2               # whether the probe row has a match


ctypedef struct JoinOutputColumn:
    uint8_t side                # OutputSide
    int32_t position            # in the probe batch or among the table's columns


cdef class JoinOutput:
    """The output columns of one join operator, resolved for one pair of input schemas."""
    cdef CSchema* schema        # owned; schema of the output
    cdef int32_t n_columns
    cdef JoinOutputColumn* columns  # owned
    cdef int32_t n_probe        # number of probe columns
    cdef Column** scratch       # owned array of 2 * n_columns borrowed columns
    cdef MemoryAccount* account     # borrowed from the operator

    # A batch of n pairs. If `probe_rows` is NULL the pairs have all selected rows of the batch, in order. If `probe` is
    # NULL the probe columns are null. If `build_rows` is NULL the build columns are null. `some_missing` says that
    # build rows may be NO_ROW. The batch takes references to the buffers.
    cdef Batch* pairs(
        self, Batch* probe, Buffer* probe_rows, const JoinTable* table, Buffer* build_rows, bint some_missing,
        int64_t n,
    ) except NULL nogil
    # The same for an index of values: `values` are the slot values of the build rows.
    cdef Batch* value_pairs(
        self, Batch* probe, Buffer* probe_rows, const JoinTable* table, Buffer* values, int64_t n,
    ) except NULL nogil
    # The rows selection[0..n) of the batch, or its selected rows if `selection` is NULL. `marks` is the mark column,
    # with a value for each row of the batch; NULL if there is none.
    cdef Batch* rows(self, Batch* probe, Buffer* selection, int64_t n, Column* marks) except NULL nogil
    cdef int take_probe(self, Batch* out, Batch* probe, Buffer* rows, int64_t n) except -1 nogil
    cdef int take_values(self, Batch* out, const JoinTable* table, Buffer* values, int64_t n) except -1 nogil
    cdef int take_build(
        self, Batch* out, const JoinTable* table, Buffer* rows, bint some_missing, int64_t n,
    ) except -1 nogil


# `output` has (side, column, name) for each column; the side is 'probe', 'build' or 'mark'. A schema may be None if
# `output` has no column of its side. Raises PlanError if a column or a schema is missing.
cdef JoinOutput join_output(list output, int kind, Schema probe, Schema build, MemoryAccount* account)
# The input columns of a join condition: all columns of the probe side, then all columns that the table stores.
cdef list pair_columns(Schema probe, Schema build)
