"""Kernels of comparisons and of IN lists."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from qcore_ext.compute.kernel cimport (
    STEP_STRICT, EvaluatorFrame, Register, Step, arg, frame_valid_mask, integer_at, result, widen_register,
)
from qcore_ext.compute.text_view cimport look_after_bytes
from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView, view_data
from qcore_ext.data.schema cimport (
    PHYS_I32, PHYS_I64, PHYS_I128, PHYS_INTERVAL, PHYS_NESTED, PHYS_NONE, PHYS_VIEW,
)
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport struct_new
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.simd cimport (
    SIMD_EQUAL, SIMD_GREATER, SIMD_GREATER_EQUAL, SIMD_LESS, SIMD_LESS_EQUAL, SIMD_NOT_EQUAL,
)
from qcore_ext.ground.wide cimport int128, wide_compare

from qcore_ext.ground.status import PlanError


cdef int view_order(const StringView* a, const StringView* b) noexcept nogil:
    cdef uint32_t shorter = a.length if a.length < b.length else b.length
    cdef int order = memcmp(a.prefix, b.prefix, 4 if shorter >= 4 else shorter)
    if order == 0 and shorter > 4:
        order = memcmp(view_data(a) + 4, view_data(b) + 4, shorter - 4)
    if order != 0:
        return -1 if order < 0 else 1
    return -1 if a.length < b.length else 1 if a.length > b.length else 0


cdef bint view_equal(const StringView* a, const StringView* b) noexcept nogil:
    if (<const uint64_t*> a)[0] != (<const uint64_t*> b)[0]:       # length and prefix
        return False
    if a.length <= VIEW_INLINE_BYTES:
        return (<const uint64_t*> a)[1] == (<const uint64_t*> b)[1]
    return a.pointer == b.pointer or memcmp(a.pointer + 4, b.pointer + 4, a.length - 4) == 0


cdef int views_equal_one(
    const StringView* a, const StringView* b, bint wanted, uint8_t* out, EvaluatorFrame* frame,
) except -1 nogil:
    """Compare each a[i] with b[0] for equality, or for inequality."""
    cdef int64_t n = frame.n
    cdef int64_t n_read = 0
    cdef int64_t i
    cdef const uint64_t* words
    cdef uint64_t first = (<const uint64_t*> b)[0]
    cdef uint64_t second = (<const uint64_t*> b)[1]
    if b.length <= VIEW_INLINE_BYTES:
        for i in range(n):
            words = <const uint64_t*> &a[i]
            out[i] = <uint8_t> (((words[0] == first) & (words[1] == second)) == wanted)
        return 0
    for i in range(n):
        words = <const uint64_t*> &a[i]
        if words[0] == first:
            look_after_bytes(frame, &n_read, b.length)
            out[i] = <uint8_t> ((memcmp(a[i].pointer + 4, b.pointer + 4, b.length - 4) == 0) == wanted)
        else:
            out[i] = not wanted
    return 0


cdef inline bint holds(int64_t op, int order) noexcept nogil:
    if op == SIMD_LESS:
        return order < 0
    if op == SIMD_LESS_EQUAL:
        return order <= 0
    if op == SIMD_GREATER:
        return order > 0
    if op == SIMD_GREATER_EQUAL:
        return order >= 0
    return (order == 0) == (op == SIMD_EQUAL)


cdef int compare_views(
    int64_t op, const Register* a, const Register* b, const uint8_t* validity, uint8_t* out, EvaluatorFrame* frame,
) except -1 nogil:
    cdef const StringView* views_a = <const StringView*> a.values
    cdef const StringView* views_b = <const StringView*> b.values
    cdef int64_t n = frame.n
    cdef int64_t n_read = 0
    cdef int64_t i
    if (op == SIMD_EQUAL or op == SIMD_NOT_EQUAL) and b.is_constant and validity == NULL:
        views_equal_one(views_a, views_b, op == SIMD_EQUAL, out, frame)
    elif op == SIMD_EQUAL or op == SIMD_NOT_EQUAL:
        for i in range(n):
            look_after_bytes(frame, &n_read, views_a[i].length)
            out[i] = is_valid(validity, i) and view_equal(&views_a[i], &views_b[i]) == (op == SIMD_EQUAL)
    else:
        for i in range(n):
            look_after_bytes(frame, &n_read, views_a[i].length)
            out[i] = is_valid(validity, i) and holds(op, view_order(&views_a[i], &views_b[i]))
    return 0


cdef int64_t mirror_operator(int64_t op) noexcept nogil:
    """The operator with the same meaning for swapped operands."""
    if op == SIMD_LESS:
        return SIMD_GREATER
    if op == SIMD_LESS_EQUAL:
        return SIMD_GREATER_EQUAL
    if op == SIMD_GREATER:
        return SIMD_LESS
    return SIMD_LESS_EQUAL if op == SIMD_GREATER_EQUAL else op


cdef int compare(
    int64_t op, const Step* step, EvaluatorFrame* frame, const uint8_t* validity, uint8_t* out,
) except -1 nogil:
    """Write `a op b` as bytes 0 or 1. The result of rows that are null by `validity` is not defined."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    if a.is_constant and not b.is_constant:
        a, b = b, a
        op = mirror_operator(op)
    if a.phys == PHYS_VIEW:
        compare_views(op, a, b, validity, out, frame)
    elif a.phys == PHYS_I128 or b.phys == PHYS_I128:
        wide_compare(
            <int> op, widen_register(a, frame.n, frame.wide_a), 1, widen_register(b, frame.n, frame.wide_b), 1, out,
            frame.n,
        )
    else:
        simd_kernels().compare[op][a.phys][1 if b.is_constant else 0](a.values, b.values, out, frame.n)
    return 0


