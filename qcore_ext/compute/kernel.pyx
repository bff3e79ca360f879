"""The data of kernels: steps, the registers that they fill, and the frame of one vector."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, StringView, view_data
from qcore_ext.data.schema cimport (
    PHYS_BOOL, PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_U16, PHYS_U32,
    PHYS_U64,
    PHYS_VIEW, TYPE_BINARY, TYPE_DECIMAL, DataType,
)
from qcore_ext.ground.bitmap cimport bit_clear, is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Arena, arena_new, buffer_new_zeroed
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.wide cimport int128, wide_to_text


cdef uint16_t* own_errors(EvaluatorFrame* frame, const Step* step) except NULL nogil:
    """Make the errors of the step's register writable, and return them."""
    cdef Register* register = result(step, frame)
    cdef uint16_t* errors
    if register.own_errors == NULL:
        register.own_errors = buffer_new_zeroed(frame.account, VECTOR_ROWS * sizeof(uint16_t))
    errors = <uint16_t*> register.own_errors.data
    if register.errors == NULL:
        memset(errors, 0, frame.n * sizeof(uint16_t))
    elif register.errors != errors:
        memcpy(errors, register.errors, frame.n * sizeof(uint16_t))
    register.errors = errors
    return errors


cdef int frame_fail(EvaluatorFrame* frame, const Step* step, int64_t row, RowError kind) except -1 nogil:
    cdef uint16_t* errors
    qc_check(0 <= row < frame.n, b"a row that fails is a row of the vector")
    if not is_valid(result(step, frame).validity, row):
        return 0
    errors = own_errors(frame, step)
    # The error of an argument is kept, because it is the cause.
    if errors[row] == 0:
        errors[row] = <uint16_t> (((step.id + 1) << ERROR_KIND_BITS) | kind)
    return 0


cdef int frame_add_errors(
    EvaluatorFrame* frame, const Step* step, const uint16_t* source, const uint8_t* mask,
) except -1 nogil:
    cdef uint16_t* errors
    cdef int64_t i
    if source == NULL:
        return 0
    errors = own_errors(frame, step)
    for i in range(frame.n):
        if source[i] != 0 and errors[i] == 0 and (mask == NULL or mask[i]):
            errors[i] = source[i]
    return 0


cdef int frame_merge_errors(EvaluatorFrame* frame, const Step* step) except -1 nogil:
    cdef Register* register = result(step, frame)
    cdef const uint16_t* errors
    cdef int64_t i
    for i in range(step.n_args):
        errors = arg(step, frame, <int> i).errors
        if errors == NULL or errors == register.errors:
            continue
        if register.errors == NULL:
            register.errors = errors
        else:
            frame_add_errors(frame, step, errors, NULL)
    return 0


cdef uint8_t* frame_validity(EvaluatorFrame* frame, const Step* step) noexcept nogil:
    cdef Register* register = result(step, frame)
    if register.validity == NULL:
        memset(register.own_validity, 0xFF, VECTOR_BITMAP_BYTES)
    elif register.validity != register.own_validity:
        memcpy(register.own_validity, register.validity, (frame.n + 7) >> 3)
    register.validity = register.own_validity
    return register.own_validity


cdef int frame_prepare(EvaluatorFrame* frame, const Step* step) except -1 nogil:
    cdef Register* register = result(step, frame)
    cdef const uint8_t* validity
    cdef int64_t i, j
    qc_check(0 <= frame.n <= VECTOR_ROWS, b"a frame has at most a vector of rows")
    register.phys = step.type.phys
    register.values = register.own_values
    register.validity = NULL
    register.errors = NULL
    register.is_constant = False
    register.is_measured = False
    register.bound = step.bound
    if step.flags & STEP_STRICT:
        for i in range(step.n_args):
            validity = arg(step, frame, <int> i).validity
            if validity == NULL or validity == register.validity:
                continue
            if register.validity == NULL:
                register.validity = validity
            else:
                frame_validity(frame, step)
                for j in range((frame.n + 7) >> 3):
                    register.own_validity[j] &= validity[j]
    if not step.flags & STEP_OWN_ERRORS:
        frame_merge_errors(frame, step)
    return 0


cdef Arena* frame_arena(EvaluatorFrame* frame) except NULL nogil:
    if frame.arena == NULL:
        frame.arena = arena_new(frame.account)
    return frame.arena


