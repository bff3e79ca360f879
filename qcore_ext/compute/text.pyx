"""Kernels from text to text, and from text to lengths and positions.

Lengths and positions count characters. A result that is a part of its argument is a view of the argument's bytes. The
bytes of new strings are in the frame's arena.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.kernel cimport STEP_STRICT, EvaluatorFrame, Register, Step, arg, result
from qcore_ext.compute.pattern cimport pattern_bind
from qcore_ext.compute.text_build cimport text_build_bind
from qcore_ext.compute.text_view cimport (
    backward, characters, forward, look_after_bytes, view_new, view_seal, view_set,
)
from qcore_ext.data.column cimport StringView, view_data
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.dispatch cimport simd_kernels


# More characters than a text can have, but few enough to add without overflow.
cdef int64_t FAR = <int64_t> 1 << 40


# --- parts ---

cdef int substring_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """`count` characters from character `start` on, or all if there is no count. The first character is 1. A negative
    start counts from the end. A negative count takes the characters before start.
    """
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const int64_t* starts = <const int64_t*> arg(step, frame, 1).values
    cdef const int64_t* counts = <const int64_t*> arg(step, frame, 2).values if step.n_args == 3 else NULL
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef int64_t n_read = 0
    cdef int64_t i, first, last, start, count, length
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        length = views[i].length
        start = starts[i]
        count = min(max(counts[i], -FAR), FAR) if counts != NULL else FAR
        if start > 0:
            first = forward(text, length, 0, min(start - 1, length))
        elif start < 0:
            start = max(start, -FAR)
            first = backward(text, length, -start)
            start += characters(text, length)
            count += start if start < 0 and counts != NULL else 0   # positions before the first character are counted
        else:
            first = 0
            count -= 1          # position 0, before the first character, is counted
        if count >= 0:
            last = forward(text, length, first, count)
        else:
            last = first
            count += max(start - 1 - characters(text, length), 0)   # positions after the last character are counted
            first = backward(text, first, -count)
        if last > first:
            view_set(&results[i], text + first, last - first)
    return 0


cdef int end_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """left (p0 = 0) and right (p0 = 1). A negative count leaves out -count characters at the other end."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const int64_t* counts = <const int64_t*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef int64_t n_read = 0
    cdef int64_t i, cut, length, count
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        length = views[i].length
        count = min(max(counts[i], -length), length)
        if step.p0 == 0:
            cut = forward(text, length, 0, count) if count >= 0 else backward(text, length, -count)
            view_set(&results[i], text, cut)
        else:
            cut = backward(text, length, count) if count >= 0 else forward(text, length, 0, -count)
            view_set(&results[i], text + cut, length - cut)
    return 0


cdef inline bint is_in(const char* character, int64_t length, const StringView* among) noexcept nogil:
    if among == NULL:
        return character[0] == c" "
    return simd_kernels().find(view_data(among), among.length, character, length) >= 0


cdef int trim_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Remove leading (p0 & 1) and trailing (p0 & 2) characters that the second argument has. Its default is a space."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const StringView* sets = <const StringView*> arg(step, frame, 1).values if step.n_args == 2 else NULL
    cdef const StringView* among = NULL
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef int64_t n_read = 0
    cdef int64_t i, first, last, at
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        first = 0
        last = views[i].length
        if sets != NULL:
            among = &sets[i]
        while step.p0 & 1 and first < last:
            at = forward(text, last, first, 1)
            if not is_in(text + first, at - first, among):
                break
            first = at
        while step.p0 & 2 and first < last:
            at = backward(text, last, 1)
            if not is_in(text + at, last - at, among):
                break
            last = at
        view_set(&results[i], text + first, last - first)
    return 0


# --- numbers ---

cdef int length_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef int64_t n_read = 0
    cdef int64_t i
    for i in range(frame.n):
        (<int64_t*> out.own_values)[i] = 0
        if is_valid(out.validity, i):
            look_after_bytes(frame, &n_read, views[i].length)
            (<int64_t*> out.own_values)[i] = characters(view_data(&views[i]), views[i].length)
    return 0


cdef int position_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The position of the second argument in the first, in characters from 1; 0 if it does not occur."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const StringView* needles = <const StringView*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef int64_t n_read = 0
    cdef int64_t i, at
    for i in range(frame.n):
        (<int64_t*> out.own_values)[i] = 0
        if is_valid(out.validity, i):
            look_after_bytes(frame, &n_read, views[i].length)
            at = 0
            if needles[i].length > 0:
                at = simd_kernels().find(
                    view_data(&views[i]), views[i].length, view_data(&needles[i]), needles[i].length
                )
            if at >= 0:
                (<int64_t*> out.own_values)[i] = characters(view_data(&views[i]), at) + 1
    return 0


