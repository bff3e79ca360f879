"""Kernels of LIKE, ILIKE, starts_with, ends_with and contains.

In a pattern % matches any characters, and _ matches one character. There is an escape character only if the query names
one. A constant pattern is split at its % signs into segments. The first segment must be at the start of the text, and
the last one at its end. Each segment between them is searched from the end of the one before it.
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
    # Bytes of compiled patterns, which UTF-8 does not have. 0xFE is %.
    ANY_CHARACTER = 0xFF


ctypedef struct Segment:
    const char* text
    int64_t length
    int64_t n_characters
    bint has_wildcard           # has an ANY_CHARACTER


ctypedef struct Pattern:
    bint any_start              # the pattern begins with %
    bint any_end
    bint folds_case             # the text is converted to lower case first
    int64_t length_min          # the smallest number of bytes of a text that can match
    int64_t n_segments
    Segment* segments


cdef inline int64_t character_end(const char* text, int64_t length, int64_t at) noexcept nogil:
    at += 1
    while at < length and (<uint8_t> text[at] & 0xC0) == 0x80:
        at += 1
    return at


cdef int64_t match_at(const Segment* segment, const char* text, int64_t length, int64_t at) noexcept nogil:
    """The byte after the segment if it matches at byte `at`, otherwise -1."""
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
    """The byte after the segment's first occurrence from byte `at` on, or -1."""
    cdef int64_t found
    if not segment.has_wildcard:
        found = simd_kernels().find(text + at, length - at, segment.text, segment.length)
        return -1 if found < 0 else at + found + segment.length
    while at < length:
        found = match_at(segment, text, length, at)
        if found >= 0:
            return found
        at = character_end(text, length, at)
    return -1


cdef int64_t tail_start(const Segment* segment, const char* text, int64_t length) noexcept nogil:
    """The byte where a segment at the end of the text begins; -1 if the text is too short."""
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


cdef const char* to_lower(EvaluatorFrame* frame, const StringView* view, int64_t* length) except NULL nogil:
    """The text in lower case, in the frame's arena."""
    cdef const char* text = view_data(view)
    cdef char* out = <char*> arena_take(frame_arena(frame), view.length + 1)
    cdef uint8_t high_bits = 0
    cdef int64_t i
    length[0] = view.length
    for i in range(view.length):
        high_bits |= <uint8_t> text[i]
        out[i] = text[i] | 32 if c"A" <= text[i] <= c"Z" else text[i]
    return to_lower_unicode(frame, view, length) if high_bits & 0x80 else out


cdef const char* to_lower_unicode(EvaluatorFrame* frame, const StringView* view, int64_t* length) except NULL with gil:
    """Like to_lower, for a text that is not ASCII."""
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
        text = to_lower(frame, &views[i], &length) if pattern.folds_case else view_data(&views[i])
        found[i] = matches(pattern, text, length)
    return 0


cdef bint matches_any(const char* text, int64_t n, const char* pattern, int64_t m) noexcept nogil:
    """LIKE with a pattern that is not compiled. After a mismatch the last % matches one more character."""
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


cdef bint has_part(int64_t test, const char* text, int64_t n, const char* part, int64_t m) noexcept nogil:
    """starts_with (test = 1), ends_with (test = 2) and contains (test = 3)."""
    if m > n:
        return False
    if test == 1:
        return memcmp(text, part, m) == 0
    if test == 2:
        return memcmp(text + n - m, part, m) == 0
    return m == 0 or simd_kernels().find(text, n, part, m) >= 0


cdef int column_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The pattern is a column: LIKE (p0 = 0; ILIKE if p1 is 1), or a test of has_part."""
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
        # LIKE may compare the whole pattern again after each mismatch.
        look_after_bytes(frame, &n_read, n * max(m, 1) if step.p0 == 0 else n + m)
        text = to_lower(frame, &views[i], &n) if step.p1 else view_data(&views[i])
        pattern = to_lower(frame, &patterns[i], &m) if step.p1 else view_data(&patterns[i])
        found[i] = has_part(step.p0, text, n, pattern, m) if step.p0 > 0 else matches_any(text, n, pattern, m)
    return 0


cdef int compile_pattern(Step* step, list segments, bint any_start, bint any_end, bint folds_case) except -1:
    """Set step.data to a Pattern with these segments, which are bytes."""
    cdef int64_t n_bytes = sum(map(len, segments))
    cdef char* block = <char*> struct_new(sizeof(Pattern) + len(segments) * sizeof(Segment) + n_bytes)
    cdef Pattern* pattern = <Pattern*> block
    cdef char* next_bytes
    cdef Segment* segment
    cdef bytes content
    step.data = block
    pattern.any_start = any_start
    pattern.any_end = any_end
    pattern.folds_case = folds_case
    pattern.n_segments = len(segments)
    pattern.segments = <Segment*> (block + sizeof(Pattern))
    pattern.length_min = n_bytes
    next_bytes = <char*> (pattern.segments + len(segments))
    for i, content in enumerate(segments):
        segment = &pattern.segments[<int64_t> i]
        memcpy(next_bytes, <const char*> content, len(content))
        segment.text = next_bytes
        segment.length = len(content)
        segment.n_characters = len(content.decode("utf-8", "replace"))
        segment.has_wildcard = b"\xff" in content
        next_bytes += len(content)
    step.kernel = pattern_kernel
    return 0


cdef bytes like_bytes(str pattern, str escape):
    """The pattern as bytes, with 0xFE for %, ANY_CHARACTER for _, and without escape characters."""
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
