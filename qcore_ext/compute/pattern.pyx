"""Kernels of LIKE, ILIKE and tests for what a text begins with, ends with or contains.

A constant pattern is cut at its % signs into segments: the first is looked for at the start, the last at the end, each
of those between from where the one before ended. % stands for any characters, _ for one; there is an escape character
only where the query names one.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from qcore_ext.compute.kernel cimport EvaluatorFrame, Register, Step, arg, frame_arena, result
from qcore_ext.compute.text_view cimport look_after_bytes
from qcore_ext.data.column cimport StringView, view_data
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport arena_take, struct_new
from qcore_ext.ground.dispatch cimport simd_kernels

from qcore_ext.ground.status import PlanError

cdef enum:
    # In compiled patterns, where % is 0xFE: bytes that UTF-8 does not have.
    ANY_CHARACTER = 0xFF


ctypedef struct Segment:
    const char* text
    int64_t length
    int64_t n_characters
    bint has_wildcard           # an ANY_CHARACTER in it


ctypedef struct Pattern:
    bint any_start              # begins with %
    bint any_end
    bint folds_case             # the text is to be lowered first
    int64_t length_min          # bytes a text must have at least
    int64_t n_segments
    Segment* segments


cdef inline int64_t character_end(const char* text, int64_t length, int64_t at) noexcept nogil:
    at += 1
    while at < length and (<uint8_t> text[at] & 0xC0) == 0x80:
        at += 1
    return at


cdef int64_t match_at(const Segment* segment, const char* text, int64_t length, int64_t at) noexcept nogil:
    """The byte behind the segment when it stands at byte `at`, else -1."""
    cdef int64_t i
    if not segment.has_wildcard:
        if segment.length > length - at or memcmp(text + at, segment.text, segment.length) != 0:
            return -1
        return at + segment.length
    for i in range(segment.length):
        if at >= length:
            return -1
        if <uint8_t> segment.text[i] == ANY_CHARACTER:
            at = character_end(text, length, at)
        elif segment.text[i] == text[at]:
            at += 1
        else:
            return -1
    return at


cdef int64_t find(const Segment* segment, const char* text, int64_t length, int64_t at) noexcept nogil:
    """The byte behind the segment's first occurrence from byte `at` on, or -1."""
    cdef int64_t place
    if not segment.has_wildcard:
        place = simd_kernels().find(text + at, length - at, segment.text, segment.length)
        return -1 if place < 0 else at + place + segment.length
    while at < length:
        place = match_at(segment, text, length, at)
        if place >= 0:
            return place
        at = character_end(text, length, at)
    return -1


cdef int64_t tail_start(const Segment* segment, const char* text, int64_t length) noexcept nogil:
    """Where a segment that ends the text would begin; -1 when the text is too short."""
    cdef int64_t n = segment.n_characters
    if not segment.has_wildcard:
        return length - segment.length
    while n > 0:
        if length == 0:
            return -1
        length -= 1
        while length > 0 and (<uint8_t> text[length] & 0xC0) == 0x80:
            length -= 1
        n -= 1
    return length


cdef bint matches(const Pattern* pattern, const char* text, int64_t length) noexcept nogil:
    cdef const Segment* segments = pattern.segments
    cdef int64_t first = 0
    cdef int64_t last = pattern.n_segments
    cdef int64_t at = 0
    cdef int64_t end = length
    cdef int64_t i, start
    if length < pattern.length_min:
        return False
    if last == 0:
        return pattern.any_start or length == 0
    if not pattern.any_start:
        at = match_at(&segments[0], text, length, 0)
        first = 1
        if at < 0 or (last == 1 and not pattern.any_end):
            return at == length
    if not pattern.any_end:
        last -= 1
        start = tail_start(&segments[last], text, length)
        if start < at or match_at(&segments[last], text, length, start) != length:
            return False
        end = start
    for i in range(first, last):
        at = find(&segments[i], text, end, at)
        if at < 0:
            return False
    return True


cdef const char* lowered(EvaluatorFrame* frame, const StringView* view, int64_t* length) except NULL nogil:
    """The text in lower case, in the frame's arena."""
    cdef const char* text = view_data(view)
    cdef char* out = <char*> arena_take(frame_arena(frame), view.length + 1)
    cdef uint8_t foreign = 0
    cdef int64_t i
    length[0] = view.length
    for i in range(view.length):
        foreign |= <uint8_t> text[i]
        out[i] = text[i] | 32 if c"A" <= text[i] <= c"Z" else text[i]
    return lowered_foreign(frame, view, length) if foreign & 0x80 else out


cdef const char* lowered_foreign(EvaluatorFrame* frame, const StringView* view, int64_t* length) except NULL with gil:
    """Of a text that is not ASCII."""
    cdef char* out
    content = view_data(view)[:view.length].decode("utf-8", "replace").lower().encode()
    length[0] = len(content)
    out = <char*> arena_take(frame_arena(frame), length[0] + 1)
    memcpy(out, <const char*> content, length[0])
    return out


