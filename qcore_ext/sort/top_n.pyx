"""Top-N: the first rows of an order, without sorting the rest.

The operator collects candidates until it has twice as many as it needs. Then it sorts them and drops the worse half.
From then on a row becomes a candidate only if it sorts before the worst row kept. Most rows are rejected before another
column is loaded: by the values of a first key of fixed width, or by the 64-bit prefix.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Vector, VectorScratch
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport PHYS_BOOL, PHYS_F64, TYPE_NESTED, CSchema, DataType
from qcore_ext.ground.bitmap cimport bitmap_bytes, is_valid
from qcore_ext.ground.check cimport qc_check_rows
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, Account, Buffer, account_check, buffer_new, buffer_unref, struct_free, struct_new,
)
from qcore_ext.ground.simd cimport (
    SIMD_GREATER, SIMD_GREATER_EQUAL, SIMD_LESS, SIMD_LESS_EQUAL, SimdKernels,
)
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.operator cimport ACCEPTED, FINISHED, NEEDS_INPUT, OUTPUT, REFUSED, Operator
from qcore_ext.sort.order cimport SortOrder, sort_compare, sort_prefixes
from qcore_ext.sort.radix cimport SortEntry
from qcore_ext.sort.run cimport sort_columns
from qcore_ext.rows.key_columns cimport (
    KeyColumns, key_columns_append, key_columns_column, key_columns_free, key_columns_new, key_columns_reserve,
    key_columns_vector,
)
from qcore_ext.rows.widened_rows cimport batch_widen

from qcore_ext.ground.status import PlanError

cdef enum:
    OUTPUT_ROWS = 65536
    SLACK_ROWS = 4096           # the smallest number of candidates beyond those needed


ctypedef struct TopNScratch:
    # Data of the current vector. A VectorScratch a column follows.
    uint64_t prefixes[VECTOR_ROWS]
    uint32_t rows[VECTOR_ROWS + 16]     # 16 more, as mask_rows writes them
    uint8_t mask[VECTOR_ROWS]
    uint8_t valid[VECTOR_ROWS]


cdef class TopN(Operator):
    """Returns the rows `offset`..`offset + count` of an order.

    With several drivers each driver returns its first count + offset rows. Another TopN after a gathering exchange
    selects the result.

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
        At bind, if a key's column is missing or has no order, or a column is nested.
    """

    def __init__(self, str node_id, Account query_memory, list keys, int64_t count, int64_t offset=0):
        Operator.__init__(self, "TopN", node_id, query_memory)
        if count < 0 or offset < 0:
            raise PlanError(f"TopN of node {node_id} has count {count} and offset {offset}; neither may be negative")
        self.order = SortOrder(keys)
        self.n_keys = self.order.n_keys
        self.count = count
        self.offset = offset
        self.next_row = offset
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
                held = self.widen_candidates(schema)
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

    cdef Batch* widen_candidates(self, CSchema* schema) except NULL nogil:
        """Drop the candidates and return them as a batch of the wider schema, to be added again."""
        cdef Batch* held = self.batch_of(0, self.rows.n_rows)
        cdef Batch* wider
        try:
            wider = batch_widen(held, schema, self.memory)
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
            if start % CHECK_ROWS == 0:
                account_check(self.account)
            self.add_vector(batch, start, min(batch.n_selected - start, <int64_t> VECTOR_ROWS))
            start += VECTOR_ROWS
        return 0

    cdef Batch* batch_of(self, int64_t start, int64_t n) except NULL nogil:
        """The candidates start..start+n as a batch."""
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

    cdef bint first_key_decides(self) noexcept nogil:
        """Whether the worst row kept has a value of the first key that kernels can compare with those of a vector."""
        return self.full and PHYS_BOOL <= self.keys[0].phys <= PHYS_F64 and is_valid(self.worst[0].validity, 0)

    cdef int64_t select_by_first_key(self, int64_t n) noexcept nogil:
        """Write the rows whose first key sorts before that of the worst row kept, or may, to scratch.rows."""
        cdef TopNScratch* scratch = <TopNScratch*> self.scratch.data
        cdef const SimdKernels* kernels = simd_kernels()
        cdef const Vector* key = &self.keys[0]
        cdef bint descending = self.order.parts[0].descending
        cdef uint8_t* mask = scratch.mask
        cdef uint8_t* valid = scratch.valid
        cdef int64_t i
        cdef int op
        if self.n_keys == 1:
            op = SIMD_GREATER if descending else SIMD_LESS
        else:
            op = SIMD_GREATER_EQUAL if descending else SIMD_LESS_EQUAL
        kernels.compare[op][key.phys][1](key.values, self.worst[0].values, mask, n)
        if key.validity != NULL:
            kernels.bits_to_mask(key.validity, n, valid)
            if self.order.parts[0].nulls_first:
                for i in range(n):
                    mask[i] |= valid[i] ^ 1
            else:
                kernels.mask_and(mask, valid, mask, n)
        if kernels.mask_count(mask, n) == 0:
            return 0
        return kernels.mask_rows(mask, n, 0, scratch.rows)

    cdef int64_t select_closer(self, int32_t first, int64_t n_close) noexcept nogil:
        """Of the first n_close scratch.rows keep those that sort before the worst row by the keys from `first` on."""
        cdef uint32_t* rows = (<TopNScratch*> self.scratch.data).rows
        cdef int64_t kept = 0
        cdef int64_t i
        for i in range(n_close):
            if sort_compare(self.order.parts, first, self.n_keys, self.keys, rows[i], self.worst, 0) < 0:
                rows[kept] = rows[i]
                kept += 1
        return kept

    cdef int64_t select_by_prefix(self, int64_t n) noexcept nogil:
        """Write the rows that sort before the worst row kept to scratch.rows, by their prefixes first."""
        cdef TopNScratch* scratch = <TopNScratch*> self.scratch.data
        cdef const uint64_t* prefixes = scratch.prefixes
        cdef uint32_t* rows = scratch.rows
        cdef uint64_t worst = self.worst_prefix
        cdef int32_t first_open = self.order.first_open
        cdef int64_t n_close = 0
        cdef int64_t kept = 0
        cdef int64_t i
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

    cdef int64_t select_candidates(self, int64_t n) except -1 nogil:
        """Write the positions of the vector's rows that are candidates to scratch.rows. Returns their number."""
        cdef TopNScratch* scratch = <TopNScratch*> self.scratch.data
        cdef int64_t i
        if not self.full:
            for i in range(n):
                scratch.rows[i] = <uint32_t> i
            return n
        sort_prefixes(self.order.parts, self.n_keys, self.keys, n, scratch.prefixes, self.account)
        return self.select_by_prefix(n)

    cdef int add_vector(self, Batch* batch, int64_t start, int64_t n) except -1 nogil:
        cdef TopNScratch* scratch = <TopNScratch*> self.scratch.data
        cdef VectorScratch* buffers = <VectorScratch*> (scratch + 1)
        cdef const uint32_t* selection = batch.selection + start if batch.selection != NULL else NULL
        cdef int64_t i
        cdef int64_t n_candidates = n
        cdef int32_t c
        cdef bint decides = False
        for c in range(self.n_keys):
            column_load(batch.columns[self.order.parts[c].column], start, selection, n, &buffers[c], &self.keys[c])
            if c == 0 and self.first_key_decides():
                decides = True
                n_candidates = self.select_by_first_key(n)
                if n_candidates == 0:
                    return 0
        if not decides:
            n_candidates = self.select_candidates(n)
        elif self.n_keys > 1:
            n_candidates = self.select_closer(0, n_candidates)
        if n_candidates == 0:
            return 0
        for i in range(n_candidates):
            scratch.rows[i] = selection[scratch.rows[i]] if selection != NULL else <uint32_t> (start + scratch.rows[i])
        for c in range(self.n_columns):
            column_load(batch.columns[c], 0, scratch.rows, n_candidates, &buffers[c], &self.vectors[c])
        key_columns_append(self.rows, self.vectors, NULL, n_candidates)
        if self.rows.n_rows >= self.rows_max:
            return self.shrink(False)
        self.set_worst()
        return 0

    cdef int shrink(self, bint final) except -1 nogil:
        """Sort the candidates and keep the rows that are needed, in order."""
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
            entries = sort_columns(self.keys, n_rows, self.order.parts, self.n_keys, self.account)
            order = buffer_new(self.account, n_kept * sizeof(uint32_t))
            for i in range(n_kept):
                (<uint32_t*> order.data)[i] = (<SortEntry*> entries.data)[i].row
            qc_check_rows(<const uint32_t*> order.data, n_kept, n_rows, b"a row to keep is a candidate")
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
            done = True
        finally:
            buffer_unref(validity)
            buffer_unref(entries)
            buffer_unref(order)
            if not done:
                key_columns_free(kept)
        key_columns_free(self.rows)
        self.rows = kept
        if self.full and not final:
            self.set_worst()
            sort_prefixes(self.order.parts, self.n_keys, self.worst, 1, &self.worst_prefix, self.account)
        return 0

    cdef void set_worst(self) noexcept nogil:
        """Point `worst` at the last row that the last sort kept. Appending may have moved the arrays since then."""
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
        if self.rows == NULL or self.next_row >= self.rows.n_rows:
            self.release()
            return FINISHED
        n = min(self.rows.n_rows - self.next_row, <int64_t> OUTPUT_ROWS)
        out[0] = self.batch_of(self.next_row, n)
        self.next_row += n
        return OUTPUT

    cdef int finish(self) except -1 nogil:
        self.input_over = True
        # If all batches were empty there is a schema but nothing to sort.
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
