"""Output batches of a join: columns of the probe batch and of the build side by index vectors.

No value is copied. A probe column is taken by the pairs' probe rows. A build column is a dictionary over the table's
flat column, with the build rows as indices. An operator that needs the values gathers them.
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
    cdef CSchema* schema        # owned; of the output
    cdef int32_t n_columns
    cdef JoinOutputColumn* columns  # owned
    cdef int32_t n_probe
    cdef Column** picked        # owned array of 2 * n_columns borrowed columns: scratch of pairs()
    cdef MemoryAccount* account     # borrowed from the operator

    # n pairs. `probe_rows` NULL: the selected rows of the batch in order, all of them. `probe` NULL: nulls on that
    # side. `build_rows` NULL: nulls on the build side; `some_missing`: entries may be NO_ROW. The buffers are
    # referenced.
    cdef Batch* pairs(
        self, Batch* probe, Buffer* probe_rows, const JoinTable* table, Buffer* build_rows, bint some_missing,
        int64_t n,
    ) except NULL nogil
    # Rows selection[0..n) of the batch (NULL: those it selects), with the marks when there are some (by physical row).
    cdef Batch* rows(self, Batch* probe, Buffer* selection, int64_t n, Column* marks) except NULL nogil
    cdef int take_probe(self, Batch* out, Batch* probe, Buffer* rows, int64_t n) except -1 nogil
    cdef int take_build(
        self, Batch* out, const JoinTable* table, Buffer* rows, bint some_missing, int64_t n,
    ) except -1 nogil


# `output`: (side, column, name) for each column, side being 'probe', 'build' or 'mark'. A schema may be None when no
# column of that side is asked for. PlanError names what is missing.
cdef JoinOutput join_output(list output, int kind, Schema probe, Schema build, MemoryAccount* account)
# All columns of the probe, then all that the table stores: what a join condition is evaluated on.
cdef list pair_columns(Schema probe, Schema build)
