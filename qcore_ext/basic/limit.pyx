"""Limit and offset, over any number of drivers."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_ref, batch_select, batch_slice, batch_unref
from qcore_ext.data.column cimport column_ref
from qcore_ext.ground.atomic cimport qc_fetch_add, qc_load
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Account, Buffer, MemoryAccount, Owner, buffer_new, buffer_unref
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, Operator


cdef class LimitState:
    """The number of rows that came so far. The drivers of one Limit share it.

    Parameters
    ----------
    count : int or None
        Rows to let through; None: all.
    offset : int
        Rows to skip first.
    """
    cdef readonly int64_t first         # rows first..last pass, numbered in the order in which drivers claim them
    cdef readonly int64_t last
    cdef int64_t n_seen                 # atomic

    def __init__(self, count, offset=0):
        if offset < 0 or (count is not None and count < 0):
            raise ValueError(f"a limit needs a count and an offset of 0 or more, not {count} and {offset}")
        self.first = min(offset, 1 << 62)
        self.last = 1 << 62 if count is None else min(offset + count, 1 << 62)


cdef Batch* select_range(Batch* batch, int64_t start, int64_t n, MemoryAccount* account) except NULL nogil:
    """Rows start..start+n of the selected rows, without copying values."""
    cdef Batch* out = NULL
    cdef Buffer* rows = NULL
    cdef uint32_t* row
    cdef int32_t column
    cdef int64_t i
    qc_check(start >= 0 and n >= 0 and start + n <= batch.n_selected, b"a limit passes rows of its batch")
    if start == 0 and n == batch.n_selected:
        return batch_ref(batch)
    if batch.selection == NULL and start % 8 == 0:
        return batch_slice(batch, start, n)
    if batch.selection == NULL:
        rows = buffer_new(account, n * 4)
        row = <uint32_t*> rows.data
        for i in range(n):
            row[i] = <uint32_t> (start + i)
    try:
        out = batch_new(batch.schema, batch.n_rows)
        for column in range(batch.n_columns):
            out.columns[column] = column_ref(batch.columns[column])
        if batch.selection == NULL:
            batch_select(out, <const uint32_t*> rows.data, n, <Owner*> rows)
        else:
            batch_select(out, batch.selection + start, n, batch.selection_owner)
    finally:
        buffer_unref(rows)
    return out


cdef class Limit(Operator):
    """Passes on a range of the rows, then finishes early.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    state : LimitState
        Shared with the other drivers' Limits.
    """
    cdef LimitState state
    cdef Batch* held            # owned; the next output
    cdef bint finish_called

    def __init__(self, str node_id, Account query_memory, LimitState state):
        Operator.__init__(self, "Limit", node_id, query_memory)
        self.state = state

    def __dealloc__(self):
        batch_unref(self.held)

    cdef bint enough(self) noexcept nogil:
        return qc_load(&self.state.n_seen) >= self.state.last

    cdef bint needs_input(self) noexcept nogil:
        # enough() is not tested: another driver may reach the count after get_output of this one returned NEEDS_INPUT,
        # and needs_input must still be true then.
        return self.held == NULL and not self.finish_called

    cdef int add_input(self, Batch* batch) except -1 nogil:
        cdef int64_t start = qc_fetch_add(&self.state.n_seen, batch.n_selected)
        cdef int64_t skipped = max(<int64_t> 0, self.state.first - start)
        cdef int64_t end = min(batch.n_selected, self.state.last - start)
        if skipped < end:
            self.held = select_range(batch, skipped, end - skipped, self.account)
        batch_unref(batch)
        return ACCEPTED

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        if self.held != NULL:
            out[0] = self.held
            self.held = NULL
            return OUTPUT
        if self.finish_called or self.enough():
            return FINISHED
        return NEEDS_INPUT

    cdef int finish(self) except -1 nogil:
        self.finish_called = True
        return 0

    cdef void abandon(self) noexcept nogil:
        self.close()

    cdef void close(self) noexcept nogil:
        batch_unref(self.held)
        self.held = NULL
