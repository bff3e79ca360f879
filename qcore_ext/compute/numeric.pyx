"""Kernels of mathematical functions, of rounding to a number of digits that is a column, and of bits."""

from libc.math cimport (
    acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, fabs, isinf, isnan, log, log2, log10, pow, round,
    sin, sinh, tan, tanh, trunc,
)
from libc.stdint cimport int64_t, uint8_t, uint64_t

from qcore_ext.compute.kernel cimport (
    ERROR_ARGUMENT, ERROR_OVERFLOW, STEP_STRICT, EvaluatorFrame, Register, Step, arg, frame_fail, integer_at, result,
    store_integer,
)
from qcore_ext.data.schema cimport PHYS_F32, PHYS_F64, PHYS_I64, TYPE_DECIMAL
from qcore_ext.ground.wide cimport int128, wide_divide_rounded, wide_power_of_ten

cdef enum Function:
    SIN
    COS
    TAN
    COT
    ASIN
    ACOS
    ATAN
    SINH
    COSH
    TANH
    ASINH
    ACOSH
    ATANH
    CBRT
    LOG10
    LOG2
    DEGREES
    RADIANS
    ATAN2
    LOG

cdef double DEGREES_PER_RADIAN = 57.295779513082320876798154814105

NAMES = {
    "sin": SIN, "cos": COS, "tan": TAN, "cot": COT, "asin": ASIN, "acos": ACOS, "atan": ATAN, "sinh": SINH,
    "cosh": COSH, "tanh": TANH, "asinh": ASINH, "acosh": ACOSH, "atanh": ATANH, "cbrt": CBRT, "log10": LOG10,
    "log2": LOG2, "degrees": DEGREES, "radians": RADIANS,
}


# --- float64 to float64 ---

cdef inline double of_one(int64_t function, double x) noexcept nogil:
    if function == SIN:
        return sin(x)
    if function == COS:
        return cos(x)
    if function == TAN:
        return tan(x)
    if function == COT:
        return 1.0 / tan(x)
    if function == ASIN:
        return asin(x)
    if function == ACOS:
        return acos(x)
    if function == ATAN:
        return atan(x)
    if function == SINH:
        return sinh(x)
    if function == COSH:
        return cosh(x)
    if function == TANH:
        return tanh(x)
    if function == ASINH:
        return asinh(x)
    if function == ACOSH:
        return acosh(x)
    if function == ATANH:
        return atanh(x)
    if function == CBRT:
        return cbrt(x)
    if function == LOG10:
        return log10(x)
    if function == LOG2:
        return log2(x)
    return x * DEGREES_PER_RADIAN if function == DEGREES else x / DEGREES_PER_RADIAN


cdef inline bint is_outside(int64_t function, double x) noexcept nogil:
    """Whether x is outside the function's domain. NaN is not; the function of NaN is NaN."""
    if function == SIN or function == COS or function == TAN or function == COT:
        return isinf(x)
    if function == ASIN or function == ACOS or function == ATANH:
        return fabs(x) > 1
    if function == ACOSH:
        return x < 1
    return (function == LOG10 or function == LOG2) and x <= 0


cdef int one_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const double* a = <const double*> arg(step, frame, 0).values
    cdef double* out = <double*> result(step, frame).own_values
    cdef int64_t i
    for i in range(frame.n):
        out[i] = of_one(step.p0, a[i])
    for i in range(frame.n):
        if is_outside(step.p0, a[i]):
            frame_fail(frame, step, i, ERROR_ARGUMENT)
    return 0


cdef int two_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """atan2(y, x) and log(base, x)."""
    cdef const double* a = <const double*> arg(step, frame, 0).values
    cdef const double* b = <const double*> arg(step, frame, 1).values
    cdef double* out = <double*> result(step, frame).own_values
    cdef int64_t i
    for i in range(frame.n):
        if step.p0 == ATAN2:
            out[i] = atan2(a[i], b[i])
        else:
            out[i] = log(b[i]) / log(a[i])
            if b[i] <= 0 or a[i] <= 0 or a[i] == 1:
                frame_fail(frame, step, i, ERROR_ARGUMENT)
    return 0


cdef inline double double_at(const Register* a, int64_t i) noexcept nogil:
    return (<const float*> a.values)[i] if a.phys == PHYS_F32 else (<const double*> a.values)[i]


cdef int test_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """is_nan (p0 = 0), is_infinite (p0 = 1) and is_finite (p0 = 2)."""
    cdef Register* a = arg(step, frame, 0)
    cdef uint8_t* out = <uint8_t*> result(step, frame).own_values
    cdef double value
    cdef int64_t i
    for i in range(frame.n):
        value = double_at(a, i)
        out[i] = isnan(value) if step.p0 == 0 else isinf(value) != 0 if step.p0 == 1 else value - value == 0
    return 0


# --- rounding ---

cdef int64_t digits_at(const Step* step, EvaluatorFrame* frame, int64_t row) noexcept nogil:
    """The second argument, limited to the digits that a number can have; 0 if there is no second argument."""
    if step.n_args == 1:
        return 0
    return max(-400, min(400, (<const int64_t*> arg(step, frame, 1).values)[row]))


cdef inline double round_double(double value, int64_t digits, bint cut) noexcept nogil:
    cdef double unit = pow(10.0, <double> (digits if digits >= 0 else -digits))
    cdef double scaled = value * unit if digits >= 0 else value / unit
    scaled = trunc(scaled) if cut else round(scaled)
    scaled = scaled / unit if digits >= 0 else scaled * unit
    return value if scaled - scaled != 0 else scaled     # an infinite scaled value: too large for such digits


