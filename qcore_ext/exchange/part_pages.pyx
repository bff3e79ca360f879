"""Pages of radix parts: rows for consumers that group them by part."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.column cimport VECTOR_ROWS, Column, Vector, VectorScratch, column_constant_null, column_new
from qcore_ext.data.load cimport column_load
from qcore_ext.data.schema cimport PHYS_NESTED, PHYS_VIEW, CSchema, DataType, phys_width
from qcore_ext.exchange.hash_partitioner cimport HashPartitioner
from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, Owner, account_check, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free,
    struct_new,
)
from qcore_ext.rows.part_buffers cimport (
    RADIX_PARTS, PartColumn, part_buffers_add, part_buffers_assign, part_buffers_complete, part_buffers_count,
    part_buffers_drop, part_buffers_free, part_buffers_new, part_buffers_rows,
)

cdef enum:
    BUFFER_BYTES_MAX = 134217728        # for the rows of all parts
    SHARE_LEFT = 16                     # at most this part of the memory that is left: pages wait in queues too
    SKEW = 4                            # is_skewed if the buffers have less than this part of their rows
    STRIDE = 97                         # odd: part * STRIDE % RADIX_PARTS visits all parts, far ones after each other


cdef class PartPages:

    def __dealloc__(self):
        self.release()

    cdef bint begin(self, MemoryAccount* account, CSchema* schema, int64_t page_rows) except -1 nogil:
        cdef DataType* types
        cdef int64_t row_bytes = 0
        cdef int64_t rows_each
        cdef int32_t c
        for c in range(schema.n_fields):
            if schema.fields[c].type.phys == PHYS_VIEW or schema.fields[c].type.phys == PHYS_NESTED:
                return False
            row_bytes += phys_width(schema.fields[c].type.phys)
        rows_each = part_buffers_rows(
            page_rows, row_bytes, min(bytes_left(account) // SHARE_LEFT, <int64_t> BUFFER_BYTES_MAX)
        )
        if rows_each == 0:
            return False
        self.account = account
        self.schema = <CSchema*> owner_ref(<Owner*> schema)
        self.pages = <Batch**> struct_new(RADIX_PARTS * sizeof(Batch*))
        self.vectors = <Vector*> struct_new(schema.n_fields * sizeof(Vector))
        self.scratch = <VectorScratch*> struct_new(schema.n_fields * sizeof(VectorScratch))
        types = <DataType*> struct_new(schema.n_fields * sizeof(DataType))
        try:
            for c in range(schema.n_fields):
                types[c] = schema.fields[c].type
            self.buffers = part_buffers_new(account, types, schema.n_fields, False, rows_each)
        finally:
            struct_free(types)
        return True

    cdef int64_t add(self, Batch* batch, int64_t start, HashPartitioner partitioner) except -1 nogil:
        cdef uint64_t hashes[VECTOR_ROWS]
        cdef uint32_t counts[RADIX_PARTS]
        cdef const uint32_t* rows = NULL
        cdef int64_t first = start
        cdef int64_t n, p
        cdef int32_t c
        while start < batch.n_selected:
            account_check(self.account)
            n = min(batch.n_selected - start, <int64_t> VECTOR_ROWS)
            if batch.selection != NULL:
                rows = batch.selection + start
            partitioner.hash(batch, start, n, hashes, self.account)
            if part_buffers_assign(self.buffers, hashes, n):
                part_buffers_count(self.buffers, n, counts)
                for p in range(RADIX_PARTS):
                    if self.buffers.n_rows[p] + counts[p] > self.buffers.rows_each:
                        self.close_pages()
                        return start - first
            for c in range(self.buffers.n_columns):
                column_load(batch.columns[c], start, rows, n, &self.scratch[c], &self.vectors[c])
            part_buffers_add(self.buffers, self.vectors, n)
            self.n_rows += n
            start += n
        return start - first

    cdef int close_pages(self) except -1 nogil:
        cdef Buffer** validity = NULL
        cdef int32_t c
        cdef int64_t i, part
        qc_check(self.next == self.n_pages, b"all pages were taken")
        self.is_skewed = self.n_rows * SKEW < RADIX_PARTS * self.buffers.rows_each
        self.next = 0
        self.n_pages = 0
        self.n_rows = 0
        for part in range(RADIX_PARTS):
            part_buffers_complete(self.buffers, part)
        try:
            validity = <Buffer**> struct_new(max(self.buffers.n_columns, 1) * sizeof(Buffer*))
            for c in range(self.buffers.n_columns):
                if self.buffers.columns[c].valid != NULL:
                    validity[c] = self.pack_validity(&self.buffers.columns[c])
            for i in range(RADIX_PARTS):
                part = i * STRIDE % RADIX_PARTS
                if self.buffers.n_rows[part] > 0:
                    self.pages[self.n_pages] = self.page_of(part, validity)
                    self.n_pages += 1
        finally:
            if validity != NULL:
                for c in range(self.buffers.n_columns):
                    buffer_unref(validity[c])
            struct_free(validity)
        part_buffers_drop(self.buffers)
        return 0

    cdef Buffer* pack_validity(self, PartColumn* column) except NULL nogil:
        """The validity of all parts as bits. Each part begins at a byte."""
        cdef int64_t rows_each = self.buffers.rows_each
        cdef Buffer* bits = buffer_new(self.account, RADIX_PARTS * bitmap_bytes(rows_each))
        cdef int64_t p
        memset(bits.data, 0, RADIX_PARTS * bitmap_bytes(rows_each))
        for p in range(RADIX_PARTS):
            simd_kernels().mask_to_bits(
                <const uint8_t*> column.valid.data + p * rows_each, self.buffers.n_rows[p],
                <uint8_t*> bits.data + p * bitmap_bytes(rows_each),
            )
        return bits

    cdef Batch* page_of(self, int64_t part, Buffer** validity) except NULL nogil:
        """The rows of a part. The page references the buffers of all parts."""
        cdef int64_t n = self.buffers.n_rows[part]
        cdef int64_t first = part * self.buffers.rows_each
        cdef Batch* page = batch_new(self.schema, n)
        cdef const DataType* type
        cdef PartColumn* source
        cdef Column* column
        cdef int32_t c
        cdef bint done = False
        page.part = <int32_t> part
        try:
            for c in range(self.buffers.n_columns):
                type = &self.schema.fields[c].type
                source = &self.buffers.columns[c]
                if source.width == 0:
                    page.columns[c] = column_constant_null(type, n)
                    continue
                page.columns[c] = column = column_new(type, n)
                column.values = source.values.data + first * source.width
                column.values_owner = owner_ref(<Owner*> source.values)
                if validity[c] != NULL:
                    column.validity = <const uint8_t*> validity[c].data + part * bitmap_bytes(self.buffers.rows_each)
                    column.validity_owner = owner_ref(<Owner*> validity[c])
            done = True
        finally:
            if not done:
                batch_unref(page)
        return page

    cdef Batch* first_page(self) noexcept nogil:
        return self.pages[self.next] if self.next < self.n_pages else NULL

    cdef void page_taken(self) noexcept nogil:
        self.pages[self.next] = NULL
        self.next += 1

    cdef void release(self) noexcept nogil:
        cdef int64_t i
        if self.pages != NULL:
            for i in range(RADIX_PARTS):
                batch_unref(self.pages[i])
        struct_free(self.pages)
        self.pages = NULL
        self.next = 0
        self.n_pages = 0
        part_buffers_free(self.buffers)
        self.buffers = NULL
        struct_free(self.vectors)
        self.vectors = NULL
        struct_free(self.scratch)
        self.scratch = NULL
        owner_unref(<Owner*> self.schema)
        self.schema = NULL
