"""Pages of a task's output: rows are collected by partition until a page is full."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.data.batch cimport Batch, batch_bytes, batch_new, batch_select, batch_unref
from qcore_ext.data.column cimport (
    VECTOR_ROWS, VIEW_INLINE_BYTES, Column, StringView, Vector, VectorScratch, column_constant_null, column_new,
    column_ref,
)
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport PHYS_VIEW, CSchema, phys_width
from qcore_ext.data.take cimport scatter_runs
from qcore_ext.ground.bitmap cimport bit_clear, bit_get, bitmap_bytes, is_valid
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check, qc_check_partitions, qc_check_selection
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, OwnerList, buffer_new, buffer_unref, owner_list_add, owner_list_new, owner_ref, owner_unref,
    struct_free, struct_new,
)
from qcore_ext.exchange.hash_partitioner cimport PARTITIONS_MAX, count_rows, counts_to_starts, place_rows
from qcore_ext.rows.nested_rows cimport nested_concat, schema_has_nested

cdef enum:
    PAGE_ROWS_MIN = 64
    PAGE_ROWS_MAX = 65536
    # Bytes of all open pages of a driver together. Small pages cost the reader as much as large ones.
    OPEN_BYTES_MIN = 33554432
    OPEN_BYTES_MAX = 134217728
    SHARE_LEFT = 256                    # at most this part of the memory that is left, above OPEN_BYTES_MIN
    LONG_STRING_BYTES = 16              # assumed length of a long string, to choose the number of rows of a page
    HEAP_BLOCK_MIN = 4096
    HEAP_BLOCK_MAX = 1048576


cdef char* heap_take(OpenPage* page, int64_t size, PageBuilder builder) except NULL nogil:
    """Allocate memory for the bytes of one string."""
    cdef Buffer* block
    cdef int64_t block_bytes
    cdef char* start = page.heap_cursor
    if size > page.heap_end - start:
        # Small at first, because there may be thousands of open pages with a few strings each.
        block_bytes = min(max(page.heap_bytes, <int64_t> HEAP_BLOCK_MIN), <int64_t> HEAP_BLOCK_MAX)
        if page.heap == NULL:
            page.heap = owner_list_new()
        block = buffer_new(builder.account, max(block_bytes, size))
        try:
            owner_list_add(page.heap, <Owner*> block)
        finally:
            buffer_unref(block)
        page.heap_bytes += block.size
        if page.heap_bytes > builder.page_bytes and not page.is_filled:
            builder.note_filled(page)
        start = block.data
        page.heap_end = block.data + block.size
    page.heap_cursor = start + size
    return start


cdef int copy_text(PageBuilder builder, const Vector* vector, const PageRuns* runs) except -1 nogil:
    """Copy the bytes of long strings whose views are in the pages, at runs.out."""
    cdef const StringView* views = <const StringView*> vector.values
    cdef const StringView* given
    cdef StringView* view
    cdef char* copy
    cdef uint32_t i = 0
    cdef int64_t r
    for r in range(runs.n):
        view = <StringView*> runs.out[r]
        while i < runs.ends[r]:
            given = &views[runs.rows[i]]
            if given.length > VIEW_INLINE_BYTES:
                if not is_valid(vector.validity, runs.rows[i]):
                    memset(view, 0, sizeof(StringView))     # the view of a null row may point anywhere
                else:
                    copy = heap_take(&builder.slots[runs.slots[r]], given.length, builder)
                    memcpy(copy, given.pointer, given.length)
                    view.pointer = copy
            view += 1
            i += 1
    return 0


cdef Buffer* trim_buffer(Buffer* buffer, int64_t used) except NULL nogil:
    """Return the buffer, or a smaller copy if less than half of it is used. Consumes the reference."""
    cdef Buffer* smaller = NULL
    if used * 2 > buffer.size or buffer.size <= 64:
        return buffer
    try:
        smaller = buffer_new(buffer.account, used)
        memcpy(smaller.data, buffer.data, used)
    finally:
        buffer_unref(buffer)
    return smaller


cdef class PageBuilder:
    """Collects rows into pages.

    Parameters
    ----------
    memory : Account
        The account that pays for the pages.
    n_partitions : int
        1 to 4,096.
    page_bytes : int
        Desired size of a page. With many partitions pages are smaller, so that all open pages together stay small.
    """

    def __init__(self, Account memory, int64_t n_partitions, int64_t page_bytes=1 << 20):
        cdef int64_t i
        if not 1 <= n_partitions <= PARTITIONS_MAX or page_bytes < 1:
            raise ValueError(
                f"pages need 1 to {PARTITIONS_MAX} partitions and at least one byte, "
                f"not {n_partitions} partitions and {page_bytes} bytes"
            )
        self.memory = memory
        self.account = memory.account
        self.n_partitions = n_partitions
        self.page_bytes = page_bytes
        # Within one vector every open page may become full, and as many new ones are opened as its rows can fill.
        self.n_slots = 2 * n_partitions + VECTOR_ROWS / PAGE_ROWS_MIN
        self.slot_of = <int32_t*> struct_new(n_partitions * sizeof(int32_t))
        for i in range(n_partitions):
            self.slot_of[i] = -1
        self.scratch = <VectorScratch*> struct_new(sizeof(VectorScratch))

    def __dealloc__(self):
        self.release()
        struct_free(self.slot_of)

    cdef void release(self) noexcept nogil:
        cdef FullPage page
        while self.take_full(&page):
            batch_unref(page.batch)
        self.drop_layout()
        struct_free(self.full)
        self.full = NULL
        self.full_capacity = 0
        struct_free(self.scratch)
        self.scratch = NULL

    cdef void drop_layout(self) noexcept nogil:
        cdef int64_t i
        if self.slots != NULL:
            for i in range(2 * self.n_slots * self.n_columns):
                buffer_unref(self.held[i])
            for i in range(self.n_slots):
                owner_unref(<Owner*> self.slots[i].heap)
        if self.parts != NULL:
            for i in range(self.n_partitions):
                owner_unref(<Owner*> self.parts[i])
        struct_free(self.slots)
        struct_free(self.held)
        struct_free(self.bases)
        struct_free(self.free_slots)
        struct_free(self.filled)
        struct_free(self.parts)
        struct_free(self.part_rows)
        self.slots = NULL
        self.held = NULL
        self.bases = NULL
        self.free_slots = NULL
        self.filled = NULL
        self.n_filled = 0
        self.parts = NULL
        self.part_rows = NULL
        owner_unref(<Owner*> self.schema)
        self.schema = NULL

    cdef int bind(self, CSchema* schema) except -1 nogil:
        if self.schema != NULL:
            self.close_pages()
        self.drop_layout()
        self.schema = <CSchema*> owner_ref(<Owner*> schema)
        self.n_columns = schema.n_fields
        return self.lay_out()

    cdef int lay_out(self) except -1 nogil:
        """Choose the number of rows of a page, and allocate the lists of open pages."""
        cdef int64_t row_bytes = 0
        cdef int64_t i, page_bytes, open_bytes
        cdef int width
        for i in range(self.n_columns):
            width = phys_width(self.schema.fields[i].type.phys)
            row_bytes += width
            if self.schema.fields[i].type.phys == PHYS_VIEW:
                row_bytes += LONG_STRING_BYTES
        open_bytes = max(bytes_left(self.account) // SHARE_LEFT, <int64_t> OPEN_BYTES_MIN)
        page_bytes = min(self.page_bytes, min(open_bytes, <int64_t> OPEN_BYTES_MAX) // self.n_partitions)
        # A power of two, like the pool's buffers, so that no part of a buffer stays unused.
        self.capacity = PAGE_ROWS_MIN
        while self.capacity < PAGE_ROWS_MAX and self.capacity * 2 * row_bytes <= page_bytes:
            self.capacity *= 2
        if schema_has_nested(self.schema):
            self.part_rows = <int64_t*> struct_new(self.n_partitions * sizeof(int64_t))
            self.parts = <OwnerList**> struct_new(self.n_partitions * sizeof(OwnerList*))
            return 0
        self.held = <Buffer**> struct_new((2 * self.n_slots * self.n_columns + 1) * sizeof(Buffer*))
        self.bases = <char**> struct_new((self.n_slots * self.n_columns + 1) * sizeof(char*))
        self.free_slots = <int32_t*> struct_new(self.n_slots * sizeof(int32_t))
        self.filled = <int32_t*> struct_new(self.n_slots * sizeof(int32_t))
        self.slots = <OpenPage*> struct_new(self.n_slots * sizeof(OpenPage))
        for i in range(self.n_slots):
            self.slots[i].partition = -1
            self.slots[i].values = self.held + 2 * i * self.n_columns
            self.slots[i].validity = self.slots[i].values + self.n_columns
            self.free_slots[i] = <int32_t> (self.n_slots - 1 - i)
        self.n_free = self.n_slots
        return 0

    cdef int append(self, Batch* batch, int64_t start, int64_t n, const uint16_t* partitions) except -1 nogil:
        cdef PageRuns runs
        cdef Vector vector
        cdef const uint32_t* rows = NULL
        cdef int64_t i
        if self.parts != NULL:
            return self.append_parts(batch, start, n, partitions)
        if batch.selection != NULL:
            rows = batch.selection + start
        self.assign_pages(partitions, n, &runs)
        for i in range(self.n_columns):
            column_load(batch.columns[i], start, rows, n, self.scratch, &vector)
            self.scatter_column(<int32_t> i, &vector, n, &runs)
        for i in range(self.n_filled):
            self.close_page(self.filled[i])
        self.n_filled = 0
        return 0

    cdef int assign_pages(self, const uint16_t* partitions, int64_t n, PageRuns* runs) except -1 nogil:
        """Order the rows by partition, and assign each run of them a page. After a full page another one is opened."""
        cdef int64_t ends[PARTITIONS_MAX]
        cdef int64_t p, run, end
        cdef int64_t at = 0
        cdef OpenPage* page
        qc_check_partitions(partitions, n, self.n_partitions, b"a row's partition is one of the partitions")
        memset(ends, 0, self.n_partitions * sizeof(int64_t))
        count_rows(partitions, n, self.n_partitions, ends)
        counts_to_starts(ends, self.n_partitions)
        place_rows(partitions, self.n_partitions, NULL, 0, n, ends, runs.rows)
        runs.n = 0
        for p in range(self.n_partitions):      # place_rows moved the starts to the ends
            while at < ends[p]:
                if self.slot_of[p] < 0:
                    self.open_page(p)
                run = runs.n
                page = &self.slots[self.slot_of[p]]
                end = min(ends[p], at + self.capacity - page.n_rows)
                qc_check(run < VECTOR_ROWS and end > at, b"each run has a row")
                runs.slots[run] = self.slot_of[p]
                runs.positions[run] = <uint32_t> page.n_rows
                runs.ends[run] = <uint32_t> end
                runs.n += 1
                page.n_rows += end - at
                at = end
                if page.n_rows == self.capacity:
                    self.slot_of[p] = -1
                    self.note_filled(page)
        qc_check(at == n, b"every row is in one run")
        return 0

    cdef void note_filled(self, OpenPage* page) noexcept nogil:
        page.is_filled = True
        qc_check(self.n_filled < self.n_slots, b"a page is filled once")
        self.filled[self.n_filled] = <int32_t> (page - self.slots)
        self.n_filled += 1

    cdef int32_t open_page(self, int64_t partition) except -1 nogil:
        cdef OpenPage* page
        cdef int64_t i
        cdef int32_t slot
        cdef int width
        qc_check((partition >= 0) & (partition < self.n_partitions), b"a page's partition is one of the partitions")
        qc_check(self.n_free > 0, b"a slot is free for a new page")
        slot = self.free_slots[self.n_free - 1]
        page = &self.slots[slot]
        for i in range(self.n_columns):
            width = phys_width(self.schema.fields[i].type.phys)
            if width > 0:
                page.values[i] = buffer_new(self.account, self.capacity * width)
                self.bases[i * self.n_slots + slot] = page.values[i].data
        self.n_free -= 1
        page.partition = partition
        page.n_rows = 0
        page.is_filled = False
        self.slot_of[partition] = slot
        return slot

    cdef int scatter_column(self, int32_t column, const Vector* vector, int64_t n, PageRuns* runs) except -1 nogil:
        cdef char** bases = self.bases + column * self.n_slots
        cdef int width = phys_width(vector.phys)
        cdef int64_t r
        if width == 0:
            return 0
        for r in range(runs.n):
            runs.out[r] = bases[runs.slots[r]] + runs.positions[r] * width
        scatter_runs(vector.values, n, width, runs.rows, runs.ends, runs.n, runs.out)
        if vector.phys == PHYS_VIEW and simd_kernels().views_long(vector.values, n):
            copy_text(self, vector, runs)
        if vector.validity != NULL:
            self.clear_nulls(column, vector, runs)
        return 0

    cdef int clear_nulls(self, int32_t column, const Vector* vector, const PageRuns* runs) except -1 nogil:
        cdef OpenPage* page
        cdef uint32_t i = 0
        cdef int64_t r, first
        for r in range(runs.n):
            page = &self.slots[runs.slots[r]]
            first = <int64_t> runs.positions[r] - i
            while i < runs.ends[r]:
                if not bit_get(vector.validity, runs.rows[i]):
                    if page.validity[column] == NULL:
                        page.validity[column] = buffer_new(self.account, bitmap_bytes(self.capacity))
                        memset(page.validity[column].data, 0xFF, bitmap_bytes(self.capacity))
                    qc_check(first + i < page.n_rows, b"a row's position is below the row count of its page")
                    bit_clear(<uint8_t*> page.validity[column].data, first + i)
                i += 1
        return 0

    cdef int close_pages(self) except -1 nogil:
        cdef int64_t i
        if self.parts != NULL:
            for i in range(self.n_partitions):
                self.close_part(i)
            return 0
        for i in range(self.n_partitions):
            if self.slot_of[i] >= 0:
                self.close_page(self.slot_of[i])
        return 0

    cdef int close_page(self, int32_t slot) except -1 nogil:
        """Make a full page of the page in this slot, and free the slot."""
        cdef OpenPage* page = &self.slots[slot]
        cdef int64_t n_bytes = 0
        cdef Batch* batch = self.page_batch(page, &n_bytes)
        cdef int64_t partition = page.partition
        if self.slot_of[partition] == slot:
            self.slot_of[partition] = -1
        owner_unref(<Owner*> page.heap)
        page.heap = NULL
        page.heap_cursor = NULL
        page.heap_end = NULL
        page.heap_bytes = 0
        page.partition = -1
        self.free_slots[self.n_free] = slot
        self.n_free += 1
        return self.add_full(partition, batch, n_bytes)

    cdef Batch* page_batch(self, OpenPage* page, int64_t* n_bytes) except NULL nogil:
        """Make a batch of the page's rows. The batch takes over the page's buffers."""
        cdef Batch* batch = batch_new(self.schema, page.n_rows)
        cdef Column* column
        cdef Buffer* buffer
        cdef int32_t i
        cdef int width
        cdef bint done = False
        try:
            for i in range(self.n_columns):
                width = phys_width(self.schema.fields[i].type.phys)
                if width == 0:
                    batch.columns[i] = column_constant_null(&self.schema.fields[i].type, page.n_rows)
                    continue
                batch.columns[i] = column = column_new(&self.schema.fields[i].type, page.n_rows)
                buffer = page.values[i]
                page.values[i] = NULL
                buffer = trim_buffer(buffer, page.n_rows * width)
                column.values = buffer.data
                column.values_owner = <Owner*> buffer
                n_bytes[0] += buffer.size
                if page.validity[i] != NULL:
                    buffer = page.validity[i]
                    page.validity[i] = NULL
                    column.validity = <uint8_t*> buffer.data
                    column.validity_owner = <Owner*> buffer
                    n_bytes[0] += buffer.size
                if self.schema.fields[i].type.phys == PHYS_VIEW:
                    column.heap_owner = owner_ref(<Owner*> page.heap)
            n_bytes[0] += page.heap_bytes
            done = True
        finally:
            if not done:
                batch_unref(batch)
        return batch

    cdef int add_full(self, int64_t partition, Batch* batch, int64_t n_bytes) except -1 nogil:
        """Append a full page. Consumes the reference to batch."""
        cdef FullPage* bigger
        cdef int64_t i
        if self.n_full == self.full_capacity:
            bigger = NULL
            try:
                bigger = <FullPage*> struct_new((self.full_capacity * 2 + 8) * sizeof(FullPage))
            finally:
                if bigger == NULL:
                    batch_unref(batch)
            for i in range(self.n_full):
                bigger[i] = self.full[(self.full_head + i) % self.full_capacity]
            struct_free(self.full)
            self.full = bigger
            self.full_head = 0
            self.full_capacity = self.full_capacity * 2 + 8
        i = (self.full_head + self.n_full) % self.full_capacity
        self.full[i].partition = partition
        self.full[i].batch = batch
        self.full[i].n_bytes = n_bytes
        self.n_full += 1
        return 0

    cdef bint take_full(self, FullPage* page) noexcept nogil:
        if self.n_full == 0:
            return False
        page[0] = self.full[self.full_head]
        self.full_head = (self.full_head + 1) % self.full_capacity
        self.n_full -= 1
        return True

    # --- lists, structs and maps: kernels do not read them, so pyarrow joins the rows of a page ---

    cdef int append_parts(self, Batch* batch, int64_t start, int64_t n, const uint16_t* partitions) except -1 nogil:
        cdef int64_t positions[PARTITIONS_MAX]
        cdef int64_t i
        cdef int64_t first = 0
        cdef Batch* part
        cdef Buffer* rows = buffer_new(self.account, n * 4)
        try:
            memset(positions, 0, self.n_partitions * sizeof(int64_t))
            count_rows(partitions, n, self.n_partitions, positions)
            counts_to_starts(positions, self.n_partitions)
            place_rows(
                partitions, self.n_partitions, batch.selection, start, n, positions, <uint32_t*> rows.data
            )
            for i in range(self.n_partitions):      # positions are the ends of the partitions now
                if positions[i] > first:
                    part = part_of(batch, <uint32_t*> rows.data + first, positions[i] - first, rows)
                    try:
                        if self.parts[i] == NULL:
                            self.parts[i] = owner_list_new()
                        owner_list_add(self.parts[i], <Owner*> part)
                    finally:
                        batch_unref(part)
                    self.part_rows[i] += positions[i] - first
                    if self.part_rows[i] >= self.capacity:
                        self.close_part(i)
                first = positions[i]
        finally:
            buffer_unref(rows)
        return 0

    cdef int close_part(self, int64_t partition) except -1 nogil:
        cdef Batch* batch
        cdef OwnerList* parts = self.parts[partition]
        if parts == NULL:
            return 0
        batch = nested_concat(parts, self.account)
        owner_unref(<Owner*> parts)
        self.parts[partition] = NULL
        self.part_rows[partition] = 0
        return self.add_full(partition, batch, batch_bytes(batch))


cdef Batch* part_of(Batch* batch, const uint32_t* rows, int64_t n, Buffer* owner) except NULL nogil:
    cdef Batch* part = batch_new(batch.schema, batch.n_rows)
    cdef int32_t i
    qc_check_selection(rows, n, batch.n_rows, b"a partition's rows ascend")
    for i in range(batch.n_columns):
        part.columns[i] = column_ref(batch.columns[i])
    batch_select(part, rows, n, <Owner*> owner)
    return part