cdef int pattern_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const Pattern* pattern = <const Pattern*> step.data
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef Register* out = result(step, frame)
    cdef uint8_t* found = <uint8_t*> out.own_values
    cdef const char* text
    cdef int64_t n_read = 0
    cdef int64_t i, length
    for i in range(frame.n):
        found[i] = 0
        if not is_valid(out.validity, i):
            continue
        look_after_bytes(frame, &n_read, views[i].length)
        length = views[i].length
        text = lowered(frame, &views[i], &length) if pattern.folds_case else view_data(&views[i])
        found[i] = matches(pattern, text, length)
    return 0


cdef bint matches_any(const char* text, int64_t n, const char* pattern, int64_t m) noexcept nogil:
    """LIKE with a pattern seen for the first time: on a mismatch, the last % takes one character more."""
    cdef int64_t i = 0
    cdef int64_t j = 0
    cdef int64_t retry_pattern = -1
    cdef int64_t retry_text = 0
    while i < n:
        if j < m and pattern[j] == c"%":
            j += 1
            retry_pattern = j
            retry_text = i
        elif j < m and pattern[j] == c"_":
            i = character_end(text, n, i)
            j += 1
        elif j < m and pattern[j] == text[i]:
            i += 1
            j += 1
        elif retry_pattern >= 0:
            retry_text = character_end(text, n, retry_text)
            i = retry_text
            j = retry_pattern
        else:
            return False
    while j < m and pattern[j] == c"%":
        j += 1
    return j == m


cdef bint stands(int64_t test, const char* text, int64_t n, const char* part, int64_t m) noexcept nogil:
    """starts_with (1), ends_with (2), contains (3)."""
    if m > n:
        return False
    if test == 1:
        return memcmp(text, part, m) == 0
    if test == 2:
        return memcmp(text + n - m, part, m) == 0
    return m == 0 or simd_kernels().find(text, n, part, m) >= 0


cdef int column_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The pattern differs from row to row: like (p0 = 0, ilike with p1) or one of `stands`."""
    cdef const StringView* views = <const StringView*> arg(step, frame, 0).values
    cdef const StringView* patterns = <const StringView*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef uint8_t* found = <uint8_t*> out.own_values
    cdef const char* text
    cdef const char* pattern
    cdef int64_t n_read = 0
    cdef int64_t i, n, m
    for i in range(frame.n):
        found[i] = 0
        if not is_valid(out.validity, i):
            continue
        n = views[i].length
        m = patterns[i].length
        # After every mismatch LIKE may compare the whole pattern again.
        look_after_bytes(frame, &n_read, n * max(m, 1) if step.p0 == 0 else n + m)
        text = lowered(frame, &views[i], &n) if step.p1 else view_data(&views[i])
        pattern = lowered(frame, &patterns[i], &m) if step.p1 else view_data(&patterns[i])
        found[i] = stands(step.p0, text, n, pattern, m) if step.p0 > 0 else matches_any(text, n, pattern, m)
    return 0


cdef int compile_pattern(Step* step, list segments, bint any_start, bint any_end, bint folds_case) except -1:
    """Into step.data; `segments` are bytes."""
    cdef int64_t n_bytes = sum(map(len, segments))
    cdef char* block = <char*> struct_new(sizeof(Pattern) + len(segments) * sizeof(Segment) + n_bytes)
    cdef Pattern* pattern = <Pattern*> block
    cdef char* place
    cdef Segment* segment
    cdef bytes content
    step.data = block
    pattern.any_start = any_start
    pattern.any_end = any_end
    pattern.folds_case = folds_case
    pattern.n_segments = len(segments)
    pattern.segments = <Segment*> (block + sizeof(Pattern))
    pattern.length_min = n_bytes
    place = <char*> (pattern.segments + len(segments))
    for i, content in enumerate(segments):
        segment = &pattern.segments[<int64_t> i]
        memcpy(place, <const char*> content, len(content))
        segment.text = place
        segment.length = len(content)
        segment.n_characters = len(content.decode("utf-8", "replace"))
        segment.has_wildcard = b"\xff" in content
        place += len(content)
    step.kernel = pattern_kernel
    return 0


cdef bytes like_bytes(str pattern, str escape):
    """The pattern with 0xFE for % and ANY_CHARACTER for _, and escaped characters as themselves."""
    parts = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape:
            at += 1
            if at == len(pattern):
                raise PlanError(f"the pattern {pattern!r} ends with its escape character {escape!r}")
            parts.append(pattern[at].encode())
        else:
            parts.append(b"\xfe" if letter == "%" else b"\xff" if letter == "_" else letter.encode())
        at += 1
    return b"".join(parts)


cdef bint pattern_bind(Step* step, str name, dict options) except -1:
    tests = {"like": 0, "ilike": 0, "starts_with": 1, "ends_with": 2, "contains": 3}
    if name not in tests:
        return False
    step.p0 = tests[name]
    step.p1 = name == "ilike"
    if "pattern" not in options:
        step.kernel = column_kernel
        return True
    text = options["pattern"].lower() if name == "ilike" else options["pattern"]
    content = text.encode()
    if step.p0 == 0:
        content = like_bytes(text, options.get("escape", ""))
        segments = content.split(b"\xfe")
        compile_pattern(
            step, [part for part in segments if part], content.startswith(b"\xfe"), content.endswith(b"\xfe"),
            name == "ilike",
        )
    else:
        any_start = step.p0 != 1 or not content
        any_end = step.p0 != 2 or not content
        compile_pattern(step, [content] if content else [], any_start, any_end, False)
    return True
