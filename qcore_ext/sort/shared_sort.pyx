"""The sort that the drivers of an OrderBy share, in stages on which all of them work."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport VECTOR_ROWS, Vector
from qcore_ext.data.schema cimport CSchema, phys_width, schema_equal
from qcore_ext.data.widening cimport schema_widen
from qcore_ext.flow.barrier cimport Membership, barrier_join, barrier_leave
from qcore_ext.ground.atomic cimport qc_cas, qc_fetch_add, qc_load, qc_swap
from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport sorting_kernels
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, Owner, account_check, buffer_new, buffer_new_zeroed, buffer_unref, bytes_copy,
    bytes_fill, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.prefetch cimport LINE_BYTES, qc_prefetch_write
from qcore_ext.ground.status cimport raise_execution
from qcore_ext.ground.wait_token cimport WaitToken, wait_set_add, wait_set_clear, wait_set_fire_all
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.rows.widened_rows cimport column_store_widen
from qcore_ext.sort.order cimport (
    KeyRange, SortKey, SortOrder, key_range_measure, key_range_merge, sort_layout, sort_prefixes,
)
from qcore_ext.sort.radix cimport SortEntry, radix_sort_words
from qcore_ext.sort.run cimport sort_entries
from qcore_ext.sort.sorted_columns cimport (
    CHUNK_ROWS, sorted_columns_fill_entries, sorted_columns_fill_words, sorted_columns_free,
    sorted_columns_init, sorted_columns_seal, sorted_columns_share_words,
)

cdef extern from "native/huge_pages.h" nogil:
    const int64_t QC_HUGE_PAGE
    void qc_advise_huge_pages(void* start, int64_t n_bytes)

cdef enum:
    STRIPES = 64                # at most, for each of the drivers' inputs
    PART_BYTES = 262144         # of items; with the scratch of the radix sort a part takes half of a second-level cache
    PART_BYTES_IN_PLACE = 1048576   # of words, if a kernel sorts them in place
    PAGE_BYTES = 4096           # of the system, at least
    PARTS_MAX = 2048
    RANGE_BITS = 16             # leading bits of a prefix that decide its part
    SAMPLE_PIECES = 4096        # rows are sampled in pieces of 8
    SAMPLE_ROWS = 8

cdef int64_t ROWS_MAX = 0xFFFFFFFE


cdef class SortState:
    """The state that the drivers of one OrderBy share.

    Parameters
    ----------
    n_drivers : int
        The number of OrderBy operators that share it.
    """

    def __cinit__(self, int64_t n_drivers):
        if n_drivers < 1:
            raise ValueError(f"a sort needs at least one driver, but n_drivers is {n_drivers}")
        mutex_init(&self.mutex, LOCK_STRUCTURE)
        self.n_drivers = n_drivers
        self.barrier.n_members = n_drivers
        self.inputs = <SortInput*> struct_new(n_drivers * sizeof(SortInput))

    def __dealloc__(self):
        self.drop_rows()
        self.drop_prefixes()
        sorted_columns_free(&self.columns)
        struct_free(self.inputs)
        struct_free(self.parts)
        struct_free(self.stripes)
        struct_free(self.begins)
        owner_unref(<Owner*> self.schema)
        wait_set_clear(&self.waiters)
        mutex_destroy(&self.mutex)

    cdef void drop_rows(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_inputs):
            owner_unref(<Owner*> self.inputs[i].rows)
            owner_unref(<Owner*> self.inputs[i].schema)
            struct_free(self.inputs[i].ranges)
            struct_free(self.inputs[i].keys)
        self.n_inputs = 0
        if self.tie_buffers != NULL:
            for i in range(2 * self.n_keys):
                buffer_unref(self.tie_buffers[i])
        struct_free(self.tie_buffers)
        struct_free(self.tie_keys)
        self.tie_buffers = NULL
        self.tie_keys = NULL
        buffer_unref(self.items)
        self.items = NULL

    cdef void drop_prefixes(self) noexcept nogil:
        buffer_unref(self.prefixes)
        buffer_unref(self.counts)
        buffer_unref(self.part_of)
        self.prefixes = NULL
        self.counts = NULL
        self.part_of = NULL

    cdef void drop_columns(self) noexcept nogil:
        if qc_load(&self.stage) == STAGE_OUTPUT:
            sorted_columns_free(&self.columns)

    cdef void join(self, Membership* member) noexcept nogil:
        barrier_join(member)

    # --- input ---

    cdef int measure(self, SortInput* input, SortOrder order, MemoryAccount* account) except -1 nogil:
        """Find the keys of the rows and their ranges."""
        cdef const ColumnStore* rows = input.rows
        cdef int32_t n_keys = order.n_keys
        cdef int32_t k, column
        struct_free(input.ranges)
        struct_free(input.keys)
        input.keys = NULL
        input.ranges = NULL
        input.ranges = <KeyRange*> struct_new(max(n_keys, 1) * sizeof(KeyRange))
        input.keys = <Vector*> struct_new(max(n_keys, 1) * sizeof(Vector))
        for k in range(n_keys):
            column = order.parts[k].column
            input.keys[k].phys = rows.columns[column].type.phys
            if rows.columns[column].values != NULL:
                input.keys[k].values = rows.columns[column].values.data
            if rows.columns[column].validity != NULL:
                input.keys[k].validity = <const uint8_t*> rows.columns[column].validity.data
            key_range_measure(&input.ranges[k], &input.keys[k], rows.n_rows, account)
        return 0

    cdef bint deliver(
        self, ColumnStore* rows, CSchema* schema, SortOrder order, Account memory, Membership* member,
    ) except -1 nogil:
        cdef SortInput input
        cdef bint last
        cdef bint done = False
        memset(&input, 0, sizeof(SortInput))
        if rows != NULL:
            input.rows = rows
            input.schema = <CSchema*> owner_ref(<Owner*> schema)
            try:
                self.measure(&input, order, memory.account)
                done = True
            finally:
                if not done:
                    owner_unref(<Owner*> input.rows)
                    owner_unref(<Owner*> input.schema)
                    struct_free(input.ranges)
                    struct_free(input.keys)
        mutex_lock(&self.mutex)
        if rows != NULL:
            qc_check(self.n_inputs < self.n_drivers, b"each driver delivers rows at most once")
            self.inputs[self.n_inputs] = input
            self.n_inputs += 1
        last = barrier_leave(&self.barrier, member) == 0
        mutex_unlock(&self.mutex)
        return last

    cdef bint leave(self, Membership* member) noexcept nogil:
        cdef bint last
        mutex_lock(&self.mutex)
        last = barrier_leave(&self.barrier, member) == 0
        mutex_unlock(&self.mutex)
        return last

    # --- between the input and the first stage: the driver that delivered last works alone ---

    cdef int begin(self, SortOrder order, CSchema* schema, Account memory) except -1 nogil:
        cdef ColumnStore** stores = NULL
        cdef int64_t* firsts = NULL
        cdef int64_t i
        if self.n_inputs == 0:
            self.stop()
            return 0
        self.align(order, schema, memory)
        self.lay_out(order)
        self.number_rows()
        try:
            stores = <ColumnStore**> struct_new(self.n_inputs * sizeof(ColumnStore*))
            firsts = <int64_t*> struct_new(self.n_inputs * sizeof(int64_t))
            for i in range(self.n_inputs):
                stores[i] = self.inputs[i].rows
                firsts[i] = self.inputs[i].first
            sorted_columns_init(
                &self.columns, stores, firsts, self.n_inputs, self.schema, self.parts, self.first_open, self.n_rows,
                memory.account,
            )
        finally:
            struct_free(stores)
            struct_free(firsts)
        self.has_words = not self.columns.has_rows and self.first_open == self.n_keys
        self.make_tie_keys(memory.account)
        self.make_stripes()
        self.make_items(memory.account)
        self.choose_parts(memory.account)
        self.counts = buffer_new(memory.account, self.n_items[<int> STAGE_COUNT] * self.n_parts * sizeof(uint32_t))
        self.begins = <int64_t*> struct_new((self.n_parts + 1) * sizeof(int64_t))
        self.advance(STAGE_COLLECT)
        return 0

    cdef int make_items(self, MemoryAccount* account) except -1 nogil:
        """Allocate the items, which are written at random places, and the prefixes, if they are to be kept."""
        if self.has_words:
            self.items = sorted_columns_share_words(&self.columns)
        if self.items == NULL:
            self.items = buffer_new(
                account, self.n_rows * <int64_t> (sizeof(uint64_t) if self.has_words else sizeof(SortEntry))
            )
        qc_advise_huge_pages(self.items.data, self.items.size)
        if not self.has_words:
            self.prefixes = buffer_new(account, self.n_rows * sizeof(uint64_t))
            qc_advise_huge_pages(self.prefixes.data, self.prefixes.size)
        return 0

    cdef int align(self, SortOrder order, CSchema* schema, Account memory) except -1 nogil:
        """Widen all rows to one schema, and resolve the keys in it. Drivers may have seen several schemas."""
        cdef CSchema* wide = <CSchema*> owner_ref(<Owner*> self.inputs[0].schema)
        cdef CSchema* wider
        cdef ColumnStore* rows
        cdef SortInput* input
        cdef int64_t i
        try:
            for i in range(1, self.n_inputs):
                wider = schema_widen(wide, self.inputs[i].schema)
                owner_unref(<Owner*> wide)
                wide = wider
            if schema == NULL or not schema_equal(schema, wide):
                with gil:
                    order.resolve(wide)
            for i in range(self.n_inputs):
                input = &self.inputs[i]
                if not schema_equal(input.schema, wide):
                    rows = column_store_widen(input.rows, input.schema, wide, memory)
                    owner_unref(<Owner*> input.rows)
                    input.rows = rows
                    self.measure(input, order, memory.account)
            self.schema = <CSchema*> owner_ref(<Owner*> wide)
        finally:
            owner_unref(<Owner*> wide)
        return 0

    cdef int lay_out(self, SortOrder order) except -1 nogil:
        """Lay the prefixes out for the values of all inputs."""
        cdef KeyRange* ranges = NULL
        cdef uint8_t* phys = NULL
        cdef int64_t i
        cdef int32_t k
        self.n_keys = order.n_keys
        self.parts = <SortKey*> struct_new(max(self.n_keys, 1) * sizeof(SortKey))
        memcpy(self.parts, order.parts, self.n_keys * sizeof(SortKey))
        try:
            ranges = <KeyRange*> struct_new(max(self.n_keys, 1) * sizeof(KeyRange))
            phys = <uint8_t*> struct_new(max(self.n_keys, 1))
            for k in range(self.n_keys):
                phys[k] = self.inputs[0].keys[k].phys
                ranges[k] = self.inputs[0].ranges[k]
                for i in range(1, self.n_inputs):
                    key_range_merge(&ranges[k], &self.inputs[i].ranges[k], phys[k])
            self.first_open = sort_layout(self.parts, phys, ranges, self.n_keys)
        finally:
            struct_free(ranges)
            struct_free(phys)
        return 0

    cdef int number_rows(self) except -1 nogil:
        cdef int64_t first = 0
        cdef int64_t i
        for i in range(self.n_inputs):
            self.inputs[i].first = first
            self.inputs[i].position = self.n_rows
            self.n_rows += self.inputs[i].rows.n_rows
            first += (self.inputs[i].rows.n_rows + CHUNK_ROWS - 1) & ~(<int64_t> CHUNK_ROWS - 1)
        if first > ROWS_MAX:
            raise_execution(b"a sort has more than 2**32 - 2 rows, which is the most that it can order")
            return -1
        return 0

    cdef int make_stripes(self) except -1 nogil:
        cdef int64_t rows_max = (self.n_rows // STRIPES + CHUNK_ROWS) & ~(<int64_t> CHUNK_ROWS - 1)
        cdef int64_t n = 0
        cdef int64_t i, start
        for i in range(self.n_inputs):
            n += (self.inputs[i].rows.n_rows + rows_max - 1) // rows_max
        self.stripes = <Stripe*> struct_new(n * sizeof(Stripe))
        n = 0
        for i in range(self.n_inputs):
            start = 0
            while start < self.inputs[i].rows.n_rows:
                self.stripes[n].input = i
                self.stripes[n].start = start
                self.stripes[n].n_rows = min(self.inputs[i].rows.n_rows - start, rows_max)
                start += rows_max
                n += 1
        self.n_items[<int> STAGE_COUNT] = n
        self.n_items[<int> STAGE_SCATTER] = n
        return 0

    cdef int choose_parts(self, MemoryAccount* account) except -1 nogil:
        """Divide the ranges of prefixes among parts, so that the rows of a sample are divided evenly."""
        cdef int64_t item_bytes = sizeof(uint64_t) if self.has_words else sizeof(SortEntry)
        cdef uint64_t prefixes[SAMPLE_ROWS]
        cdef uint32_t* sampled
        cdef uint16_t* part_of
        cdef Buffer* counts = NULL
        cdef SortInput* input
        cdef int64_t step = max((self.n_rows // SAMPLE_PIECES) & ~7, <int64_t> SAMPLE_ROWS)
        cdef int64_t n_sampled = 0
        cdef int64_t part_bytes = PART_BYTES
        cdef int64_t before = 0
        cdef int64_t i, j, m, start
        self.n_parts = 1
        if self.has_words and sorting_kernels().sort_words != NULL:
            part_bytes = PART_BYTES_IN_PLACE
        while self.n_parts < PARTS_MAX and self.n_parts * part_bytes < self.n_rows * item_bytes:
            self.n_parts *= 2
        self.n_items[<int> STAGE_SORT] = self.n_parts
        self.part_of = buffer_new_zeroed(account, sizeof(uint16_t) << RANGE_BITS)
        if self.n_parts == 1:
            return 0
        part_of = <uint16_t*> self.part_of.data
        counts = buffer_new_zeroed(account, sizeof(uint32_t) << RANGE_BITS)
        try:
            sampled = <uint32_t*> counts.data
            for i in range(self.n_inputs):
                input = &self.inputs[i]
                start = 0
                while start < input.rows.n_rows:
                    m = min(input.rows.n_rows - start, <int64_t> SAMPLE_ROWS)
                    compute_prefixes(self, input, start, m, prefixes, account)
                    for j in range(m):
                        sampled[prefixes[j] >> (64 - RANGE_BITS)] += 1
                    n_sampled += m
                    start += step
            for i in range(1 << RANGE_BITS):
                # Ranges above the whole sample belong to the last part.
                part_of[i] = <uint16_t> min(before * self.n_parts // n_sampled, self.n_parts - 1)
                before += sampled[i]
        finally:
            buffer_unref(counts)
        return 0

    cdef int make_tie_keys(self, MemoryAccount* account) except -1 nogil:
        """Make the keys that are compared readable by row number: rows of several inputs are copied to one array."""
        cdef int64_t n = self.inputs[self.n_inputs - 1].first + self.inputs[self.n_inputs - 1].rows.n_rows
        cdef int64_t i
        cdef int32_t k
        cdef Buffer* values
        cdef Buffer* bits
        self.tie_keys = <Vector*> struct_new(max(self.n_keys, 1) * sizeof(Vector))
        if self.n_inputs == 1:
            memcpy(self.tie_keys, self.inputs[0].keys, self.n_keys * sizeof(Vector))
            return 0
        self.tie_buffers = <Buffer**> struct_new(max(2 * self.n_keys, 1) * sizeof(Buffer*))
        for k in range(self.first_open, self.n_keys):
            self.tie_keys[k].phys = self.inputs[0].keys[k].phys
            values = buffer_new(account, n * phys_width(self.tie_keys[k].phys))
            self.tie_buffers[2 * k] = values
            self.tie_keys[k].values = values.data
            for i in range(self.n_inputs):
                if self.inputs[i].keys[k].validity != NULL and self.tie_keys[k].validity == NULL:
                    bits = buffer_new(account, bitmap_bytes(n))
                    self.tie_buffers[2 * k + 1] = bits
                    self.tie_keys[k].validity = <const uint8_t*> bits.data
        return 0

    # --- the stages ---

    cdef bint work(self, Buffer** scratch, MemoryAccount* account) except -1 nogil:
        cdef int64_t stage = qc_load(&self.stage)
        cdef int64_t item
        if stage < STAGE_COUNT or stage > STAGE_SORT:
            return False
        if qc_load(&self.next_item[stage]) >= self.n_items[stage]:
            return False
        item = qc_fetch_add(&self.next_item[stage], 1)
        if item >= self.n_items[stage]:
            return False
        if stage == STAGE_COUNT:
            self.count(item, account)
        elif stage == STAGE_SCATTER:
            self.scatter(item, account)
        else:
            self.sort_part(item, scratch, account)
        if qc_fetch_add(&self.n_done[stage], 1) + 1 == self.n_items[stage]:
            self.advance(stage)
        return True

    cdef void advance(self, int64_t stage) noexcept nogil:
        """Go on to the next stage. The caller did the last work of `stage`, and no other thread works."""
        if stage == STAGE_COUNT:
            self.number_parts()
        elif stage == STAGE_SCATTER:
            self.drop_prefixes()
        elif stage == STAGE_SORT:
            self.drop_rows()
            sorted_columns_seal(&self.columns)
        qc_cas(&self.stage, stage, stage + 1)
        wait_set_fire_all(&self.waiters)

    cdef void number_parts(self) noexcept nogil:
        """Replace the counts of rows by the position of the first of them among the items."""
        cdef uint32_t* counts = <uint32_t*> self.counts.data
        cdef int64_t n_stripes = self.n_items[<int> STAGE_COUNT]
        cdef uint32_t at = 0
        cdef uint32_t here
        cdef int64_t part, stripe
        for part in range(self.n_parts):
            self.begins[part] = at
            for stripe in range(n_stripes):
                here = counts[stripe * self.n_parts + part]
                counts[stripe * self.n_parts + part] = at
                at += here
        self.begins[self.n_parts] = at
        qc_check(at == self.n_rows, b"all rows are in parts")

    cdef void stop(self) noexcept nogil:
        qc_swap(&self.stage, STAGE_OVER)
        wait_set_fire_all(&self.waiters)

    cdef int64_t poll(self, int64_t seen, WaitToken* token) except -1 nogil:
        cdef int64_t stage = qc_load(&self.stage)
        if stage == seen:
            wait_set_add(&self.waiters, token)
            stage = qc_load(&self.stage)
        return stage

    cdef int count(self, int64_t number, MemoryAccount* account) except -1 nogil:
        cdef const Stripe* stripe = &self.stripes[number]
        cdef SortInput* input = &self.inputs[stripe.input]
        cdef uint64_t here[VECTOR_ROWS]
        cdef uint64_t* prefixes = here
        cdef uint32_t* counts = <uint32_t*> self.counts.data + number * self.n_parts
        cdef const uint16_t* part_of = <const uint16_t*> self.part_of.data
        cdef int64_t start = 0
        cdef int64_t i, m
        memset(counts, 0, self.n_parts * sizeof(uint32_t))
        while start < stripe.n_rows:
            m = min(stripe.n_rows - start, <int64_t> VECTOR_ROWS)
            if not self.has_words:
                prefixes = <uint64_t*> self.prefixes.data + input.position + stripe.start + start
            compute_prefixes(self, input, stripe.start + start, m, prefixes, account)
            for i in range(m):
                counts[part_of[prefixes[i] >> (64 - RANGE_BITS)]] += 1
            start += m
        self.fetch_items(stripe, account)
        if self.tie_buffers != NULL:
            self.copy_tie_keys(stripe, account)
        return 0

    cdef int fetch_items(self, const Stripe* stripe, MemoryAccount* account) except -1 nogil:
        """Write to each page of a stripe's share of the items.

        The rows of a stripe go to all parts. The first stripe that is scattered would otherwise have the system zero
        nearly all pages between two checks, which takes a quarter of a second for 160 MB.
        """
        cdef int64_t width = sizeof(uint64_t) if self.has_words else sizeof(SortEntry)
        cdef char* share = self.items.data + (self.inputs[stripe.input].position + stripe.start) * width
        cdef int64_t n_bytes = stripe.n_rows * width
        cdef int64_t at = 0
        while at < n_bytes:
            if at % QC_HUGE_PAGE == 0:
                account_check(account)
            share[at] = 0
            at += PAGE_BYTES
        return 0

    cdef int copy_tie_keys(self, const Stripe* stripe, MemoryAccount* account) except -1 nogil:
        cdef SortInput* input = &self.inputs[stripe.input]
        cdef int64_t at = input.first + stripe.start
        cdef int64_t width
        cdef int32_t k
        for k in range(self.first_open, self.n_keys):
            width = phys_width(input.keys[k].phys)
            bytes_copy(
                <char*> self.tie_keys[k].values + at * width, <char*> input.keys[k].values + stripe.start * width,
                stripe.n_rows * width, account,
            )
            # Rows of an input begin at a byte of the bitmap.
            if input.keys[k].validity != NULL:
                bytes_copy(
                    <char*> self.tie_keys[k].validity + (at >> 3), <char*> input.keys[k].validity + (stripe.start >> 3),
                    (stripe.n_rows + 7) >> 3, account,
                )
            elif self.tie_keys[k].validity != NULL:
                bytes_fill(<char*> self.tie_keys[k].validity + (at >> 3), 0xFF, (stripe.n_rows + 7) >> 3, account)
        return 0

    cdef int scatter(self, int64_t number, MemoryAccount* account) except -1 nogil:
        cdef const Stripe* stripe = &self.stripes[number]
        cdef SortInput* input = &self.inputs[stripe.input]
        cdef uint64_t here[VECTOR_ROWS]
        cdef const uint64_t* prefixes
        cdef uint32_t* next = <uint32_t*> self.counts.data + number * self.n_parts
        cdef const uint16_t* part_of = <const uint16_t*> self.part_of.data
        cdef uint64_t* words = <uint64_t*> self.items.data
        cdef SortEntry* entries = <SortEntry*> self.items.data
        cdef uint32_t row = <uint32_t> (input.first + stripe.start)
        cdef uint32_t at
        cdef uint64_t prefix
        cdef int64_t start = 0
        cdef int64_t i, m, end, part
        if self.has_words:
            # They are computed again, which costs less than to write and read them.
            while start < stripe.n_rows:
                if start % CHUNK_ROWS == 0:
                    account_check(account)
                m = min(stripe.n_rows - start, <int64_t> VECTOR_ROWS)
                compute_prefixes(self, input, stripe.start + start, m, here, account)
                for i in range(m):
                    prefix = here[i]
                    part = part_of[prefix >> (64 - RANGE_BITS)]
                    at = next[part]
                    next[part] = at + 1
                    words[at] = prefix
                    # Without this the stores wait for their lines: the scatter took 1.6 times as long.
                    if at % (LINE_BYTES // sizeof(uint64_t)) == 0:
                        qc_prefetch_write(<char*> &words[at] + LINE_BYTES)
                start += m
        else:
            prefixes = <const uint64_t*> self.prefixes.data + input.position + stripe.start
            while start < stripe.n_rows:
                account_check(account)
                end = min(stripe.n_rows, start + CHUNK_ROWS)
                for i in range(start, end):
                    prefix = prefixes[i]
                    part = part_of[prefix >> (64 - RANGE_BITS)]
                    at = next[part]
                    next[part] = at + 1
                    entries[at].prefix = prefix
                    entries[at].row = row + <uint32_t> i
                    if at % (LINE_BYTES // sizeof(SortEntry)) == 0:
                        qc_prefetch_write(<char*> &entries[at] + LINE_BYTES)
                start = end
        return 0

    cdef int sort_part(self, int64_t number, Buffer** scratch, MemoryAccount* account) except -1 nogil:
        cdef int64_t begin = self.begins[number]
        cdef int64_t n = self.begins[number + 1] - begin
        cdef int64_t n_bytes = n * <int64_t> (sizeof(uint64_t) if self.has_words else sizeof(SortEntry))
        cdef uint64_t* words
        cdef SortEntry* entries
        if n == 0:
            return 0
        if scratch[0] == NULL or scratch[0].size < n_bytes:
            buffer_unref(scratch[0])
            scratch[0] = NULL
            scratch[0] = buffer_new(account, n_bytes + n_bytes // 4)
        if self.has_words:
            words = <uint64_t*> self.items.data + begin
            radix_sort_words(words, <uint64_t*> scratch[0].data, n, account)
            account_check(account)
            return sorted_columns_fill_words(&self.columns, words, begin, n, account)
        entries = <SortEntry*> self.items.data + begin
        sort_entries(
            entries, <SortEntry*> scratch[0].data, n, self.parts, self.first_open, self.n_keys, self.tie_keys, account
        )
        account_check(account)
        return sorted_columns_fill_entries(&self.columns, entries, begin, n, account)


cdef int compute_prefixes(
    SortState self, const SortInput* input, int64_t start, int64_t n, uint64_t* prefixes, MemoryAccount* account,
) except -1 nogil:
    """The prefixes of n <= VECTOR_ROWS rows from `start` on, a multiple of 8."""
    cdef Vector few[4]
    cdef Vector* keys = few
    cdef int32_t k
    if self.n_keys > 4:
        keys = <Vector*> struct_new(self.n_keys * sizeof(Vector))
    for k in range(self.n_keys):
        keys[k].phys = input.keys[k].phys
        keys[k].values = <const char*> input.keys[k].values + start * phys_width(keys[k].phys)
        keys[k].validity = input.keys[k].validity + (start >> 3) if input.keys[k].validity != NULL else NULL
    try:
        sort_prefixes(self.parts, self.n_keys, keys, n, prefixes, account)
    finally:
        if keys != few:
            struct_free(keys)
    return 0