# --- new strings ---

cdef int concat_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const StringView* view
    cdef char* target
    cdef int64_t i, k, length
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        length = 0
        for k in range(step.n_args):
            length += (<const StringView*> arg(step, frame, <int> k).values)[i].length
        target = view_new(frame, &results[i], length)
        for k in range(step.n_args):
            view = (<const StringView*> arg(step, frame, <int> k).values) + i
            memcpy(target, view_data(view), view.length)
            target += view.length
        view_seal(&results[i])
    return 0


cdef int case_unicode(EvaluatorFrame* frame, bint upper, const StringView* view, StringView* out) except -1 with gil:
    """Convert a text that is not ASCII to upper or lower case, character by character. A character whose other case has
    several characters is kept.
    """
    cdef char* target
    text = view_data(view)[:view.length].decode("utf-8", "replace")
    changed = {letter: letter.upper() if upper else letter.lower() for letter in set(text)}
    # A table of the distinct characters needs far fewer conversions than one for each character.
    content = text.translate({ord(old): new for old, new in changed.items() if len(new) == 1}).encode()
    target = view_new(frame, out, len(content))
    memcpy(target, <const char*> content, len(content))
    view_seal(out)
    return 0


cdef int case_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """upper (p0 = 1) and lower (p0 = 0)."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef char* target
    cdef char first = c"a" if step.p0 else c"A"
    cdef int64_t n_read = 0
    cdef int64_t i, k
    cdef uint8_t high_bits
    for i in range(frame.n):
        memset(&results[i], 0, sizeof(StringView))
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        high_bits = 0
        for k in range(views[i].length):
            high_bits |= <uint8_t> text[k]
        if high_bits & 0x80:
            case_unicode(frame, step.p0 == 1, &views[i], &results[i])
            continue
        target = view_new(frame, &results[i], views[i].length)
        for k in range(views[i].length):
            target[k] = text[k] ^ (32 if 0 <= text[k] - first < 26 else 0)
        view_seal(&results[i])
    return 0


cdef int replace_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const StringView* olds = <const StringView*> arg(step, frame, 1).values
    cdef const StringView* news = <const StringView*> arg(step, frame, 2).values
    cdef Register* out = result(step, frame)
    cdef StringView* results = <StringView*> out.own_values
    cdef const char* text
    cdef const char* old
    cdef char* target
    cdef int64_t n_read = 0
    cdef int64_t i, at, found, length, count, old_length, new_length
    for i in range(frame.n):
        results[i] = views[i]
        if not is_valid(out.validity, i) or olds[i].length == 0:
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        text = view_data(&views[i])
        length = views[i].length
        old = view_data(&olds[i])
        old_length = olds[i].length
        new_length = news[i].length
        count = 0
        at = 0
        while True:
            found = simd_kernels().find(text + at, length - at, old, old_length)
            if found < 0:
                break
            count += 1
            at += found + old_length
        if count == 0:
            continue
        target = view_new(frame, &results[i], length + count * (new_length - old_length))
        at = 0
        while count > 0:
            found = simd_kernels().find(text + at, length - at, old, old_length)
            memcpy(target, text + at, found)
            memcpy(target + found, view_data(&news[i]), new_length)
            target += found + new_length
            at += found + old_length
            count -= 1
        memcpy(target, text + at, length - at)
        view_seal(&results[i])
    return 0


cdef bint text_bind(Step* step, str name, dict options) except -1:
    step.flags = STEP_STRICT
    if pattern_bind(step, name, options) or text_build_bind(step, name, options):
        return True
    if name == "substring":
        step.kernel = substring_kernel
    elif name in ("left", "right"):
        step.p0 = name == "right"
        step.kernel = end_kernel
    elif name in ("trim", "ltrim", "rtrim"):
        step.p0 = {"trim": 3, "ltrim": 1, "rtrim": 2}[name]
        step.kernel = trim_kernel
    elif name == "length":
        step.kernel = length_kernel
    elif name == "position":
        step.kernel = position_kernel
    elif name == "concat":
        step.kernel = concat_kernel
    elif name in ("upper", "lower"):
        step.p0 = name == "upper"
        step.kernel = case_kernel
    elif name == "replace":
        step.kernel = replace_kernel
    else:
        return False
    return True
