"""Kernels of + - * / % and of functions from numbers to numbers.

A register of decimals or int64 has a bound of its values' magnitudes. If the bound of a result fits 63 bits, the result
is computed by a SIMD loop without overflow checks. TPC-H Q1's charge, which is declared with 38 digits, always fits.
Otherwise decimals are computed in 128 bits, and integers by a loop that checks for overflow.
"""

from libc.math cimport ceil, exp, floor, fmod, log, pow, round, sqrt
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from qcore_ext.compute.kernel cimport (
    ERROR_ARGUMENT, ERROR_DIVISION_BY_ZERO, ERROR_OVERFLOW, STEP_STRICT, EvaluatorFrame, Register, Step, arg,
    frame_fail, integer_at, measure, result, store_integer, widen_register,
)
from qcore_ext.data.schema cimport (
    PHYS_F32, PHYS_F64, PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_I128, PHYS_U8, PHYS_U16, PHYS_U32, PHYS_U64,
    TYPE_DECIMAL,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.simd cimport SIMD_ADD, SIMD_MULTIPLY, SIMD_SUBTRACT, SIMD_SV, SIMD_VS, SIMD_VV, SimdArithmetic
from qcore_ext.ground.wide cimport (
    int128, wide_apply, wide_arithmetic, wide_divide_rounded, wide_power_of_ten, wide_product,
)
from qcore_ext.ground.words cimport Integer, Real

cdef uint64_t I64_MAX = 0x7FFFFFFFFFFFFFFF

cdef inline int shape_of(const Register* a, const Register* b) noexcept nogil:
    return SIMD_VS if b.is_constant else SIMD_SV if a.is_constant else SIMD_VV


cdef inline bint bound_of(int64_t op, uint64_t a, uint64_t b, uint64_t* bound) noexcept nogil:
    """Compute the bound of `a op b` from the operands' bounds. Returns False if it does not fit 63 bits."""
    if op != SIMD_MULTIPLY:
        bound[0] = a + b        # cannot wrap around if both are at most I64_MAX
        return a <= I64_MAX and b <= I64_MAX and bound[0] <= I64_MAX
    if a != 0 and b > I64_MAX / a:
        return False
    bound[0] = a * b
    return True


cdef bint bound_fits(int64_t op, Register* a, Register* b, int64_t n, uint64_t* bound) noexcept nogil:
    """Whether `a op b` fits 63 bits in all rows. If the bounds of the types do not tell, the values are measured."""
    if bound_of(op, a.bound, b.bound, bound):
        return True
    measure(a, n)
    if bound_of(op, a.bound, b.bound, bound):
        return True
    measure(b, n)
    return bound_of(op, a.bound, b.bound, bound)


cdef void compute_unchecked(
    const Step* step, EvaluatorFrame* frame, Register* a, Register* b, uint64_t bound,
) noexcept nogil:
    cdef Register* out = result(step, frame)
    simd_kernels().unchecked[step.p0][shape_of(a, b)](a.values, b.values, out.own_values, frame.n)
    out.phys = PHYS_I64
    out.bound = bound
    out.is_measured = a.is_measured and b.is_measured


cdef int64_t type_bits(uint8_t phys) noexcept nogil:
    """The bits of a type's magnitude; negative for unsigned types."""
    if phys == PHYS_I8:
        return 7
    if phys == PHYS_I16:
        return 15
    if phys == PHYS_I32:
        return 31
    if phys == PHYS_I64:
        return 63
    return -8 if phys == PHYS_U8 else -16 if phys == PHYS_U16 else -32 if phys == PHYS_U32 else -64


cdef inline bint in_range(int128 value, int64_t bits) noexcept nogil:
    """Whether the value fits a type with these type_bits."""
    if bits < 0:
        return value >= 0 and value >> <int> -bits == 0
    return value < ((<int128> 1) << <int> bits) and value >= -((<int128> 1) << <int> bits)


cdef int fail_overflows(const Step* step, EvaluatorFrame* frame, Register* a, Register* b) except -1 nogil:
    """Mark the valid rows whose integer result overflows. The SIMD loop has seen that some row does."""
    cdef int64_t i
    cdef int64_t bits = type_bits(step.type.phys)
    cdef int128 value
    for i in range(frame.n):
        wide_apply(<int> step.p0, integer_at(a, i), integer_at(b, i), 0, &value)    # exact for 64-bit operands
        if not in_range(value, bits):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int integer_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    cdef Register* out = result(step, frame)
    cdef uint8_t phys = step.type.phys
    cdef uint64_t bound = 0
    cdef SimdArithmetic kernel
    if phys == PHYS_I64 and bound_fits(step.p0, a, b, frame.n, &bound):
        compute_unchecked(step, frame, a, b, bound)
        return 0
    kernel = simd_kernels().arithmetic[step.p0][phys][shape_of(a, b)]
    if kernel(a.values, b.values, out.own_values, frame.n):
        fail_overflows(step, frame, a, b)
    return 0


cdef int float_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    simd_kernels().arithmetic[step.p0][step.type.phys][shape_of(a, b)](
        a.values, b.values, result(step, frame).own_values, frame.n
    )
    return 0


cdef int set_decimal_width(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Convert the register's 128-bit values to 64 bits if the type has at most 18 digits."""
    cdef Register* out = result(step, frame)
    cdef int64_t i
    cdef const int128* values = <const int128*> out.own_values
    if step.type.phys != PHYS_I64:
        out.phys = PHYS_I128
        return 0
    # In place: row i is written over row i / 2, which was read before.
    for i in range(frame.n):
        (<int64_t*> out.own_values)[i] = <int64_t> values[i]
    out.phys = PHYS_I64
    return 0


cdef int wide_kernel(const Step* step, EvaluatorFrame* frame, Register* a, Register* b) except -1 nogil:
    """Compute + - * of decimals in 128 bits. A result with more digits than declared is an error."""
    cdef Register* out = result(step, frame)
    cdef int128 limit = wide_power_of_ten(step.type.precision) - 1
    cdef int128* values = <int128*> out.own_values
    cdef const int128* wide_a
    cdef const int128* wide_b
    cdef int128 value
    cdef int64_t i
    cdef bint bad
    if step.p0 == SIMD_MULTIPLY and a.phys == PHYS_I64 and b.phys == PHYS_I64:
        bad = wide_product(<const int64_t*> a.values, 1, <const int64_t*> b.values, 1, limit, values, frame.n)
    else:
        wide_a = widen_register(a, frame.n, frame.wide_a)
        wide_b = widen_register(b, frame.n, frame.wide_b)
        bad = wide_arithmetic(<int> step.p0, wide_a, 1, wide_b, 1, limit, values, frame.n)
    if bad:
        for i in range(frame.n):
            if wide_apply(<int> step.p0, integer_at(a, i), integer_at(b, i), limit, &value):
                values[i] = 0
                frame_fail(frame, step, i, ERROR_OVERFLOW)
    return set_decimal_width(step, frame)


cdef int decimal_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    cdef uint64_t bound = 0
    if a.phys == PHYS_I64 and b.phys == PHYS_I64 and bound_fits(step.p0, a, b, frame.n, &bound):
        compute_unchecked(step, frame, a, b, bound)
        return 0
    return wide_kernel(step, frame, a, b)


# --- division ---

cdef int divide_integers(
    const Step* step, EvaluatorFrame* frame, const Integer* a, const Integer* b, Integer* out,
) except -1 nogil:
    """The quotient (p0 = 0) or the remainder (p0 = 1), truncated towards zero."""
    cdef int64_t i
    cdef bint remainder = step.p0 == 1
    cdef int64_t n = frame.n
    cdef Integer minus_one = <Integer> -1
    cdef bint is_signed = minus_one < 1
    for i in range(n):
        if b[i] == 0:
            out[i] = 0
            frame_fail(frame, step, i, ERROR_DIVISION_BY_ZERO)
        elif is_signed and b[i] == minus_one:
            # The smallest value divided by -1 overflows, and the division instruction would trap.
            out[i] = 0 if remainder else <Integer> (0 - <uint64_t> a[i])
            if not remainder and a[i] < 0 and out[i] == a[i]:
                frame_fail(frame, step, i, ERROR_OVERFLOW)
        else:
            out[i] = a[i] % b[i] if remainder else a[i] / b[i]
    return 0


cdef int divide_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const void* a = arg(step, frame, 0).values
    cdef const void* b = arg(step, frame, 1).values
    cdef void* out = result(step, frame).own_values
    cdef uint8_t phys = step.type.phys
    if phys == PHYS_I8:
        return divide_integers[int8_t](step, frame, <const int8_t*> a, <const int8_t*> b, <int8_t*> out)
    if phys == PHYS_I16:
        return divide_integers[int16_t](step, frame, <const int16_t*> a, <const int16_t*> b, <int16_t*> out)
    if phys == PHYS_I32:
        return divide_integers[int32_t](step, frame, <const int32_t*> a, <const int32_t*> b, <int32_t*> out)
    if phys == PHYS_I64:
        return divide_integers[int64_t](step, frame, <const int64_t*> a, <const int64_t*> b, <int64_t*> out)
    if phys == PHYS_U8:
        return divide_integers[uint8_t](step, frame, <const uint8_t*> a, <const uint8_t*> b, <uint8_t*> out)
    if phys == PHYS_U16:
        return divide_integers[uint16_t](step, frame, <const uint16_t*> a, <const uint16_t*> b, <uint16_t*> out)
    if phys == PHYS_U32:
        return divide_integers[uint32_t](step, frame, <const uint32_t*> a, <const uint32_t*> b, <uint32_t*> out)
    return divide_integers[uint64_t](step, frame, <const uint64_t*> a, <const uint64_t*> b, <uint64_t*> out)


cdef int divide_floats(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const void* a = arg(step, frame, 0).values
    cdef const void* b = arg(step, frame, 1).values
    cdef void* out = result(step, frame).own_values
    cdef int64_t i
    cdef int64_t n = frame.n
    cdef bint remainder = step.p0 == 1
    if step.type.phys == PHYS_F64:
        if remainder:
            for i in range(n):
                (<double*> out)[i] = fmod((<const double*> a)[i], (<const double*> b)[i])
        else:
            for i in range(n):
                (<double*> out)[i] = (<const double*> a)[i] / (<const double*> b)[i]
    elif remainder:
        for i in range(n):
            (<float*> out)[i] = <float> fmod((<const float*> a)[i], (<const float*> b)[i])
    else:
        for i in range(n):
            (<float*> out)[i] = (<const float*> a)[i] / (<const float*> b)[i]
    return 0


cdef int decimal_remainder(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* b = arg(step, frame, 1)
    cdef int128* out = <int128*> result(step, frame).own_values
    cdef int128 divisor
    cdef int64_t i
    for i in range(frame.n):
        divisor = integer_at(b, i)
        out[i] = 0
        if divisor == 0:
            frame_fail(frame, step, i, ERROR_DIVISION_BY_ZERO)
        elif divisor != -1:
            out[i] = integer_at(a, i) % divisor
    return set_decimal_width(step, frame)


# --- functions of one number ---

cdef enum Unary:
    NEGATE
    ABS
    SIGN
    FLOOR
    CEIL
    ROUND
    SQRT
    EXP
    LN


cdef inline int128 unary_integer(int64_t op, int128 value) noexcept nogil:
    if op == NEGATE:
        return -value
    if op == ABS:
        return -value if value < 0 else value
    if op == SIGN:
        return 1 if value > 0 else -1 if value < 0 else 0
    return value


cdef int integer_unary(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef void* out = result(step, frame).own_values
    cdef int64_t bits = type_bits(step.type.phys)
    cdef uint8_t phys = step.type.phys
    cdef int128 value
    cdef int64_t i
    for i in range(frame.n):
        value = unary_integer(step.p0, integer_at(a, i))
        if not in_range(value, bits):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
        if phys == PHYS_I64 or phys == PHYS_U64:
            (<int64_t*> out)[i] = <int64_t> value
        elif phys == PHYS_I32 or phys == PHYS_U32:
            (<int32_t*> out)[i] = <int32_t> value
        elif phys == PHYS_I16 or phys == PHYS_U16:
            (<int16_t*> out)[i] = <int16_t> value
        else:
            (<int8_t*> out)[i] = <int8_t> value
    return 0


cdef int decimal_unary(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """negate and abs; floor, ceil and round, which remove p1 digits after the point."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int128* values = <int128*> out.own_values
    cdef int128 unit = wide_power_of_ten(<int> step.p1)
    cdef int128 one = wide_power_of_ten(step.type.scale)
    cdef int128 value, whole
    cdef int64_t i
    cdef bint negative = step.p0 == NEGATE
    if (negative or step.p0 == ABS) and a.phys == PHYS_I64:
        for i in range(frame.n):
            (<int64_t*> out.own_values)[i] = <int64_t> unary_integer(step.p0, (<const int64_t*> a.values)[i])
        out.phys = PHYS_I64
        out.bound = a.bound
        out.is_measured = a.is_measured
        return 0
    for i in range(frame.n):
        value = integer_at(a, i)
        if step.p0 == FLOOR or step.p0 == CEIL:
            whole = value / unit
            if step.p0 == FLOOR and value < whole * unit:
                whole -= 1
            elif step.p0 == CEIL and value > whole * unit:
                whole += 1
            values[i] = whole
        elif step.p0 == ROUND:
            values[i] = wide_divide_rounded(value, unit) * unit
        elif step.p0 == SIGN:
            values[i] = unary_integer(SIGN, value) * one
        else:
            values[i] = unary_integer(step.p0, value)
    return set_decimal_width(step, frame)


cdef inline double unary_double(int64_t op, double value) noexcept nogil:
    if op == NEGATE:
        return -value
    if op == ABS:
        return -value if value < 0 else value + 0.0
    if op == SIGN:
        return 1.0 if value > 0 else -1.0 if value < 0 else value
    if op == FLOOR:
        return floor(value)
    if op == CEIL:
        return ceil(value)
    if op == ROUND:
        return round(value)
    if op == SQRT:
        return sqrt(value)
    if op == EXP:
        return exp(value)
    return log(value)


cdef void each_float(int64_t op, const Real* a, Real* out, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = <Real> unary_double(op, a[i])


cdef int float_unary(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef int64_t i
    cdef double value
    if step.type.phys == PHYS_F32:
        each_float[float](step.p0, <const float*> a.values, <float*> out.own_values, frame.n)
        return 0
    each_float[double](step.p0, <const double*> a.values, <double*> out.own_values, frame.n)
    if step.p0 == SQRT or step.p0 == LN:
        # Outside their domain these two functions raise an error. A NaN would be easy to overlook.
        for i in range(frame.n):
            value = (<const double*> a.values)[i]
            if value < 0 or (value == 0 and step.p0 == LN):
                frame_fail(frame, step, i, ERROR_ARGUMENT)
    return 0


cdef int round_float(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Round to p1 digits after the point, or to -p1 digits before it."""
    cdef Register* a = arg(step, frame, 0)
    cdef Register* out = result(step, frame)
    cdef double unit = pow(10.0, <double> (step.p1 if step.p1 >= 0 else -step.p1))
    cdef double value, scaled
    cdef int64_t i
    cdef bint single = step.type.phys == PHYS_F32
    for i in range(frame.n):
        value = (<const float*> a.values)[i] if single else (<const double*> a.values)[i]
        scaled = round(value * unit) / unit if step.p1 >= 0 else round(value / unit) * unit
        if scaled - scaled != 0:
            scaled = value          # the scaled value is infinite, so the value is too large for such digits
        if single:
            (<float*> out.own_values)[i] = <float> scaled
        else:
            (<double*> out.own_values)[i] = scaled
    return 0


cdef int round_integer(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Round to a multiple of 10 ** p1."""
    cdef Register* a = arg(step, frame, 0)
    cdef int128 unit = wide_power_of_ten(<int> step.p1)
    cdef int128 value
    cdef int64_t i
    for i in range(frame.n):
        value = wide_divide_rounded(integer_at(a, i), unit) * unit
        if not store_integer(step.type.phys, result(step, frame).own_values, i, value):
            frame_fail(frame, step, i, ERROR_OVERFLOW)
    return 0


cdef int power_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef const double* a = <const double*> arg(step, frame, 0).values
    cdef const double* b = <const double*> arg(step, frame, 1).values
    cdef double* out = <double*> result(step, frame).own_values
    cdef int64_t i
    for i in range(frame.n):
        out[i] = pow(a[i], b[i])
    return 0


cdef bint is_float(const Step* step) noexcept nogil:
    return step.type.phys == PHYS_F64 or step.type.phys == PHYS_F32


cdef bint round_bind(Step* step, dict options) except -1:
    cdef int64_t digits = options.get("digits", 0)
    step.p0 = ROUND
    if is_float(step):
        step.p1 = max(min(digits, 300), -300)
        step.kernel = round_float
    elif step.type.id == TYPE_DECIMAL:
        step.p1 = max(0, min(step.type.scale - digits, 38))
        step.kernel = decimal_unary
    else:
        step.p1 = max(0, min(-digits, 38))
        step.kernel = round_integer
    return True


cdef bint arithmetic_bind(Step* step, str name, dict options) except -1:
    binary = {"add": SIMD_ADD, "subtract": SIMD_SUBTRACT, "multiply": SIMD_MULTIPLY, "divide": 0, "modulo": 1}
    unary = {
        "negate": NEGATE, "abs": ABS, "sign": SIGN, "floor": FLOOR, "ceil": CEIL, "sqrt": SQRT, "exp": EXP, "ln": LN,
    }
    step.flags = STEP_STRICT
    if name in ("add", "subtract", "multiply"):
        step.p0 = binary[name]
        step.kernel = float_kernel if is_float(step) else integer_kernel
        if step.type.id == TYPE_DECIMAL:
            step.kernel = decimal_kernel
    elif name in ("divide", "modulo"):
        step.p0 = binary[name]
        step.kernel = divide_floats if is_float(step) else divide_kernel
        if step.type.id == TYPE_DECIMAL:
            step.kernel = decimal_remainder
    elif name == "round":
        return round_bind(step, options)
    elif name == "power":
        step.kernel = power_kernel
    elif name in unary:
        step.p0 = unary[name]
        step.p1 = step.arg_types[0].scale if step.type.id == TYPE_DECIMAL else 0
        step.kernel = float_unary if is_float(step) else integer_unary
        if step.type.id == TYPE_DECIMAL:
            step.kernel = decimal_unary
    else:
        return False
    return True
