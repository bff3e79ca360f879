"""The values of one column, decoded from its pages into columns of the engine.

A page's rows are read in any number of steps. Values come without nulls first and are then spread over their rows.
Rows that are not needed are skipped: pages without a needed row by their header, which says how many rows they have.
Strings become views of the decompressed page, which the column keeps alive. If all rows of a step have codes, strings
come as codes and dictionary.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport (
    DICTIONARY, STORE_CANONICAL, VIEW_INLINE_BYTES, Column, StringView, column_new, column_ref, column_unref,
    view_data,
)
from qcore_ext.data.schema cimport PHYS_F32, PHYS_F64, PHYS_VIEW, TYPE_STRING, Schema, phys_width
from qcore_ext.data.text_check cimport is_ascii, is_utf8
from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.memory cimport (
    MemoryAccount, Owner, OwnerList, buffer_new, buffer_unref, owner_list_add, owner_list_new, owner_ref,
    owner_unref,
)
from qcore_ext.parquet.kernels cimport (
    QP_DATA_PAGE, QP_DATA_PAGE_V2, QP_DICTIONARY_PAGE, QP_SLACK, QP_STEP, QpView, parquet_kernels,
    qp_cut8, qp_cut16, qp_cut64, qp_decimals, qp_decimals_narrow, qp_decimals_wide, qp_delta_end, qp_delta_next,
    qp_delta_open, qp_msb_bits, qp_pick, qp_plain_skip, qp_runs_open, qp_runs_packed, qp_runs_pick,
    qp_runs_skip, qp_set_bits, qp_streams, qp_views_lengths, qp_views_pick, qp_views_plain, qp_widen32,
)
from qcore_ext.parquet.pages cimport PageReader

cdef enum:
    # Encodings of Parquet.
    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9

    # Codes are decoded one by one if fewer than one in so many is needed: one costs 0.4 ns if runs are long, and 0.1 ns
    # if all are decoded. With 32, which is best for short runs, TPC-DS Q88 took 1.10 of the time and Q46 1.13.
    PICK_SHARE = 5

# The values of booleans, as a dictionary.
cdef uint8_t[2] TRUTHS
TRUTHS[0] = 0
TRUTHS[1] = 1


cdef uint32_t load32(const uint8_t* at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef OwnerList* copy_strings(StringView* views, int64_t n, MemoryAccount* account) except NULL nogil:
    """Copy the bytes of n strings (null ones are empty), and return their owner. An operator that keeps a few strings
    of a page then does not keep the page.
    """
    cdef OwnerList* heap = NULL
    cdef Buffer* bytes
    cdef int64_t total = 0
    cdef int64_t i
    cdef bint done = False
    for i in range(n):
        total += views[i].length if views[i].length > VIEW_INLINE_BYTES else 0
    bytes = buffer_new(account, total + 1)
    try:
        heap = owner_list_new()
        owner_list_add(heap, <Owner*> bytes)
        done = True
    finally:
        buffer_unref(bytes)
        if not done:
            owner_unref(<Owner*> heap)
    total = 0
    for i in range(n):
        if views[i].length > VIEW_INLINE_BYTES:
            memcpy(bytes.data + total, views[i].pointer, views[i].length)
            views[i].pointer = bytes.data + total
            total += views[i].length
    return heap


cdef class ColumnReader:
    """Reads the chunks of one column, one after another, on one thread.

    Parameters
    ----------
    path, name : str
        For error messages.
    schema : Schema
    position : int
        The field of the schema that has the type of the columns that are made.
    conversion : int
        A Conversion that gives values of that type.
    width : int
        Bytes of a stored value; 0: of any length.
    is_optional : bool
        Rows may be null.
    """

    def __init__(
        self, str path, str name, Schema schema, int64_t position, int conversion, int width, bint is_optional,
    ):
        cdef int size
        self.pages = PageReader(path, name)
        self.kernels = parquet_kernels()
        self.type = schema.schema.fields[position].type
        self.conversion = conversion
        self.width = width
        self.is_optional = is_optional
        self.was_read = True
        self.is_text = self.type.id == TYPE_STRING
        self.is_integer = conversion <= CONVERT_CUT and not (
            self.type.phys == PHYS_F32 or self.type.phys == PHYS_F64
        )
        self.size = size = phys_width(self.type.phys)
        self.lane = 0
        while size > 1:
            size >>= 1
            self.lane += 1

    def __dealloc__(self):
        self.close()

    cdef void close(self) noexcept nogil:
        buffer_unref(self.dictionary)
        column_unref(self.dictionary_column)
        self.dictionary = NULL
        self.dictionary_column = NULL
        if self.pages is not None:
            self.pages.close()

    cdef int open(
        self, MemoryAccount* account, int file, int64_t group, int64_t n_rows, int64_t start, int64_t n_bytes,
        int64_t n_uncompressed,
    ) except -1 nogil:
        self.account = account
        self.group_left = n_rows
        self.page_left = 0
        self.to_skip = 0
        self.skips_pages = False
        self.is_needed = self.was_read
        self.was_read = False
        self.has_dictionary = False
        self.pages.open(account, file, group, start, n_bytes, n_uncompressed)
        return 0

    # --- pages ---

    cdef int turn_page(self) except -1 nogil:
        """Begin the next page with rows. Pages of which all rows are skipped are passed."""
        while self.page_left == 0:
            if not self.pages.next_page():
                return self.pages.fail(b"its pages have fewer rows than the row group")
            if self.pages.page.type == QP_DICTIONARY_PAGE:
                self.read_dictionary()
            elif self.pages.page.type == QP_DATA_PAGE or self.pages.page.type == QP_DATA_PAGE_V2:
                if not self.skips_page():
                    self.begin_page()
        return 0

    cdef bint skips_page(self) except -1 nogil:
        """Pass the page whose header was read if none of its rows is needed."""
        cdef int64_t n = self.pages.page.n_values
        if not self.pages.page.has_details:
            self.pages.fail(b"a page header lacks the page's description")
        if n > self.group_left:
            self.pages.fail(b"its pages have more rows than the row group")
        self.group_left -= n
        if self.to_skip == 0 or n > self.to_skip:
            return False
        self.to_skip -= n
        self.skips_pages = True
        self.pages_skipped += 1
        return True

    cdef void skip(self, int64_t n) noexcept nogil:
        """Skip the next n rows. Nothing is done before the next call of read, which may not come."""
        self.to_skip += n

    cdef int skip_rows(self) except -1 nogil:
        """Skip the rows of `to_skip` now."""
        cdef uint8_t[192] bits          # a bit for each of QP_STEP rows, and QP_SLACK bytes
        cdef int64_t step, stored
        while self.to_skip > 0:
            self.turn_page()
            step = min(self.to_skip, self.page_left)
            stored = step
            if self.is_optional:
                step = min(step, <int64_t> QP_STEP)
                memset(bits, 0, sizeof(bits))
                stored = self.read_levels(step, bits, 0)
            self.skip_values(stored)
            self.pass_rows(step)
            self.to_skip -= step
        return 0

    cdef void pass_rows(self, int64_t n) noexcept nogil:
        """Count n rows of the page as read."""
        self.page_left -= n
        self.page_at += n

    cdef int read_dictionary(self) except -1 nogil:
        cdef int64_t n = self.pages.page.n_values
        cdef const uint8_t* at
        cdef bint ascii
        if not self.pages.page.has_details or (
            self.pages.page.encoding != PLAIN and self.pages.page.encoding != PLAIN_DICTIONARY
        ):
            return self.pages.fail(b"a dictionary page has an encoding that dictionaries do not have")
        if self.has_dictionary:
            return self.pages.fail(b"it has two dictionaries")
        if self.conversion == CONVERT_BITS:
            return self.pages.fail(b"booleans have a dictionary")
        self.pages.load(self.type.phys == PHYS_VIEW, not self.skips_pages)
        at = self.pages.values
        # Each value takes at least a length or its width, so the buffer below is no larger than 4 times the page.
        if n > (self.pages.values_end - at) // max(self.width, 1 if self.width else 4):
            return self.pages.fail(b"a dictionary page is shorter than its values")
        buffer_unref(self.dictionary)
        self.dictionary = NULL
        column_unref(self.dictionary_column)
        self.dictionary_column = NULL
        self.dictionary = buffer_new(self.account, n * self.size + QP_SLACK)
        ascii = self.is_text and is_ascii(at, self.pages.values_end - at)
        self.plain(&at, self.pages.values_end, n, self.dictionary.data)
        self.n_dictionary = n
        if self.is_text and not ascii:
            self.require_text(self.dictionary.data, n)
        self.dictionary_column = column_new(&self.type, n)
        self.dictionary_column.storage = STORE_CANONICAL
        self.dictionary_column.values = self.dictionary.data
        self.dictionary_column.values_owner = owner_ref(<Owner*> self.dictionary)
        if self.type.phys == PHYS_VIEW:
            self.dictionary_column.heap_owner = owner_ref(<Owner*> self.pages.body)
        self.has_dictionary = True
        return 0

    cdef int begin_page(self) except -1 nogil:
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef int64_t n = self.pages.page.n_values
        cdef int64_t n_levels
        self.pages.load(self.type.phys == PHYS_VIEW, not self.skips_pages)
        at = self.pages.values
        end = self.pages.values_end
        self.levels_are_msb = False
        if self.pages.page.type == QP_DATA_PAGE_V2:
            qp_runs_open(&self.levels, self.pages.levels, self.pages.levels_end, 1)
        elif self.is_optional:
            if self.pages.page.level_encoding == BIT_PACKED:
                n_levels = (n + 7) >> 3
                self.levels_are_msb = True
                self.levels_at = at
            elif self.pages.page.level_encoding == RLE and end - at >= 4:
                n_levels = load32(at)
                at += 4
            else:
                return self.pages.fail(b"the definition levels of a page have an unknown encoding")
            if n_levels > end - at:
                return self.pages.fail(b"the levels of a page are longer than the page")
            if not self.levels_are_msb:
                qp_runs_open(&self.levels, at, at + n_levels, 1)
            at += n_levels
        self.begin_values(at, end)
        self.page_left = n
        self.page_at = 0
        return 0

    cdef int begin_values(self, const uint8_t* at, const uint8_t* end) except -1 nogil:
        cdef int64_t encoding = self.pages.page.encoding
        cdef int64_t n = self.pages.page.n_values
        cdef int64_t found
        self.at = at
        self.end = end
        self.page_is_ascii = False
        if encoding == PLAIN and self.conversion == CONVERT_BITS:
            self.mode = MODE_BITS
            qp_runs_packed(&self.codes, at, end, 1, (end - at) * 8)
        elif encoding == RLE and self.conversion == CONVERT_BITS:
            if end - at < 4 or load32(at) > end - at - 4:
                return self.pages.fail(b"a page of booleans is shorter than its values")
            self.mode = MODE_BITS
            qp_runs_open(&self.codes, at + 4, at + 4 + load32(at), 1)
        elif encoding == PLAIN:
            self.mode = MODE_PLAIN
            self.page_is_ascii = self.is_text and is_ascii(at, end - at)
        elif encoding == PLAIN_DICTIONARY or encoding == RLE_DICTIONARY:
            if not self.has_dictionary:
                return self.pages.fail(b"a page needs a dictionary, which its column chunk does not have")
            self.mode = MODE_CODES
            if at == end:
                qp_runs_open(&self.codes, at, end, 0)
            elif at[0] > 32:
                return self.pages.fail(b"the codes of a page are wider than 32 bits")
            else:
                qp_runs_open(&self.codes, at + 1, end, at[0])
        elif encoding == DELTA_BINARY_PACKED and self.is_integer:
            self.mode = MODE_DELTA
            found = qp_delta_open(&self.delta, at, end)
            if found < 0 or found > n:
                return self.pages.fail(b"the head of delta-encoded values is malformed")
        elif encoding == DELTA_LENGTH_BYTE_ARRAY and self.conversion == CONVERT_TEXT:
            self.mode = MODE_LENGTHS
            found = qp_delta_open(&self.delta, at, end)
            if found < 0 or found > n:
                return self.pages.fail(b"the head of delta-encoded lengths is malformed")
            self.at = qp_delta_end(&self.delta)
            if self.at == NULL:
                return self.pages.fail(b"a page is shorter than the lengths of its strings")
            self.page_is_ascii = self.is_text and is_ascii(self.at, end - self.at)
        elif encoding == BYTE_STREAM_SPLIT and self.width > 0 and self.type.phys != PHYS_VIEW:
            self.mode = MODE_STREAMS
            self.streams_total = (end - at) // self.width
            self.streams_at = 0
        else:
            return self.pages.fail(b"a page has an encoding that its column's type does not have")
        return 0

    # --- values ---

    cdef int plain(self, const uint8_t** at, const uint8_t* end, int64_t n, char* out) except -1 nogil:
        """Convert n stored values."""
        cdef const uint8_t* values = at[0]
        if self.conversion == CONVERT_TEXT:
            if qp_views_plain(at, end, n, <QpView*> out) < n:
                return self.pages.fail(b"a string is longer than its page")
            return 0
        if n > (end - values) // self.width:
            return self.pages.fail(b"a page is shorter than its values")
        if self.conversion == CONVERT_NONE:
            memcpy(out, values, n * self.width)
        elif self.conversion == CONVERT_WIDEN:
            qp_widen32(values, n, <int64_t*> out)
        elif self.conversion == CONVERT_CUT and self.size == 2:
            qp_cut16(values, n, <uint16_t*> out)
        elif self.conversion == CONVERT_CUT:
            qp_cut8(values, n, <uint8_t*> out)
        elif self.conversion == CONVERT_DECIMAL_WIDE:
            qp_decimals_wide(values, n, self.width, <int64_t*> out)
        elif self.width <= 8:
            qp_decimals(values, n, self.width, <int64_t*> out)
        elif not qp_decimals_narrow(values, n, self.width, <int64_t*> out):
            return self.pages.fail(b"a stored decimal has more digits than its type's precision")
        at[0] = values + n * self.width
        return 0

    cdef int require_text(self, const void* views, int64_t n) except -1 nogil:
        cdef const StringView* view = <const StringView*> views
        cdef int64_t i
        for i in range(n):
            if not is_utf8(<const uint8_t*> view_data(&view[i]), view[i].length):
                return self.pages.fail(b"a string is not UTF-8")
        return 0

    cdef int decode_codes(self, int64_t n, uint32_t* out) except -1 nogil:
        """The next n codes, which are in the dictionary."""
        if self.kernels.codes(&self.codes, n, out) < n:
            return self.pages.fail(b"a page is shorter than its codes")
        if n > 0 and self.kernels.greatest(out, n) >= self.n_dictionary:
            return self.pages.fail(b"a code is outside its dictionary")
        return 0

    cdef int decode(self, int64_t n, char* out, OwnerList* heap) except -1 nogil:
        """The next n non-null values. The owners of views are added to `heap`."""
        cdef uint32_t[1088] codes       # QP_STEP, and QP_SLACK bytes
        cdef int64_t[1024] numbers
        cdef uint8_t[16448] bytes       # QP_STEP values of 16 bytes, and QP_SLACK
        cdef const uint8_t* at
        cdef const void* values
        cdef int64_t step
        cdef int64_t done = 0
        if self.mode == MODE_PLAIN:
            self.plain(&self.at, self.end, n, out)
        elif self.mode == MODE_CODES or self.mode == MODE_BITS:
            values = self.dictionary.data if self.mode == MODE_CODES else <const char*> TRUTHS
            while done < n:
                step = min(n - done, <int64_t> QP_STEP)
                if self.mode == MODE_CODES:
                    self.decode_codes(step, codes)
                elif self.kernels.codes(&self.codes, step, codes) < step or self.kernels.greatest(codes, step) > 1:
                    return self.pages.fail(b"a page of booleans is shorter than its values")
                self.kernels.gather[self.lane](values, codes, step, out + done * self.size)
                done += step
        elif self.mode == MODE_STREAMS:
            if n > self.streams_total - self.streams_at:
                return self.pages.fail(b"a page is shorter than its values")
            if self.conversion == CONVERT_NONE:
                qp_streams(self.at, self.streams_total, self.streams_at, n, self.width, <uint8_t*> out)
                self.streams_at += n
                done = n
            while done < n:
                step = min(n - done, <int64_t> QP_STEP)
                qp_streams(self.at, self.streams_total, self.streams_at, step, self.width, bytes)
                at = bytes
                self.plain(&at, at + step * self.width, step, out + done * self.size)
                self.streams_at += step
                done += step
        else:
            while done < n:
                step = min(n - done, <int64_t> QP_STEP)
                if not qp_delta_next(&self.delta, step, numbers):
                    return self.pages.fail(b"a page is shorter than its delta-encoded values")
                if self.mode == MODE_LENGTHS:
                    if qp_views_lengths(
                        numbers, step, &self.at, self.end, (<QpView*> out) + done
                    ) < step:
                        return self.pages.fail(b"a string is longer than its page")
                elif self.conversion == CONVERT_WIDEN:
                    qp_cut64(numbers, step, 4, bytes)
                    qp_widen32(bytes, step, <int64_t*> out + done)
                elif self.size == 8:
                    memcpy(out + done * 8, numbers, step * 8)
                else:
                    qp_cut64(numbers, step, self.size, out + done * self.size)
                done += step
        if self.type.phys == PHYS_VIEW:
            self.keep_heap(out, n, heap)
        return 0

    cdef int keep_heap(self, const void* views, int64_t n, OwnerList* heap) except -1 nogil:
        """Add the owners of the n views just made to `heap`, and check their text."""
        if self.mode == MODE_CODES:
            return owner_list_add(heap, self.dictionary_column.heap_owner)
        owner_list_add(heap, <Owner*> self.pages.body)
        if self.is_text and not self.page_is_ascii:
            self.require_text(views, n)
        return 0

    # --- some of the values ---

    cdef int pick_codes(self, const uint32_t* places, int64_t k, int64_t n, uint32_t* out) except -1 nogil:
        """The codes, or booleans as codes, at k ascending places among the next n."""
        cdef int64_t n_values = self.n_dictionary if self.mode == MODE_CODES else 2
        cdef uint32_t[1088] codes       # QP_STEP, and QP_SLACK bytes
        cdef int64_t i
        if k * PICK_SHARE > n and n <= QP_STEP:
            # Decoding all codes is faster: eight at a time.
            if self.kernels.codes(&self.codes, n, codes) < n:
                return self.pages.fail(b"a page is shorter than its codes")
            for i in range(k):
                out[i] = codes[places[i]]
        elif not qp_runs_pick(&self.codes, places, k, n, out):
            return self.pages.fail(b"a page is shorter than its codes")
        if k > 0 and self.kernels.greatest(out, k) >= n_values:
            return self.pages.fail(b"a code is outside its dictionary")
        return 0

    cdef int pick_bytes(self, const uint32_t* places, int64_t k, int64_t n, uint8_t* out) except -1 nogil:
        """The stored values of a fixed width at k places among the next n <= QP_STEP."""
        cdef uint8_t[16448] bytes       # QP_STEP values of 16 bytes, and QP_SLACK
        cdef int64_t held = (
            self.streams_total - self.streams_at if self.mode == MODE_STREAMS else (self.end - self.at) // self.width
        )
        if n > held:
            return self.pages.fail(b"a page is shorter than its values")
        if self.mode == MODE_STREAMS:
            qp_streams(self.at, self.streams_total, self.streams_at, n, self.width, bytes)
            qp_pick(bytes, self.width, places, k, out)
            self.streams_at += n
        else:
            qp_pick(self.at, self.width, places, k, out)
            self.at += n * self.width
        return 0

    cdef int pick(
        self, const uint32_t* places, int64_t k, int64_t n, char* out, OwnerList* heap,
    ) except -1 nogil:
        """The values at k ascending places among the next n <= QP_STEP non-null values. `heap` as in decode."""
        cdef uint32_t[1088] codes       # QP_STEP, and QP_SLACK bytes
        cdef uint64_t[2056] words       # QP_STEP values of 16 bytes, and QP_SLACK
        cdef const uint8_t* at = <const uint8_t*> words
        if self.mode == MODE_CODES or self.mode == MODE_BITS:
            self.pick_codes(places, k, n, codes)
            self.kernels.gather[self.lane](
                self.dictionary.data if self.mode == MODE_CODES else <const char*> TRUTHS, codes, k, out
            )
        elif self.mode == MODE_DELTA or self.mode == MODE_LENGTHS:
            # Each value depends on the one before it.
            self.decode(n, <char*> words, heap)
            self.kernels.gather[self.lane](words, places, k, out)
            return 0
        elif self.conversion == CONVERT_TEXT:
            if not qp_views_pick(&self.at, self.end, places, k, n, <QpView*> out):
                return self.pages.fail(b"a string is longer than its page")
        elif self.conversion == CONVERT_NONE:
            self.pick_bytes(places, k, n, <uint8_t*> out)
        else:
            self.pick_bytes(places, k, n, <uint8_t*> words)
            self.plain(&at, at + k * self.width, k, out)
        if self.type.phys == PHYS_VIEW:
            self.keep_heap(out, k, heap)
        return 0

    cdef int skip_values(self, int64_t n) except -1 nogil:
        """Pass n non-null values."""
        cdef int64_t[1024] numbers
        cdef uint64_t[2056] views       # QP_STEP views, and QP_SLACK bytes
        cdef int64_t done = 0
        cdef int64_t step
        cdef bint whole = True
        if self.mode == MODE_CODES or self.mode == MODE_BITS:
            whole = qp_runs_skip(&self.codes, n)
        elif self.mode == MODE_STREAMS:
            whole = n <= self.streams_total - self.streams_at
            self.streams_at += n
        elif self.mode == MODE_PLAIN and self.width == 0:
            whole = qp_plain_skip(&self.at, self.end, n) == n
        elif self.mode == MODE_PLAIN:
            whole = n <= (self.end - self.at) // self.width
            self.at += n * self.width if whole else 0
        while done < n and whole and (self.mode == MODE_DELTA or self.mode == MODE_LENGTHS):
            step = min(n - done, <int64_t> QP_STEP)
            whole = qp_delta_next(&self.delta, step, numbers)
            if whole and self.mode == MODE_LENGTHS:
                whole = qp_views_lengths(numbers, step, &self.at, self.end, <QpView*> views) == step
            done += step
        if not whole:
            return self.pages.fail(b"a page is shorter than its values")
        return 0

    # --- columns ---

    cdef int64_t read_levels(self, int64_t n, uint8_t* validity, int64_t at) except -1 nogil:
        """Set the bits at..at+n to whether the page's next n rows have a value. Returns how many have one."""
        cdef int64_t found
        if not self.is_optional:
            return n
        if self.levels_are_msb:
            return qp_msb_bits(self.levels_at, self.page_at, n, validity, at)
        found = self.kernels.bits(&self.levels, n, validity, at)
        if found < 0:
            self.pages.fail(b"the definition levels of a page are damaged")
        return found

    cdef int give_up_codes(self, Parts* parts, int64_t n_rows, int64_t n_done) except -1 nogil:
        """Continue with values, because a page of the column does not have codes."""
        parts.values = buffer_new(self.account, n_rows * self.size + QP_SLACK)
        if self.type.phys == PHYS_VIEW:
            parts.heap = owner_list_new()
        if parts.indices != NULL:
            qc_check_rows(
                <uint32_t*> parts.indices.data, n_done, self.n_dictionary, b"a code decoded before is in the dictionary"
            )
            self.kernels.gather[self.lane](
                self.dictionary.data, <uint32_t*> parts.indices.data, n_done, parts.values.data
            )
            if parts.heap != NULL:
                owner_list_add(parts.heap, self.dictionary_column.heap_owner)
            buffer_unref(parts.indices)
            parts.indices = NULL
        return 0

    cdef int64_t read_step(self, Parts* parts, int64_t n_rows, int64_t done, int64_t step) except -1 nogil:
        """Read `step` rows of the page. Returns how many have a value."""
        cdef uint8_t* validity = <uint8_t*> parts.bits.data if parts.bits != NULL else NULL
        cdef int64_t stored = self.read_levels(step, validity, done)
        cdef uint32_t* codes
        cdef char* values
        qc_check(done + step <= n_rows, b"the rows of a step are within the column")
        qc_check((stored >= 0) & (stored <= step), b"at most each row of a step has a value")
        if self.mode == MODE_CODES and parts.values == NULL and self.n_dictionary > 0:
            if parts.indices == NULL:
                parts.indices = buffer_new(self.account, n_rows * 4 + QP_SLACK)
            codes = <uint32_t*> parts.indices.data + done
            self.decode_codes(stored, codes)
            if stored < step:
                self.kernels.spread[2](validity, done, step, stored, codes)
            return stored
        if parts.values == NULL:
            self.give_up_codes(parts, n_rows, done)
        values = parts.values.data + done * self.size
        self.decode(stored, values, parts.heap)
        if stored < step:
            self.kernels.spread[self.lane](validity, done, step, stored, values)
        return stored

    cdef Column* finish(self, Parts* parts, int64_t n, bint has_nulls) except NULL nogil:
        cdef Column* column = column_new(&self.type, n)
        column.storage = STORE_CANONICAL
        if has_nulls:
            column.validity = <uint8_t*> parts.bits.data
            column.validity_owner = owner_ref(<Owner*> parts.bits)
        if parts.indices != NULL:
            column.encoding = DICTIONARY
            column.base = column_ref(self.dictionary_column)
            column.indices = <const uint32_t*> parts.indices.data
            column.indices_owner = owner_ref(<Owner*> parts.indices)
        else:
            column.values = parts.values.data
            column.values_owner = owner_ref(<Owner*> parts.values)
            column.heap_owner = owner_ref(<Owner*> parts.heap)
        return column

    cdef int64_t pick_step(
        self, Parts* parts, int64_t m, int64_t done, const uint32_t* rows, int64_t first, int64_t k, int64_t step,
    ) except -1 nogil:
        """Pass `step` rows of the page, at most QP_STEP, and read k of them as the rows `done`..done+k of the column.

        `rows` has their numbers, of which `first` is that of the page's next row. Returns how many have a value.
        """
        cdef uint8_t[192] bits          # as in skip_rows
        cdef uint32_t[1024] places
        cdef uint8_t* validity = <uint8_t*> parts.bits.data if parts.bits != NULL else NULL
        cdef int64_t stored = step
        cdef int64_t found = k
        cdef int64_t i
        cdef char* values
        qc_check((done + k <= m) & (k <= step), b"the chosen rows of a step are within the column")
        if self.is_optional:
            memset(bits, 0, sizeof(bits))
            stored = self.read_levels(step, bits, 0)
        if stored < step:
            found = self.kernels.places(bits, rows, <uint32_t> first, k, places, validity, done)
        else:
            for i in range(k):
                places[i] = rows[i] - <uint32_t> first
            if validity != NULL:
                qp_set_bits(validity, done, k)
        self.pass_rows(step)
        if self.mode == MODE_CODES and parts.values == NULL and self.n_dictionary > 0:
            if parts.indices == NULL:
                parts.indices = buffer_new(self.account, m * 4 + QP_SLACK)
            values = parts.indices.data + done * 4
            self.pick_codes(places, found, stored, <uint32_t*> values)
            if found < k:
                self.kernels.spread[2](validity, done, k, found, values)
            return found
        if parts.values == NULL:
            self.give_up_codes(parts, m, done)
        values = parts.values.data + done * self.size
        self.pick(places, found, stored, values, parts.heap)
        if found < k:
            self.kernels.spread[self.lane](validity, done, k, found, values)
        return found

    cdef int64_t read_chosen(self, Parts* parts, int64_t n, const uint32_t* rows, int64_t m) except -1 nogil:
        """Read the m rows, of the next n, whose numbers `rows` has. Returns how many have a value."""
        cdef int64_t n_valid = 0
        cdef int64_t done = 0       # chosen rows that were read
        cdef int64_t passed = 0     # rows that were passed
        cdef int64_t k, end
        cdef OwnerList* pages
        while done < m:
            self.to_skip += rows[done] - passed
            passed = rows[done]
            self.skip_rows()
            self.turn_page()
            end = passed + min(self.page_left, <int64_t> QP_STEP)
            k = 1
            while done + k < m and rows[done + k] < end:
                k += 1
            end = <int64_t> rows[done + k - 1] + 1
            n_valid += self.pick_step(parts, m, done, rows + done, passed, k, end - passed)
            passed = end
            done += k
        self.to_skip += n - passed
        if self.type.phys == PHYS_VIEW and parts.values != NULL:
            pages = parts.heap
            parts.heap = copy_strings(<StringView*> parts.values.data, m, self.account)
            owner_unref(<Owner*> pages)
        return n_valid

    cdef int64_t read_all(self, Parts* parts, int64_t n) except -1 nogil:
        """Read the next n rows. Returns how many have a value."""
        cdef int64_t n_valid = 0
        cdef int64_t done = 0
        cdef int64_t step
        self.skip_rows()
        while done < n:
            self.turn_page()
            step = min(n - done, self.page_left)
            n_valid += self.read_step(parts, n, done, step)
            self.pass_rows(step)
            done += step
        return n_valid

    cdef Column* read(self, int64_t n, const uint32_t* rows, int64_t m) except NULL nogil:
        cdef Parts parts
        cdef int64_t n_valid
        qc_check((0 < m) & (m <= n), b"a column has rows, and no more than are passed")
        memset(&parts, 0, sizeof(Parts))
        self.was_read = True
        try:
            if self.is_optional:
                parts.bits = buffer_new(self.account, bitmap_bytes(m) + QP_SLACK)
                memset(parts.bits.data, 0, bitmap_bytes(m) + QP_SLACK)
            n_valid = self.read_all(&parts, n) if rows == NULL else self.read_chosen(&parts, n, rows, m)
            return self.finish(&parts, m, n_valid < m)
        finally:
            buffer_unref(parts.values)
            buffer_unref(parts.indices)
            buffer_unref(parts.bits)
            owner_unref(<Owner*> parts.heap)