cdef const uint8_t* frame_valid_mask(EvaluatorFrame* frame, const Register* source, uint8_t* mask) noexcept nogil:
    if source.validity == NULL:
        memset(mask, 1, frame.n)
    else:
        simd_kernels().bits_to_mask(source.validity, frame.n, mask)
    return mask


cdef void measure(Register* register, int64_t n) noexcept nogil:
    cdef uint64_t magnitude
    if register.is_measured or register.phys != PHYS_I64:
        return
    magnitude = simd_kernels().magnitude(<const int64_t*> register.values, 1 if register.is_constant else n)
    register.bound = magnitude
    register.is_measured = True


cdef const int128* widen_register(const Register* register, int64_t n, char* scratch) noexcept nogil:
    cdef int64_t i
    if register.phys == PHYS_I128:
        return <const int128*> register.values
    if register.phys == PHYS_I64:
        simd_kernels().widen(<const int64_t*> register.values, n, <int64_t*> scratch)
    else:
        for i in range(n):
            (<int128*> scratch)[i] = integer_at(register, i)
    return <const int128*> scratch


cdef int128 integer_at(const Register* register, int64_t row) noexcept nogil:
    cdef uint8_t phys = register.phys
    qc_check(0 <= row < VECTOR_ROWS, b"a row is a row of the register")
    if phys == PHYS_I64:
        return <int128> (<const int64_t*> register.values)[row]
    if phys == PHYS_I128:
        return (<const int128*> register.values)[row]
    if phys == PHYS_I32:
        return <int128> (<const int32_t*> register.values)[row]
    if phys == PHYS_U64:
        return <int128> (<const uint64_t*> register.values)[row]
    if phys == PHYS_U32:
        return <int128> (<const uint32_t*> register.values)[row]
    if phys == PHYS_I16:
        return <int128> (<const int16_t*> register.values)[row]
    if phys == PHYS_U16:
        return <int128> (<const uint16_t*> register.values)[row]
    if phys == PHYS_I8:
        return <int128> (<const int8_t*> register.values)[row]
    return <int128> (<const uint8_t*> register.values)[row]


cdef int frame_refuse(EvaluatorFrame* frame, const Step* step, int64_t row) except -1 nogil:
    if step.p1:
        bit_clear(frame_validity(frame, step), row)
        return 0
    return frame_fail(frame, step, row, ERROR_NOT_CONVERTIBLE)


cdef bint store_integer(uint8_t phys, char* values, int64_t row, int128 value) noexcept nogil:
    qc_check(0 <= row < VECTOR_ROWS, b"a row is a row of the register")
    if phys == PHYS_I128:
        (<int128*> values)[row] = value
        return True
    if phys == PHYS_U64:
        (<uint64_t*> values)[row] = <uint64_t> value
        return value >= 0 and value >> 64 == 0
    if phys == PHYS_I64:
        (<int64_t*> values)[row] = <int64_t> value
        return value == <int128> <int64_t> value
    if phys == PHYS_I32:
        (<int32_t*> values)[row] = <int32_t> value
        return value == <int128> <int32_t> value
    if phys == PHYS_U32:
        (<uint32_t*> values)[row] = <uint32_t> value
        return value == <int128> <uint32_t> value
    if phys == PHYS_I16:
        (<int16_t*> values)[row] = <int16_t> value
        return value == <int128> <int16_t> value
    if phys == PHYS_U16:
        (<uint16_t*> values)[row] = <uint16_t> value
        return value == <int128> <uint16_t> value
    if phys == PHYS_I8:
        (<int8_t*> values)[row] = <int8_t> value
        return value == <int128> <int8_t> value
    if phys == PHYS_BOOL:
        (<uint8_t*> values)[row] = value != 0
        return True
    (<uint8_t*> values)[row] = <uint8_t> value
    return value == <int128> <uint8_t> value


cdef str text_at(const Register* register, const DataType* type, int64_t row):
    cdef char text[64]
    cdef const StringView* view
    if not is_valid(register.validity, row):
        return "null"
    if register.phys == PHYS_VIEW:
        view = (<const StringView*> register.values) + row
        content = view_data(view)[:view.length]
        return repr(content) if type.id == TYPE_BINARY else repr(content.decode("utf-8", "replace"))
    if register.phys == PHYS_F64:
        return str((<const double*> register.values)[row])
    if register.phys == PHYS_F32:
        return str((<const float*> register.values)[row])
    if register.phys == PHYS_BOOL:
        return "true" if (<const uint8_t*> register.values)[row] else "false"
    wide_to_text(integer_at(register, row), type.scale if type.id == TYPE_DECIMAL else 0, text)
    return text.decode()
