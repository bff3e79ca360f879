"""Kernels that build text: padding, repetition, reversal, joining and splitting.

Lengths count characters. A result that is a part of its argument is a view of the argument's bytes. The bytes of new
strings are in the frame's arena.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.kernel cimport (
    ERROR_ARGUMENT, STEP_STRICT, EvaluatorFrame, Register, Step, arg, frame_fail, result,
)
from qcore_ext.compute.text_view cimport (
    characters, continues, forward, look_after_bytes, view_new, view_seal, view_set,
)
from qcore_ext.data.column cimport StringView, view_data
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.dispatch cimport simd_kernels

# The most bytes of a result. A longer result is likely a mistake, and is an error.
cdef int64_t TEXT_BYTES_MAX = 64 * 1024 * 1024


cdef int reverse_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef char* target
    cdef int64_t i, at, end, length
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        text = view_data(&views[i])
        length = views[i].length
        target = view_new(frame, &results[i], length) + length
        at = 0
        while at < length:
            end = forward(text, length, at, 1)
            target -= end - at
            memcpy(target, text + at, end - at)
            at = end
        view_seal(&results[i])
    return 0


cdef int repeat_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const int64_t* counts = <const int64_t*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef char* target
    cdef int64_t i, k, count, length
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        length = views[i].length
        count = max(counts[i], 0)
        if length == 0:
            continue
        if count > TEXT_BYTES_MAX / length:
            frame_fail(frame, step, i, ERROR_ARGUMENT)
            continue
        target = view_new(frame, &results[i], length * count)
        for k in range(count):
            memcpy(target + k * length, view_data(&views[i]), length)
        view_seal(&results[i])
    return 0


cdef int pad_row(
    const Step* step, EvaluatorFrame* frame, int64_t row, const StringView* view, const char* fill, int64_t fill_length,
) except -1 nogil:
    """lpad (p0 = 0) and rpad (p0 = 1) of one row that needs more characters."""
    cdef StringView* results = (<StringView*> result(step, frame).own_values) + row
    cdef int64_t missing = (<const int64_t*> arg(step, frame, 1).values)[row] - characters(view_data(view), view.length)
    cdef int64_t whole = missing / characters(fill, fill_length)
    cdef int64_t part = forward(fill, fill_length, 0, missing % characters(fill, fill_length))
    cdef int64_t added = whole * fill_length + part
    cdef char* target
    cdef int64_t k
    if missing > TEXT_BYTES_MAX / 4:
        return frame_fail(frame, step, row, ERROR_ARGUMENT)
    target = view_new(frame, results, view.length + added)
    if step.p0 == 1:
        memcpy(target, view_data(view), view.length)
        target += view.length
    for k in range(whole):
        memcpy(target + k * fill_length, fill, fill_length)
    memcpy(target + whole * fill_length, fill, part)
    if step.p0 == 0:
        memcpy(target + added, view_data(view), view.length)
    view_seal(results)
    return 0


cdef int pad_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """lpad and rpad to a number of characters. Longer texts are cut at the end. The default of the fill is a space."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const int64_t* counts = <const int64_t*> arg(step, frame, 1).values
    cdef const StringView* fills = <const StringView*> arg(step, frame, 2).values if step.n_args == 3 else NULL
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* fill = b" "
    cdef const char* text
    cdef int64_t fill_length = 1
    cdef int64_t n_read = 0
    cdef int64_t i, kept
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        if fills != NULL:
            fill = view_data(&fills[i])
            fill_length = fills[i].length
        kept = forward(text, views[i].length, 0, max(counts[i], 0))
        if kept < views[i].length or fill_length == 0 or characters(text, kept) >= counts[i]:
            view_set(&results[i], text, kept)
        else:
            pad_row(step, frame, i, &views[i], fill, fill_length)
    return 0


