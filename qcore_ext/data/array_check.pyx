"""Checks of an Arrow array from outside, made before its pointers are followed."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport atoi
from libc.string cimport memcmp, strchr, strcmp, strncmp

from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView
from qcore_ext.data.layout_check cimport LEVELS_MAX
from qcore_ext.data.text_check cimport are_utf8, is_utf8
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.simd cimport SIMD_CHECK_ROWS
from qcore_ext.ground.words cimport Integer

# The largest number of rows or elements. Sums of such numbers, and their bytes, fit 64 bits. All bits are ones, so that
# the bitwise or of several numbers is above it only if one of them is.
cdef int64_t LENGTH_MAX = 0xFFFFFFFFFFFFFF
# The largest number of rows of an array with buffers. More rows would have 4 TiB of offsets.
cdef int64_t BUFFERED_ROWS_MAX = 0xFFFFFFFFFF

cdef enum:
    STRING_BYTES_MAX = 2147483647
    DATA_UNKNOWN = -1
    TYPE_CODES = 128
    # The number of buffers of a view array besides those that views point into: the views, and after all others the
    # sizes.
    VIEW_BUFFERS = 2

cdef const char* NO_NAME = b""

ctypedef fused RunEnd:
    int16_t
    int32_t
    int64_t


cdef struct Rows:
    # The rows of one array to check.
    const ArrowArray* array
    const ArrowSchema* layout
    int64_t first               # position among the buffers' values, including the array's offset
    int64_t n
    int level
    bint text_only
    int64_t data_bytes          # size of the buffer of strings; DATA_UNKNOWN: the C interface does not state it


cdef struct ViewRows:
    # The buffers that views point into.
    const uint8_t* validity
    int64_t n_buffers
    const void** buffers
    const int64_t* sizes
    bint text


cdef inline const uint8_t* validity_of(const Rows* rows) noexcept nogil:
    return <const uint8_t*> rows.array.buffers[0] if rows.array.null_count != 0 else NULL


# --- lists and strings ---

cdef const char* offsets_fault(const int32_t* offsets, int64_t n, int64_t limit) noexcept nogil:
    """The fault of offsets, which must ascend, from 0 or more to at most `limit`; NULL if there is none."""
    if simd_kernels().or_steps(offsets, n) < 0:
        return b"its offsets descend or are negative"
    if offsets[n] > limit:
        return b"its offsets point outside their array"
    return NULL


cdef const char* large_offsets_fault(
    const int64_t* offsets, int64_t n, int64_t limit, uint64_t length_max,
) noexcept nogil:
    cdef int64_t seen = offsets[n]
    cdef uint64_t lengths = 0
    cdef int64_t i
    for i in range(n):
        seen |= offsets[i]
        lengths |= <uint64_t> offsets[i + 1] - <uint64_t> offsets[i]
    if seen < 0 or <int64_t> lengths < 0:
        return b"its offsets descend or are negative"
    if lengths > length_max:
        return b"a value of it is longer than 2 GiB"
    if offsets[n] > limit:
        return b"its offsets point outside their array"
    return NULL


cdef const char* strings_fault(const Rows* rows, bint large, bint text) noexcept nogil:
    cdef const int32_t* offsets = <const int32_t*> rows.array.buffers[1] + rows.first
    cdef const int64_t* large_offsets = <const int64_t*> rows.array.buffers[1] + rows.first
    cdef const uint8_t* data = <const uint8_t*> rows.array.buffers[2]
    cdef const char* fault = NULL
    cdef int64_t limit = rows.data_bytes
    if not rows.text_only:
        if large:
            fault = large_offsets_fault(
                large_offsets, rows.n, LENGTH_MAX if limit == DATA_UNKNOWN else limit, STRING_BYTES_MAX
            )
        else:
            fault = offsets_fault(offsets, rows.n, STRING_BYTES_MAX if limit == DATA_UNKNOWN else limit)
        if fault != NULL:
            return fault
        if data == NULL and (large_offsets[rows.n] > 0 if large else offsets[rows.n] > 0):
            return b"its buffer of bytes is missing"
    if not text or data == NULL:
        return NULL
    if large:
        if are_utf8(large_offsets, data, rows.n, validity_of(rows), rows.first):
            return NULL
    elif are_utf8(offsets, data, rows.n, validity_of(rows), rows.first):
        return NULL
    return b"it holds text that is not UTF-8"


cdef const char* view_fault(const ViewRows* rows, const StringView* view) noexcept nogil:
    """The fault of one view, or NULL."""
    cdef const int32_t* pair
    cdef const uint8_t* bytes_
    cdef int64_t j, length = <int32_t> view.length
    if length < 0:
        return b"one of its views has a negative length"
    if length <= VIEW_INLINE_BYTES:
        bytes_ = <const uint8_t*> view + 4
        # Short views are compared as 16 bytes, including the padding.
        for j in range(length, VIEW_INLINE_BYTES):
            if bytes_[j] != 0:
                return b"one of its short views is not padded with zeros"
    else:
        pair = <const int32_t*> &view.pointer
        if pair[0] < 0 or pair[0] >= rows.n_buffers:
            return b"one of its views points into a missing buffer"
        if pair[1] < 0 or pair[1] + length > rows.sizes[pair[0]] or rows.buffers[pair[0]] == NULL:
            return b"one of its views points past the end of its buffer"
        bytes_ = <const uint8_t*> rows.buffers[pair[0]] + pair[1]
        if memcmp(bytes_, view.prefix, 4) != 0:
            return b"the prefix of one of its views differs from the text"
    if rows.text and not is_utf8(bytes_, length):
        return b"it holds text that is not UTF-8"
    return NULL


cdef const char* set_view_rows(ViewRows* rows, const ArrowArray* array, bint text) noexcept nogil:
    rows.text = text
    rows.validity = <const uint8_t*> array.buffers[0] if array.null_count != 0 else NULL
    rows.n_buffers = array.n_buffers - VIEW_BUFFERS - 1
    rows.buffers = array.buffers + VIEW_BUFFERS
    rows.sizes = <const int64_t*> array.buffers[array.n_buffers - 1]
    if rows.n_buffers > 0 and rows.sizes == NULL:
        return b"the sizes of its view buffers are missing"
    return NULL


cdef const char* views_fault(
    const ArrowArray* array, bint text, int64_t first, const uint32_t* picked, int64_t n,
) noexcept nogil:
    """The fault of the rows first + picked[i], or first + i; NULL if there is none.

    Rows are checked in blocks. Most blocks are found sound without checking each row.
    """
    cdef const StringView* views = <const StringView*> array.buffers[1] + first
    cdef const uint32_t* rows
    cdef ViewRows held
    cdef const char* fault = set_view_rows(&held, array, text)
    cdef int64_t start = 0
    cdef int64_t i, row, n_block
    if fault != NULL:
        return fault
    while start < n:
        n_block = SIMD_CHECK_ROWS if n - start > SIMD_CHECK_ROWS else n - start
        rows = NULL if picked == NULL else picked + start
        if not simd_kernels().views_sound(
            views if picked != NULL else views + start, rows, n_block, held.buffers, held.sizes, held.n_buffers, text
        ):
            for i in range(start, start + n_block):
                row = i if picked == NULL else picked[i]
                if is_valid(held.validity, first + row):
                    fault = view_fault(&held, &views[row])
                    if fault != NULL:
                        return fault
        start += n_block
    return NULL


cdef const char* list_views_fault(const Rows* rows, bint large) noexcept nogil:
    cdef int64_t n_elements = rows.array.children[0].length
    cdef int64_t i, at, start, length
    if rows.n > 0 and rows.array.buffers[2] == NULL:
        return b"the sizes of its lists are missing"
    for i in range(rows.n):
        at = rows.first + i
        if large:
            start = (<const int64_t*> rows.array.buffers[1])[at]
            length = (<const int64_t*> rows.array.buffers[2])[at]
        else:
            start = (<const int32_t*> rows.array.buffers[1])[at]
            length = (<const int32_t*> rows.array.buffers[2])[at]
        if start < 0 or length < 0 or start > n_elements - length:
            return b"one of its lists points outside its elements"
    return NULL


cdef const char* list_fault(const Rows* rows, const char* format) noexcept nogil:
    """The fault of the offsets of a list or map, or of the size of a fixed list. The caller checks the elements."""
    cdef int64_t n_elements = rows.array.children[0].length
    cdef const char* fault = NULL
    cdef int64_t width
    if rows.text_only or rows.n == 0:
        return NULL
    if format[1] == c"w":
        width = atoi(format + 3)
        if width < 0 or (width > 0 and n_elements // width < rows.first + rows.n):
            return b"its lists have more elements than there are"
    elif format[1] == c"v":
        fault = list_views_fault(rows, format[2] == c"L")
    elif format[1] == c"L":
        fault = large_offsets_fault(
            <const int64_t*> rows.array.buffers[1] + rows.first, rows.n, n_elements, LENGTH_MAX
        )
    else:
        fault = offsets_fault(
            <const int32_t*> rows.array.buffers[1] + rows.first, rows.n,
            n_elements if n_elements < STRING_BYTES_MAX else STRING_BYTES_MAX,
        )
    return fault


# --- unions, runs, dictionaries ---

cdef const char* union_fault(const Rows* rows, const char* format) noexcept nogil:
    cdef int64_t[TYPE_CODES] lengths
    cdef const int8_t* codes
    cdef const int32_t* offsets
    cdef const char* at = strchr(format, c":")
    cdef bint dense = format[2] == c"d"
    cdef int64_t i, n_types = 0
    cdef int code
    # Unions of older versions of Arrow have a validity bitmap, which is empty.
    cdef int64_t begin = rows.array.n_buffers - (2 if dense else 1)
    if begin < 0 or begin > 1 or at == NULL:
        return b"its number of buffers differs from that of its type"
    for i in range(TYPE_CODES):
        lengths[i] = -1
    while at != NULL and at[1] != 0 and n_types < rows.array.n_children:
        code = atoi(at + 1)
        if code < 0 or code >= TYPE_CODES:
            return b"its type has a code outside 0 to 127"
        lengths[code] = rows.array.children[n_types].length
        n_types += 1
        at = strchr(at + 1, c",")
    if rows.n > 0 and (rows.array.buffers[begin] == NULL or (dense and rows.array.buffers[begin + 1] == NULL)):
        return b"its buffer of values is missing"
    codes = <const int8_t*> rows.array.buffers[begin] + rows.first
    offsets = <const int32_t*> rows.array.buffers[begin + 1] + rows.first if dense else NULL
    for i in range(rows.n):
        if codes[i] < 0 or lengths[codes[i]] < 0:
            return b"a row has an unknown type code"
        if dense:
            if offsets[i] < 0 or offsets[i] >= lengths[codes[i]]:
                return b"its offsets point outside their array"
        elif lengths[codes[i]] < rows.first + rows.n:
            return b"one of its children is shorter than the array"
    return NULL


cdef const char* ascending_fault(const RunEnd* ends, int64_t n, int64_t last) noexcept nogil:
    cdef int64_t i, before = 0
    for i in range(n):
        if ends[i] <= before:
            return b"its run ends do not ascend from 1"
        before = ends[i]
    if before < last:
        return b"its runs end before its rows"
    return NULL


cdef const char* runs_fault(const Rows* rows) noexcept nogil:
    cdef const ArrowArray* ends = rows.array.children[0]
    cdef const char* format = rows.layout.children[0].format
    if ends.length > rows.array.children[1].length:
        return b"it has more runs than values"
    if rows.n == 0:
        return NULL
    if ends.n_buffers != 2 or ends.buffers == NULL or ends.buffers[1] == NULL or ends.null_count > 0:
        return b"it has no run ends"
    if strcmp(format, b"s") == 0:
        return ascending_fault(<const int16_t*> ends.buffers[1] + ends.offset, ends.length, rows.first + rows.n)
    if strcmp(format, b"i") == 0:
        return ascending_fault(<const int32_t*> ends.buffers[1] + ends.offset, ends.length, rows.first + rows.n)
    if strcmp(format, b"l") == 0:
        return ascending_fault(<const int64_t*> ends.buffers[1] + ends.offset, ends.length, rows.first + rows.n)
    return b"its run ends are not integers of 16, 32 or 64 bits"


cdef IndexState take_indices(
    const Integer* indices, int64_t n, const uint8_t* validity, int64_t validity_first, uint64_t n_values,
    uint32_t* out,              # may be NULL
) noexcept nogil:
    cdef uint64_t largest = 0
    cdef int64_t i
    # A negative index is larger than any other once it is unsigned.
    for i in range(n):
        largest = <uint64_t> indices[i] if <uint64_t> indices[i] > largest else largest
    if largest >= n_values:
        for i in range(n):
            if <uint64_t> indices[i] >= n_values and is_valid(validity, validity_first + i):
                return INDICES_OUTSIDE
    if out == NULL:
        return INDICES_GOOD
    if validity == NULL:
        for i in range(n):
            out[i] = <uint32_t> indices[i]
    else:
        for i in range(n):
            out[i] = <uint32_t> indices[i] if is_valid(validity, validity_first + i) else 0
    return INDICES_GOOD


cdef IndexState read_indices(
    const char* format, const void* values, int64_t first, int64_t n, const uint8_t* validity, int64_t validity_first,
    uint64_t n_values, uint32_t* out,
) noexcept nogil:
    cdef char kind = format[0] if format[1] == 0 else 0
    if kind == c"c":
        return take_indices(<const int8_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"C":
        return take_indices(<const uint8_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"s":
        return take_indices(<const int16_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"S":
        return take_indices(<const uint16_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"i":
        return take_indices(<const int32_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"I":
        return take_indices(<const uint32_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"l":
        return take_indices(<const int64_t*> values + first, n, validity, validity_first, n_values, out)
    if kind == c"L":
        return take_indices(<const uint64_t*> values + first, n, validity, validity_first, n_values, out)
    return INDICES_NOT_INTEGER


cdef const char* indices_fault(const Rows* rows) noexcept nogil:
    cdef IndexState state = read_indices(
        rows.layout.format, rows.array.buffers[1], rows.first, rows.n, validity_of(rows), rows.first,
        rows.array.dictionary.length, NULL,
    )
    if state == INDICES_NOT_INTEGER:
        return b"its index type is not an integer"
    if state == INDICES_OUTSIDE:
        return b"it has an index outside its dictionary"
    return NULL


# --- any array ---

cdef int64_t buffers_expected(const Rows* rows) noexcept nogil:
    """The number of buffers of the type; -1 if it varies and another function checks it."""
    cdef const char* format = rows.layout.format
    if rows.layout.dictionary != NULL:
        return 2
    if format[0] == c"n" or format[0] == c"v" or strncmp(format, b"+u", 2) == 0 or strncmp(format, b"+r", 2) == 0:
        return -1
    if strchr(b"uUzZ", format[0]) != NULL:
        return 3
    if format[0] == c"+":
        if format[1] == c"v":
            return 3
        return 1 if format[1] == c"s" or format[1] == c"w" else 2
    return 2


cdef const char* counts_fault(const Rows* rows) noexcept nogil:
    """The fault of counts that contradict each other, or of missing buffers; NULL if there is none."""
    cdef const ArrowArray* array = rows.array
    cdef const char* format = rows.layout.format
    cdef int64_t expected = buffers_expected(rows)
    cdef int64_t i
    if array.length < 0 or array.offset < 0 or array.length > LENGTH_MAX or array.offset > LENGTH_MAX:
        return b"its length or offset is negative or too large"
    if rows.n < 0 or rows.first > array.offset + array.length - rows.n:
        return b"it is shorter than its parent array"
    if array.null_count < -1 or array.null_count > array.length:
        return b"its null count is impossible for its length"
    if (expected >= 0 and array.n_buffers != expected) or array.n_buffers < 0:
        return b"its number of buffers differs from that of its type"
    # Views number the buffers that they point into with 32 bits.
    if format[0] == c"v" and expected < 0 and not VIEW_BUFFERS < array.n_buffers <= STRING_BYTES_MAX:
        return b"its number of buffers differs from that of its type"
    if array.n_buffers > 0 and array.buffers == NULL:
        return b"it has no buffers"
    if (array.dictionary == NULL) != (rows.layout.dictionary == NULL):
        return b"only one of the array and its type has a dictionary"
    if array.n_children != rows.layout.n_children or (array.n_children > 0 and array.children == NULL):
        return b"its number of children differs from that of its type"
    for i in range(array.n_children):
        if array.children[i] == NULL:
            return b"its number of children differs from that of its type"
    if expected > 0:
        if array.null_count > 0 and array.buffers[0] == NULL:
            return b"it has nulls but no validity bitmap"
    elif format[0] == c"v" and array.null_count > 0 and array.buffers[0] == NULL:
        return b"it has nulls but no validity bitmap"
    if (expected >= 2 or format[0] == c"v") and array.offset + array.length > BUFFERED_ROWS_MAX:
        return b"its length or offset is negative or too large"
    if rows.n > 0 and (expected >= 2 or format[0] == c"v") and array.buffers[1] == NULL:
        return b"its buffer of values is missing"
    return NULL


cdef const char* part_fault(const Rows* rows, const ArrowArray* part, const ArrowSchema* layout) noexcept nogil:
    """The fault of a child or a dictionary, all rows of which are checked; NULL if there is none."""
    cdef Rows inner
    inner.array = part
    inner.layout = layout
    inner.first = part.offset
    inner.n = part.length
    inner.level = rows.level + 1
    inner.text_only = rows.text_only
    inner.data_bytes = DATA_UNKNOWN
    return rows_fault(&inner)


cdef const char* children_fault(const Rows* rows) noexcept nogil:
    cdef const char* format = rows.layout.format
    cdef const char* fault = NULL
    cdef Rows inner
    cdef int64_t i
    for i in range(rows.array.n_children):
        if format[1] == c"s" or (format[1] == c"u" and format[2] == c"s"):
            inner.array = rows.array.children[i]
            inner.layout = rows.layout.children[i]
            # The array's offset is added to that of each child.
            inner.first = inner.array.offset + rows.first
            inner.n = rows.n
            inner.level = rows.level + 1
            inner.text_only = rows.text_only
            inner.data_bytes = DATA_UNKNOWN
            fault = rows_fault(&inner)
        else:
            fault = part_fault(rows, rows.array.children[i], rows.layout.children[i])
        if fault != NULL:
            return fault
    if rows.text_only or format[1] == c"s":
        return NULL
    if format[1] == c"u":
        return union_fault(rows, format)
    if format[1] == c"r":
        if rows.array.n_children != 2:
            return b"its number of children differs from that of its type"
        return runs_fault(rows)
    if rows.array.n_children != 1:
        return b"its number of children differs from that of its type"
    return list_fault(rows, format)


cdef const char* text_fault(const Rows* rows) noexcept nogil:
    """The fault of strings in any layout; NULL for other types."""
    cdef const char* format = rows.layout.format
    if format[0] == c"v":
        return views_fault(rows.array, format[1] == c"u", rows.first, NULL, rows.n)
    if format[0] == c"u" or format[0] == c"z":
        return strings_fault(rows, False, format[0] == c"u")
    if format[0] == c"U" or format[0] == c"Z":
        return strings_fault(rows, True, format[0] == c"U")
    return NULL


cdef const char* rows_fault(const Rows* rows) noexcept nogil:
    cdef const char* format = rows.layout.format
    cdef const char* fault = NULL
    if not rows.text_only:
        if rows.level > LEVELS_MAX:
            return b"it is nested too deeply"
        fault = counts_fault(rows)
        if fault != NULL:
            return fault
    if rows.layout.dictionary != NULL:
        fault = part_fault(rows, rows.array.dictionary, rows.layout.dictionary)
        if fault == NULL and rows.n > 0 and not rows.text_only:
            fault = indices_fault(rows)
        return fault
    if format[0] == c"+":
        return children_fault(rows)
    return text_fault(rows) if rows.n > 0 else NULL


cdef const char* batch_fault(
    const ArrowArray* batch, const ArrowSchema* layout, bint text_only, const char** name,
) noexcept nogil:
    cdef Rows rows
    cdef const char* fault
    cdef int64_t i
    name[0] = NULL
    rows.array = batch
    rows.layout = layout
    rows.first = batch.offset
    rows.n = batch.length
    rows.level = 0
    rows.text_only = text_only
    rows.data_bytes = DATA_UNKNOWN
    if not text_only:
        fault = counts_fault(&rows)
        if fault != NULL:
            return fault
        if batch.null_count > 0:
            return b"a row of a table cannot be null"
    rows.level = 1
    for i in range(batch.n_children):
        rows.array = batch.children[i]
        rows.layout = layout.children[i]
        rows.first = rows.array.offset + batch.offset
        fault = rows_fault(&rows)
        if fault != NULL:
            name[0] = rows.layout.name
            if name[0] == NULL:
                name[0] = NO_NAME
            return fault
    return NULL


cdef const char* array_fault(const ArrowArray* array, const ArrowSchema* layout) noexcept nogil:
    cdef Rows rows
    rows.array = array
    rows.layout = layout
    rows.first = array.offset
    rows.n = array.length
    rows.level = 0
    return counts_fault(&rows)


cdef const char* run_fault(
    const ArrowArray* array, const ArrowSchema* layout, int64_t data_bytes, int64_t first, int64_t n,
) noexcept nogil:
    cdef Rows rows
    rows.array = array
    rows.layout = layout
    rows.first = first
    rows.n = n
    rows.text_only = False
    rows.data_bytes = data_bytes
    return text_fault(&rows)


cdef bint are_strings_sound(
    const ArrowArray* array, const char* format, int64_t data_bytes, int64_t first, const uint32_t* picked, int64_t n,
) noexcept nogil:
    """Whether all strings are certainly sound. If not, they may be null or not ASCII, and must be checked."""
    cdef const uint8_t* data = <const uint8_t*> array.buffers[2]
    if data == NULL and data_bytes > 0:
        return False
    if format[0] == c"U" or format[0] == c"Z":
        return simd_kernels().large_strings_sound(
            <const int64_t*> array.buffers[1] + first, picked, n, data, data_bytes, format[0] == c"U"
        )
    return simd_kernels().strings_sound(
        <const int32_t*> array.buffers[1] + first, picked, n, data, data_bytes, format[0] == c"u"
    )


cdef const char* fault_at_rows(
    const ArrowArray* array, const ArrowSchema* layout, int64_t data_bytes, int64_t first, const uint32_t* picked,
    int64_t n,
) noexcept nogil:
    cdef const char* fault
    cdef int64_t start = 0
    cdef int64_t i, n_block
    if layout.format[0] == c"v":
        return views_fault(array, layout.format[1] == c"u", first, picked, n)
    while start < n:
        n_block = SIMD_CHECK_ROWS if n - start > SIMD_CHECK_ROWS else n - start
        if not are_strings_sound(array, layout.format, data_bytes, first, picked + start, n_block):
            for i in range(start, start + n_block):
                fault = run_fault(array, layout, data_bytes, first + picked[i], 1)
                if fault != NULL:
                    return fault
        start += n_block
    return NULL


cdef str explain_fault(const char* fault, const char* name):
    what = "an Arrow batch" if name == NULL else f"column {name.decode('utf-8', 'replace')!r} of an Arrow batch"
    return f"{what} is malformed: {fault.decode()}; its file is damaged or its producer is broken"
