"""Functions that kernels of text share: reading strings by characters, and making views of new strings."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.kernel cimport EvaluatorFrame, frame_arena
from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView
from qcore_ext.ground.memory cimport account_check, arena_take

cdef enum:
    # Bytes of text between two checks for a stopped query: a few milliseconds.
    LOOK_BYTES = 4194304


cdef inline int look_after_bytes(EvaluatorFrame* frame, int64_t* n_read, int64_t n_bytes) except -1 nogil:
    """Count bytes that were read. After LOOK_BYTES check the account, which raises Cancelled for a stopped query."""
    n_read[0] += n_bytes
    if n_read[0] >= LOOK_BYTES:
        n_read[0] = 0
        account_check(frame.account)
    return 0


cdef inline void view_set(StringView* view, const char* text, int64_t length) noexcept nogil:
    """Make a view of `text`. The caller keeps the bytes of a text that is too long to be inline."""
    memset(view, 0, sizeof(StringView))
    view.length = <uint32_t> length
    if length <= VIEW_INLINE_BYTES:
        memcpy(view.prefix, text, length)
    else:
        memcpy(view.prefix, text, 4)
        view.pointer = <char*> text


cdef inline bint continues(char byte) noexcept nogil:
    """Whether the byte is inside a UTF-8 character."""
    return (<uint8_t> byte & 0xC0) == 0x80


cdef inline int64_t characters(const char* text, int64_t length) noexcept nogil:
    cdef int64_t i
    cdef int64_t count = 0
    for i in range(length):
        count += not continues(text[i])
    return count


cdef inline int64_t forward(const char* text, int64_t length, int64_t at, int64_t count) noexcept nogil:
    """The byte `count` characters after byte `at`, at most `length`."""
    while count > 0 and at < length:
        at += 1
        while at < length and continues(text[at]):
            at += 1
        count -= 1
    return at


cdef inline int64_t backward(const char* text, int64_t at, int64_t count) noexcept nogil:
    """The byte `count` characters before byte `at`, at least 0."""
    while count > 0 and at > 0:
        at -= 1
        while at > 0 and continues(text[at]):
            at -= 1
        count -= 1
    return at


cdef inline char* view_new(EvaluatorFrame* frame, StringView* view, int64_t length) except NULL nogil:
    """Make a view of a new string, and return its bytes to be written. Then view_seal must be called."""
    memset(view, 0, sizeof(StringView))
    view.length = <uint32_t> length
    if length <= VIEW_INLINE_BYTES:
        return view.prefix
    view.pointer = <char*> arena_take(frame_arena(frame), length)
    return view.pointer


cdef inline void view_seal(StringView* view) noexcept nogil:
    """Set the prefix of a new string's view from its bytes."""
    if view.length > VIEW_INLINE_BYTES:
        memcpy(view.prefix, view.pointer, 4)
