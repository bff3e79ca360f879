"""Kernels of three-valued logic: AND, OR, NOT and tests for null and truth."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.kernel cimport (
    STEP_OWN_ERRORS, STEP_STRICT, EvaluatorFrame, Register, Step, arg, frame_add_errors, frame_valid_mask,
    frame_validity, result,
)
from qcore_ext.ground.dispatch cimport simd_kernels


cdef int connect_pair(
    const Step* step, EvaluatorFrame* frame, const Register* a, const Register* b, uint8_t* out,
) except -1 nogil:
    """AND (p0 = 0) or OR (p0 = 1) of two registers with nulls.

    A row is surely true if it is valid and true. It is perhaps true if it is null or true. The operation is applied to
    both as bytes. The result is valid if they agree.
    """
    cdef const uint8_t* valid_a = frame_valid_mask(frame, a, frame.masks[0])
    cdef const uint8_t* valid_b = frame_valid_mask(frame, b, frame.masks[1])
    cdef const uint8_t* values_a = <const uint8_t*> a.values
    cdef const uint8_t* values_b = <const uint8_t*> b.values
    cdef uint8_t* known = frame.masks[2]
    cdef uint8_t surely, perhaps
    cdef int64_t i
    cdef int64_t n = frame.n
    if step.p0 == 0:
        for i in range(n):
            surely = values_a[i] & valid_a[i] & values_b[i] & valid_b[i]
            perhaps = (values_a[i] | (valid_a[i] ^ 1)) & (values_b[i] | (valid_b[i] ^ 1))
            out[i] = surely
            known[i] = surely | (perhaps ^ 1)
    else:
        for i in range(n):
            surely = (values_a[i] & valid_a[i]) | (values_b[i] & valid_b[i])
            perhaps = values_a[i] | (valid_a[i] ^ 1) | values_b[i] | (valid_b[i] ^ 1)
            out[i] = surely
            known[i] = surely | (perhaps ^ 1)
    simd_kernels().mask_to_bits(known, n, frame_validity(frame, step))
    return 0


cdef int connect_errors(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Keep an argument's error unless another argument decides the row: a false one for AND, a true one for OR."""
    cdef const Register* register
    cdef uint8_t* decided = frame.masks[3]
    cdef const uint8_t* valid
    cdef uint8_t deciding = <uint8_t> step.p0
    cdef bint any_error = False
    cdef int64_t i, j
    for i in range(step.n_args):
        any_error = any_error or arg(step, frame, <int> i).errors != NULL
    if not any_error:
        return 0
    memset(decided, 0, frame.n)
    for i in range(step.n_args):
        register = arg(step, frame, <int> i)
        valid = frame_valid_mask(frame, register, frame.masks[0])
        for j in range(frame.n):
            if valid[j] and (<const uint8_t*> register.values)[j] == deciding and (
                register.errors == NULL or register.errors[j] == 0
            ):
                decided[j] = 1
    for j in range(frame.n):
        decided[j] ^= 1
    for i in range(step.n_args):
        frame_add_errors(frame, step, arg(step, frame, <int> i).errors, decided)
    return 0


cdef int connect_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* out = result(step, frame)
    cdef Register so_far = arg(step, frame, 0)[0]
    cdef Register* next_one
    cdef uint8_t* values = <uint8_t*> out.own_values
    cdef int64_t i
    memcpy(values, so_far.values, frame.n)
    for i in range(1, step.n_args):
        next_one = arg(step, frame, <int> i)
        if so_far.validity != NULL or next_one.validity != NULL:
            connect_pair(step, frame, &so_far, next_one, values)
            so_far.validity = out.validity
        elif step.p0 == 0:
            simd_kernels().mask_and(<const uint8_t*> so_far.values, <const uint8_t*> next_one.values, values, frame.n)
        else:
            simd_kernels().mask_or(<const uint8_t*> so_far.values, <const uint8_t*> next_one.values, values, frame.n)
        so_far.values = values
    out.validity = so_far.validity
    return connect_errors(step, frame)


cdef int not_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const uint8_t* values = <const uint8_t*> arg(step, frame, 0).values
    cdef uint8_t* out = <uint8_t*> result(step, frame).own_values
    cdef int64_t i
    cdef int64_t n = frame.n
    for i in range(n):
        out[i] = values[i] ^ 1
    return 0


cdef int null_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """IS NULL (p0 = 1) and IS NOT NULL (p0 = 0)."""
    cdef uint8_t* out = <uint8_t*> result(step, frame).own_values
    cdef uint8_t flip = <uint8_t> step.p0
    cdef int64_t i
    frame_valid_mask(frame, arg(step, frame, 0), out)
    if flip:
        for i in range(frame.n):
            out[i] ^= 1
    return 0


cdef int truth_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """IS TRUE and IS FALSE (p0 is the truth value) and their negations (p1 = 1). The result is never null."""
    cdef Register* a = arg(step, frame, 0)
    cdef const uint8_t* values = <const uint8_t*> a.values
    cdef uint8_t* out = <uint8_t*> result(step, frame).own_values
    cdef const uint8_t* valid = frame_valid_mask(frame, a, frame.masks[0])
    cdef uint8_t different = <uint8_t> (step.p0 ^ 1)
    cdef uint8_t negate = <uint8_t> step.p1
    cdef int64_t i
    for i in range(frame.n):
        out[i] = (valid[i] & (values[i] ^ different)) ^ negate
    return 0


cdef bint logic_bind(Step* step, str name, dict options) except -1:
    step.flags = 0
    if name in ("and", "or"):
        step.flags = STEP_OWN_ERRORS
        step.p0 = name == "or"
        step.kernel = connect_kernel
    elif name == "not":
        step.flags = STEP_STRICT
        step.kernel = not_kernel
    elif name in ("is_null", "is_not_null"):
        step.p0 = name == "is_null"
        step.kernel = null_kernel
    elif name in ("is_true", "is_false", "is_not_true", "is_not_false"):
        step.p0 = name.endswith("true")
        step.p1 = name.startswith("is_not")
        step.kernel = truth_kernel
    else:
        return False
    return True