cdef int compare_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* out = result(step, frame)
    return compare(step.p0, step, frame, out.validity, <uint8_t*> out.own_values)


cdef int distinct_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Null-safe inequality (p1 = 1) or equality (p1 = 0). The result is never null."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    cdef uint8_t* out = <uint8_t*> result(step, frame).own_values
    cdef const uint8_t* valid_a
    cdef const uint8_t* valid_b
    cdef int64_t n_read = 0
    cdef int64_t i
    cdef uint8_t same, wanted = <uint8_t> step.p1
    if a.validity == NULL and b.validity == NULL:
        return compare(SIMD_NOT_EQUAL if wanted else SIMD_EQUAL, step, frame, NULL, out)
    valid_a = frame_valid_mask(frame, a, frame.masks[0])
    valid_b = frame_valid_mask(frame, b, frame.masks[1])
    if a.phys == PHYS_NONE:
        memset(out, 0, frame.n)
    elif a.phys == PHYS_VIEW:
        for i in range(frame.n):
            look_after_bytes(frame, &n_read, (<const StringView*> a.values)[i].length)
            out[i] = valid_a[i] & valid_b[i] and view_equal(
                (<const StringView*> a.values) + i, (<const StringView*> b.values) + i
            )
    else:
        compare(SIMD_EQUAL, step, frame, NULL, out)
    for i in range(frame.n):
        same = (valid_a[i] & valid_b[i] & out[i]) | ((valid_a[i] | valid_b[i]) ^ 1)
        out[i] = same ^ wanted
    return 0


# --- IN over a list of constants, which have the argument's type ---

ctypedef struct IntegerSet:
    # Open addressing, at most half full. used[s] is 1 if slot s has a value.
    int64_t n_values
    uint64_t mask
    int64_t* slots
    uint8_t* used

ctypedef struct ViewSet:
    int64_t n_values
    bint all_inline             # all values are inline. Up to COMPARE_EACH_MAX values are also stored after the slots
    uint64_t mask
    StringView* slots
    uint8_t* used
    char* bytes                 # the bytes of long strings

cdef enum:
    COMPARE_EACH_MAX = 8        # up to here a SIMD comparison with each value is faster than the table


cdef inline uint64_t mix_word(uint64_t value) noexcept nogil:
    value = (value ^ (value >> 32)) * <uint64_t> 0x9E3779B97F4A7C15ULL
    return value ^ (value >> 29)


cdef inline uint64_t view_hash(const StringView* view) noexcept nogil:
    """A hash of the length, the first four and the last eight bytes. This is enough for lists written by hand."""
    cdef uint64_t tail
    if view.length <= VIEW_INLINE_BYTES:
        tail = (<const uint64_t*> view)[1]
    else:
        memcpy(&tail, view.pointer + view.length - 8, 8)
    return mix_word((<const uint64_t*> view)[0] ^ mix_word(tail))


cdef inline bint integer_in(const IntegerSet* known, int64_t value) noexcept nogil:
    cdef uint64_t at = mix_word(<uint64_t> value) & known.mask
    while known.used[at]:
        if known.slots[at] == value:
            return True
        at = (at + 1) & known.mask
    return False


cdef inline bint view_in(const ViewSet* known, const StringView* value) noexcept nogil:
    cdef uint64_t at = view_hash(value) & known.mask
    while known.used[at]:
        if view_equal(&known.slots[at], value):
            return True
        at = (at + 1) & known.mask
    return False