cdef int round_floats(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """round (p0 = 0) and trunc (p0 = 1) of floats."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef double value
    cdef int64_t i
    for i in range(frame.n):
        value = double_at(a, i)
        if step.n_args == 1:
            value = trunc(value)
        else:
            value = round_double(value, digits_at(step, frame, i), step.p0 == 1)
        if step.type.phys == PHYS_F64:
            (<double*> out.own_values)[i] = value
        else:
            (<float*> out.own_values)[i] = <float> value
    return 0


cdef int round_digits(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """round (p0 = 0) and trunc (p0 = 1) of integers and decimals. p1 is the argument's scale."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int128 limit = wide_power_of_ten(step.type.precision) - 1 if step.type.id == TYPE_DECIMAL else 0
    cdef int128 shrink = wide_power_of_ten(<int> (step.p1 - step.type.scale)) if step.type.id == TYPE_DECIMAL else 1
    cdef int128 value, unit
    cdef int64_t i, excess
    if step.type.id == TYPE_DECIMAL:
        out.phys = step.type.phys
    for i in range(frame.n):
        value = integer_at(a, i)
        excess = step.p1 - digits_at(step, frame, i)
        if excess > 38:
            value = 0
        elif excess > 0:
            unit = wide_power_of_ten(<int> excess)
            value = (value / unit if step.p0 == 1 else wide_divide_rounded(value, unit)) * unit
        value = value / shrink
        if limit > 0 and (value > limit or value < -limit) or not store_integer(
            step.type.phys, out.own_values, i, value
        ):
            store_integer(step.type.phys, out.own_values, i, 0)
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


# --- integers ---

cdef enum Bits:
    BIT_AND
    BIT_OR
    BIT_XOR
    SHIFT_LEFT
    SHIFT_RIGHT


cdef int bits_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int64_t* a = <const int64_t*> arg(step, frame, 0).values
    cdef const int64_t* b = <const int64_t*> arg(step, frame, 1).values
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t op = step.p0
    cdef int64_t i
    for i in range(frame.n):
        if op == BIT_AND:
            out[i] = a[i] & b[i]
        elif op == BIT_OR:
            out[i] = a[i] | b[i]
        elif op == BIT_XOR:
            out[i] = a[i] ^ b[i]
        elif b[i] < 0 or b[i] > 63:
            out[i] = 0
            frame_fail(frame, step, i, ERROR_ARGUMENT)
        elif op == SHIFT_RIGHT:
            out[i] = a[i] >> b[i]
        else:
            out[i] = <int64_t> (<uint64_t> a[i] << b[i])
            if a[i] < 0 or (out[i] >> b[i]) != a[i]:
                frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int128 greatest_divisor(int128 a, int128 b) noexcept nogil:
    cdef int128 rest
    a = -a if a < 0 else a
    b = -b if b < 0 else b
    while b != 0:
        rest = a % b
        a = b
        b = rest
    return a


cdef int divisor_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """gcd (p0 = 0) and lcm (p0 = 1)."""
    cdef const int64_t* a = <const int64_t*> arg(step, frame, 0).values
    cdef const int64_t* b = <const int64_t*> arg(step, frame, 1).values
    cdef Register* out = result(step, frame)
    cdef int128 value
    cdef int64_t i
    for i in range(frame.n):
        value = greatest_divisor(a[i], b[i])
        if step.p0 == 1 and value != 0:
            value = (<int128> a[i]) / value * b[i]
            value = -value if value < 0 else value
        if not store_integer(PHYS_I64, out.own_values, i, value):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int factorial_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const int64_t* a = <const int64_t*> arg(step, frame, 0).values
    cdef int64_t* out = <int64_t*> result(step, frame).own_values
    cdef int64_t i, k
    for i in range(frame.n):
        out[i] = 1
        if a[i] < 0:
            frame_fail(frame, step, i, ERROR_ARGUMENT)
        elif a[i] > 20:
            frame_fail(frame, step, i, ERROR_OVERFLOW)
        else:
            for k in range(2, a[i] + 1):
                out[i] *= k
    return 0


cdef bint rounding_bind(Step* step, str name) noexcept:
    step.p0 = name == "trunc"
    if step.type.phys == PHYS_F64 or step.type.phys == PHYS_F32:
        step.kernel = round_floats
    else:
        step.p1 = step.arg_types[0].scale if step.arg_types[0].id == TYPE_DECIMAL else 0
        step.kernel = round_digits
    return True


cdef bint numeric_bind(Step* step, str name, dict options) except -1:
    tests = ("is_nan", "is_infinite", "is_finite")
    bits = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_shift_left", "bitwise_shift_right")
    step.flags = STEP_STRICT
    if name in NAMES:
        step.p0 = NAMES[name]
        step.kernel = one_kernel
    elif name in ("atan2", "log"):
        step.p0 = ATAN2 if name == "atan2" else LOG
        step.kernel = two_kernel
    elif name in tests:
        step.p0 = tests.index(name)
        step.kernel = test_kernel
    elif name in ("round_by", "trunc"):
        return rounding_bind(step, name)
    elif name in bits:
        step.p0 = bits.index(name)
        step.kernel = bits_kernel
    elif name in ("gcd", "lcm"):
        step.p0 = name == "lcm"
        step.kernel = divisor_kernel
    elif name == "factorial":
        step.kernel = factorial_kernel
    else:
        return False
    return True
