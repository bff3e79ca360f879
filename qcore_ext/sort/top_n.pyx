"""Top-N: the first rows of an order, without sorting the rest.

Candidates gather until there are twice as many as needed; then they are sorted and the worse half goes. From then on a
row must beat the worst one kept: most are turned away by their 64-bit prefix, before any other column is looked at.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport TYPE_NESTED, CSchema, DataType
from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Account, Buffer, account_check, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.sort.order cimport SortOrder, sort_compare, sort_prefixes
from qcore_ext.sort.run cimport SortEntry, sort_columns
from qcore_ext.rows.key_columns cimport (
    KeyColumns, key_columns_append, key_columns_column, key_columns_free, key_columns_new, key_columns_reserve,
    key_columns_vector,
)
from qcore_ext.rows.widened_rows cimport batch_widened

from qcore_ext.ground.status import PlanError

cdef enum:
    OUTPUT_ROWS = 65536
    SLACK_ROWS = 4096           # candidates beyond those needed, at least


ctypedef struct TopNScratch:
    # Of the vector under way; a VectorScratch a column lies behind.
    uint64_t prefixes[VECTOR_ROWS]
    uint32_t rows[VECTOR_ROWS]


cdef class TopN(Operator):
    """The rows `offset`..`offset + count` of an order.

    Several drivers: each keeps its first count + offset rows (offset 0); behind a gathering exchange one more TopN
    picks.

    Parameters
    ----------
    node_id : str
    query_memory : Account
    keys : list of (str, bool, bool)
        Column name, descending, nulls first.
    count : int
    offset : int

    Raises
    ------
    PlanError
        At bind: a key is missing or has no order, or a column is nested.
    """

    def __init__(self, str node_id, Account query_memory, list keys, int64_t count, int64_t offset=0):
        Operator.__init__(self, "TopN", node_id, query_memory)
        if count < 0 or offset < 0:
            raise PlanError(f"count and offset of a top-n are not negative, but {count} and {offset} (node {node_id})")
        self.order = SortOrder(keys)
        self.n_keys = self.order.n_keys
        self.count = count
        self.offset = offset
        self.n_given = offset
        self.rows_max = count + offset + max(count + offset, <int64_t> SLACK_ROWS)

    def __dealloc__(self):
        self.release()

    cdef int bind(self, CSchema* schema) except -1 nogil:
        cdef Batch* held = NULL
        with gil:
            self.order.resolve(schema)
            for i in range(schema.n_fields):
                if schema.fields[i].type.id == TYPE_NESTED:
                    raise PlanError(
                        f"TopN of node {self.node_id} cannot carry the nested column "
                        f"{schema.fields[i].name.decode()!r}; use OrderBy and Limit"
                    )
        try:
            if self.rows != NULL and self.rows.n_rows > 0:
                held = self.widened_candidates(schema)
            elif self.rows != NULL:
                self.drop_candidates()
            self.set_input_schema(schema)
            self.set_output_schema(schema)
            self.prepare(schema)
            if held != NULL:
                self.add_batch(held)
        finally:
            batch_unref(held)
        return 0

    cdef Batch* widened_candidates(self, CSchema* schema) except NULL nogil:
        """The rows kept so far under a wider schema, to be kept anew; they are dropped here (SPEC D6)."""
        cdef Batch* held = self.batch_of(0, self.rows.n_rows)
        cdef Batch* wider
        try:
            wider = batch_widened(held, schema, self.memory)
        finally:
            batch_unref(held)
        self.drop_candidates()
        return wider

    cdef int prepare(self, CSchema* schema) except -1 nogil:
        cdef int32_t i
        cdef int64_t n_scratch = max(schema.n_fields, self.n_keys)
        self.n_columns = schema.n_fields
        self.types = <DataType*> struct_new(max(self.n_columns, 1) * sizeof(DataType))
        for i in range(self.n_columns):
            self.types[i] = schema.fields[i].type
        self.vectors = <Vector*> struct_new(max(self.n_columns, 1) * sizeof(Vector))
        self.keys = <Vector*> struct_new(max(self.n_keys, 1) * sizeof(Vector))
        self.worst = <Vector*> struct_new(max(self.n_keys, 1) * sizeof(Vector))
        self.worst_validity = <uint64_t*> struct_new(max(self.n_keys, 1) * sizeof(uint64_t))
        self.scratch = buffer_new(self.account, sizeof(TopNScratch) + n_scratch * sizeof(VectorScratch))
        self.rows = key_columns_new(self.account, self.types, self.n_columns)
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return not self.input_over

    cdef int add_input(self, Batch* batch) except -1 nogil:
        if self.input_over:
            return REFUSED
        self.add_batch(batch)
        batch_unref(batch)
        return ACCEPTED

    cdef int add_batch(self, Batch* batch) except -1 nogil:
        cdef int64_t start = 0
        while start < batch.n_selected:
            self.add_vector(batch, start, min(batch.n_selected - start, <int64_t> VECTOR_ROWS))
            start += VECTOR_ROWS
        return 0

    cdef Batch* batch_of(self, int64_t start, int64_t n) except NULL nogil:
        """Some of the rows kept."""
        cdef Batch* batch = batch_new(self.output_schema, n)
        cdef bint done = False
        cdef int32_t c
        try:
            for c in range(self.n_columns):
                batch.columns[c] = key_columns_column(self.rows, c, start, n, self.account)
            done = True
        finally:
            if not done:
                batch_unref(batch)
        return batch

    cdef int64_t pick(self, int64_t n) noexcept nogil:
        """Positions in the vector of rows that may be among the first, into scratch.rows. Returns how many."""
        cdef TopNScratch* scratch = <TopNScratch*> self.scratch.data
        cdef const uint64_t* prefixes = scratch.prefixes
        cdef uint32_t* rows = scratch.rows
        cdef uint64_t worst = self.worst_prefix
        cdef int32_t first_open = self.order.first_open
        cdef int64_t n_close = 0
        cdef int64_t kept = 0
        cdef int64_t i
        if not self.full:
            for i in range(n):
                rows[i] = <uint32_t> i
            return n
        for i in range(n):
            rows[n_close] = <uint32_t> i
            n_close += prefixes[i] <= worst
        for i in range(n_close):
            if prefixes[rows[i]] < worst or (
                first_open < self.n_keys
                and sort_compare(
                    self.order.parts, first_open, self.n_keys, self.keys, rows[i], self.worst, 0
                ) < 0
            ):
                rows[kept] = rows[i]
                kept += 1
        return kept

    cdef int add_vector(self, Batch* batch, int64_t start, int64_t n) except -1 nogil:
        cdef TopNScratch* scratch = <TopNScratch*> self.scratch.data
        cdef VectorScratch* room = <VectorScratch*> (scratch + 1)
        cdef const uint32_t* selection = batch.selection + start if batch.selection != NULL else NULL
        cdef int64_t i, picked
        cdef int32_t c
        for c in range(self.n_keys):
            column_load(batch.columns[self.order.parts[c].column], start, selection, n, &room[c], &self.keys[c])
        sort_prefixes(self.order.parts, self.n_keys, self.keys, n, scratch.prefixes, self.account)
        picked = self.pick(n)
        if picked == 0:
            return 0
        for i in range(picked):
            scratch.rows[i] = selection[scratch.rows[i]] if selection != NULL else <uint32_t> (start + scratch.rows[i])
        for c in range(self.n_columns):
            column_load(batch.columns[c], 0, scratch.rows, picked, &room[c], &self.vectors[c])
        key_columns_append(self.rows, self.vectors, NULL, picked)
        if self.rows.n_rows >= self.rows_max:
            return self.shrink(False)
        self.note_worst()
        return 0

    cdef int shrink(self, bint final) except -1 nogil:
        """Sort the candidates and keep those needed, in order."""
        cdef int64_t n_rows = self.rows.n_rows
        cdef int64_t n_kept = min(n_rows, self.count + self.offset)
        cdef int64_t bitmap = bitmap_bytes(n_rows)
        cdef Buffer* validity = NULL
        cdef Buffer* entries = NULL
        cdef Buffer* order = NULL
        cdef KeyColumns* kept = NULL
        cdef int64_t start = 0
        cdef int64_t i
        cdef int32_t c
        cdef bint done = False
        try:
            validity = buffer_new(self.account, bitmap * max(self.n_columns, 1))
            for c in range(self.n_columns):
                account_check(self.account)
                key_columns_vector(
                    self.rows, c, 0, n_rows, (<uint8_t*> validity.data) + c * bitmap, &self.vectors[c]
                )
            for c in range(self.n_keys):
                self.keys[c] = self.vectors[self.order.parts[c].column]
            entries = sort_columns(
                self.keys, n_rows, self.order.parts, self.order.first_open, self.n_keys, self.account
            )
            order = buffer_new(self.account, n_kept * sizeof(uint32_t))
            for i in range(n_kept):
                (<uint32_t*> order.data)[i] = (<SortEntry*> entries.data)[i].row
            kept = key_columns_new(self.account, self.types, self.n_columns)
            key_columns_reserve(kept, n_kept)
            while start < n_kept:
                account_check(self.account)
                key_columns_append(
                    kept, self.vectors, <uint32_t*> order.data + start, min(n_kept - start, <int64_t> CHECK_ROWS)
                )
                start += CHECK_ROWS
            if n_kept > 0 and n_kept == self.count + self.offset:
                self.full = True
                self.worst_prefix = (<SortEntry*> entries.data)[n_kept - 1].prefix
            done = True
        finally:
            buffer_unref(validity)
            buffer_unref(entries)
            buffer_unref(order)
            if not done:
                key_columns_free(kept)
        key_columns_free(self.rows)
        self.rows = kept
        if not final:
            self.note_worst()
        return 0

    cdef void note_worst(self) noexcept nogil:
        """Point `worst` at the last row kept by the last sort; the arrays may have moved since."""
        cdef int32_t c
        if not self.full:
            return
        for c in range(self.n_keys):
            key_columns_vector(
                self.rows, self.order.parts[c].column, self.count + self.offset - 1, 1,
                <uint8_t*> &self.worst_validity[c], &self.worst[c],
            )

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        cdef int64_t n
        if self.count == 0:
            return FINISHED
        if not self.input_over:
            return NEEDS_INPUT
        if self.rows == NULL or self.n_given >= self.rows.n_rows:
            self.release()
            return FINISHED
        n = min(self.rows.n_rows - self.n_given, <int64_t> OUTPUT_ROWS)
        out[0] = self.batch_of(self.n_given, n)
        self.n_given += n
        return OUTPUT

    cdef int finish(self) except -1 nogil:
        self.input_over = True
        # Batches without rows bring a schema and nothing to sort.
        if self.rows != NULL and self.rows.n_rows > 0:
            self.shrink(True)
        return 0

    cdef void abandon(self) noexcept nogil:
        self.release()

    cdef void close(self) noexcept nogil:
        self.release()

    cdef void release(self) noexcept nogil:
        self.input_over = True
        self.drop_candidates()

    cdef void drop_candidates(self) noexcept nogil:
        self.full = False
        key_columns_free(self.rows)
        self.rows = NULL
        buffer_unref(self.scratch)
        self.scratch = NULL
        struct_free(self.types)
        struct_free(self.vectors)
        struct_free(self.keys)
        struct_free(self.worst)
        struct_free(self.worst_validity)
        self.types = NULL
        self.vectors = NULL
        self.keys = NULL
        self.worst = NULL
        self.worst_validity = NULL