cdef int in_integers(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const IntegerSet* known = <const IntegerSet*> step.data
    cdef Register* a = arg(step, frame, 0)
    cdef uint8_t* out = <uint8_t*> result(step, frame).own_values
    cdef int64_t i
    cdef int128 value
    if a.phys == PHYS_I64:
        if known.n_values <= COMPARE_EACH_MAX:
            memset(out, 0, frame.n)
            for i in range(known.n_values):
                # The values of a small set are also stored after its slots, one after the other.
                simd_kernels().compare[SIMD_EQUAL][<int> PHYS_I64][1](
                    a.values, &known.slots[known.mask + 1 + i], frame.masks[0], frame.n
                )
                simd_kernels().mask_or(out, frame.masks[0], out, frame.n)
        else:
            for i in range(frame.n):
                out[i] = integer_in(known, (<const int64_t*> a.values)[i])
        return 0
    if a.phys == PHYS_I32:
        for i in range(frame.n):
            out[i] = integer_in(known, (<const int32_t*> a.values)[i])
        return 0
    for i in range(frame.n):
        value = integer_at(a, i)
        out[i] = value == <int128> <int64_t> value and integer_in(known, <int64_t> value)
    return 0


cdef int in_views(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const ViewSet* known = <const ViewSet*> step.data
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef uint8_t* found = <uint8_t*> out.own_values
    cdef int64_t n_read = 0
    cdef int64_t i
    if known.all_inline and known.n_values <= COMPARE_EACH_MAX:
        memset(found, 0, frame.n)
        for i in range(known.n_values):
            views_equal_one(
                <const StringView*> a.values, &known.slots[known.mask + 1 + i], True, frame.masks[0], frame
            )
            simd_kernels().mask_or(found, frame.masks[0], found, frame.n)
        return 0
    for i in range(frame.n):
        look_after_bytes(frame, &n_read, (<const StringView*> a.values)[i].length)
        found[i] = is_valid(out.validity, i) and view_in(known, (<const StringView*> a.values) + i)
    return 0


cdef uint64_t slots_for(int64_t n) noexcept nogil:
    cdef uint64_t slots = 16
    while slots < <uint64_t> (2 * n):
        slots *= 2
    return slots


cdef int integer_set_bind(Step* step, list values) except -1:
    cdef int64_t n = len(values)
    cdef int64_t value
    cdef uint64_t n_slots = slots_for(n)
    cdef uint64_t at
    cdef IntegerSet* known
    cdef int64_t k = 0
    cdef char* block = <char*> struct_new(sizeof(IntegerSet) + (n_slots + n) * 8 + n_slots)
    step.data = block
    known = <IntegerSet*> block
    known.mask = n_slots - 1
    known.slots = <int64_t*> (block + sizeof(IntegerSet))
    known.used = <uint8_t*> (known.slots + n_slots + n)
    for item in values:
        value = item
        if integer_in(known, value):
            continue
        known.slots[n_slots + k] = value
        k += 1
        at = mix_word(<uint64_t> value) & known.mask
        while known.used[at]:
            at = (at + 1) & known.mask
        known.slots[at] = value
        known.used[at] = 1
    known.n_values = k
    step.kernel = in_integers
    return 0


cdef int view_set_bind(Step* step, list values) except -1:
    cdef uint64_t n_slots = slots_for(len(values))
    cdef int64_t n_bytes = sum(map(len, values))
    cdef uint64_t at
    cdef ViewSet* known
    cdef StringView view
    cdef bytes content
    cdef char* next_bytes
    cdef int64_t n_views = n_slots + len(values)
    cdef char* block = <char*> struct_new(sizeof(ViewSet) + n_views * sizeof(StringView) + n_slots + n_bytes)
    step.data = block
    known = <ViewSet*> block
    known.mask = n_slots - 1
    known.slots = <StringView*> (block + sizeof(ViewSet))
    known.used = <uint8_t*> (known.slots + n_views)
    known.all_inline = True
    next_bytes = <char*> (known.used + n_slots)
    for content in values:
        memset(&view, 0, sizeof(StringView))
        view.length = <uint32_t> len(content)
        if len(content) <= VIEW_INLINE_BYTES:
            memcpy(view.prefix, <const char*> content, len(content))
        else:
            memcpy(next_bytes, <const char*> content, len(content))
            memcpy(view.prefix, next_bytes, 4)
            view.pointer = next_bytes
            next_bytes += len(content)
            known.all_inline = False
        if view_in(known, &view):
            continue
        known.slots[n_slots + known.n_values] = view
        known.n_values += 1
        at = view_hash(&view) & known.mask
        while known.used[at]:
            at = (at + 1) & known.mask
        known.slots[at] = view
        known.used[at] = 1
    step.kernel = in_views
    return 0


cdef bint comparison_bind(Step* step, str name, dict options) except -1:
    operators = {
        "equal": SIMD_EQUAL, "not_equal": SIMD_NOT_EQUAL, "less": SIMD_LESS, "less_equal": SIMD_LESS_EQUAL,
        "greater": SIMD_GREATER, "greater_equal": SIMD_GREATER_EQUAL,
    }
    cdef uint8_t phys
    step.flags = STEP_STRICT
    if name == "in_set":
        # The values in the engine's form: integers or bytes.
        if step.arg_types[0].phys == PHYS_VIEW:
            view_set_bind(step, options["values"])
        else:
            integer_set_bind(step, options["values"])
        return True
    if name in operators:
        step.p0 = operators[name]
        step.kernel = compare_kernel
    elif name in ("is_distinct_from", "is_not_distinct_from"):
        step.flags = 0
        step.p1 = name == "is_distinct_from"
        step.kernel = distinct_kernel
    else:
        return False
    phys = step.arg_types[0].phys
    if phys == PHYS_NONE and not step.flags & STEP_STRICT:
        return True         # all rows are null, so their values are never read
    if phys == PHYS_INTERVAL or phys == PHYS_NESTED or phys == PHYS_NONE:
        raise PlanError(f"{name} is not defined for intervals and nested values")
    return True