cdef int join_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """concat_ws: the arguments that are not null, joined by the first one. Null if the first one is null."""
    cdef const StringView* cuts = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const StringView* view
    cdef char* target
    cdef int64_t i, k, length, n_parts
    out.validity = arg(step, frame, 0).validity
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        length = 0
        n_parts = 0
        for k in range(1, step.n_args):
            if is_valid(arg(step, frame, <int> k).validity, i):
                length += (<const StringView*> arg(step, frame, <int> k).values)[i].length
                n_parts += 1
        target = view_new(frame, &results[i], length + max(n_parts - 1, 0) * cuts[i].length)
        for k in range(1, step.n_args):
            if is_valid(arg(step, frame, <int> k).validity, i):
                view = (<const StringView*> arg(step, frame, <int> k).values) + i
                memcpy(target, view_data(view), view.length)
                target += view.length
                n_parts -= 1
                if n_parts > 0:
                    memcpy(target, view_data(&cuts[i]), cuts[i].length)
                    target += cuts[i].length
        view_seal(&results[i])
    return 0


cdef int64_t delimiters(const char* text, int64_t length, const StringView* delimiter) noexcept nogil:
    """The number of occurrences of the delimiter."""
    cdef int64_t count = 0
    cdef int64_t at = 0
    cdef int64_t found
    while True:
        found = simd_kernels().find(text + at, length - at, view_data(delimiter), delimiter.length)
        if found < 0:
            return count
        count += 1
        at += found + delimiter.length


cdef int split_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """split_part: part n between delimiters. Part 1 is the first, part -1 the last. Empty if there is no such part."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const StringView* cuts = <const StringView*> arg(step, frame, 1).values
    cdef const int64_t* numbers = <const int64_t*> arg(step, frame, 2).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef int64_t n_read = 0
    cdef int64_t i, at, found, length, left
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        length = views[i].length
        left = numbers[i]
        if left == 0:
            frame_fail(frame, step, i, ERROR_ARGUMENT)
            continue
        if cuts[i].length == 0:
            if left == 1 or left == -1:
                results[i] = views[i]
            continue
        if left < 0:
            left += delimiters(text, length, &cuts[i]) + 2
            if left <= 0:
                continue
        at = 0
        while True:
            found = simd_kernels().find(text + at, length - at, view_data(&cuts[i]), cuts[i].length)
            left -= 1
            if left == 0:
                view_set(&results[i], text + at, found if found >= 0 else length - at)
                break
            if found < 0:
                break
            at += found + cuts[i].length
    return 0


cdef int octets_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The number of bytes."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef int64_t i
    for i in range(frame.n):
        (<int64_t*> out.own_values)[i] = views[i].length if is_valid(out.validity, i) else 0
    return 0


cdef int ascii_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The code point of the first character; 0 if the text is empty."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef const unsigned char* text
    cdef int64_t i, k, code
    for i in range(frame.n):
        code = 0
        if is_valid(out.validity, i) and views[i].length > 0:
            text = <const unsigned char*> view_data(&views[i])
            code = text[0]
            if code >= 0x80:
                code &= 0x1F if code < 0xE0 else 0x0F if code < 0xF0 else 0x07
                k = 1
                while k < views[i].length and continues(<char> text[k]):
                    code = code << 6 | (text[k] & 0x3F)
                    k += 1
        (<int64_t*> out.own_values)[i] = code
    return 0


cdef int chr_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int64_t* codes = <const int64_t*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef unsigned char[4] text
    cdef int64_t i, code, length, k
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        code = codes[i]
        if code <= 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            frame_fail(frame, step, i, ERROR_ARGUMENT)
            continue
        length = 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        for k in range(length - 1, 0, -1):
            text[k] = <unsigned char> (0x80 | (code & 0x3F))
            code >>= 6
        text[0] = <unsigned char> (code if length == 1 else code | (0xF00 >> length & 0xFF))
        view_set(&results[i], <const char*> text, length)
    return 0


cdef bint text_build_bind(Step* step, str name, dict options) except -1:
    step.flags = STEP_STRICT
    if name == "reverse":
        step.kernel = reverse_kernel
    elif name == "repeat":
        step.kernel = repeat_kernel
    elif name in ("lpad", "rpad"):
        step.p0 = name == "rpad"
        step.kernel = pad_kernel
    elif name == "split_part":
        step.kernel = split_kernel
    elif name == "concat_ws":
        step.flags = 0
        step.kernel = join_kernel
    elif name == "octet_length":
        step.kernel = octets_kernel
    elif name == "ascii":
        step.kernel = ascii_kernel
    elif name == "chr":
        step.kernel = chr_kernel
    else:
        return False
    return True
