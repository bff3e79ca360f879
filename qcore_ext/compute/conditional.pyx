"""Kernels that choose among their arguments row by row: CASE and COALESCE.

All branches are computed for all rows. A row takes the value, the validity and the error of its own branch. Therefore a
division by zero in another branch is not an error.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from qcore_ext.compute.kernel cimport (
    STEP_OWN_ERRORS, EvaluatorFrame, Register, Step, arg, frame_add_errors, frame_valid_mask, frame_validity, result,
    widen_register,
)
from qcore_ext.data.schema cimport PHYS_I64, PHYS_I128, PHYS_NESTED, PHYS_NONE, TYPE_DECIMAL, phys_width
from qcore_ext.ground.dispatch cimport simd_kernels

from qcore_ext.ground.status import PlanError


cdef int log2_width(uint8_t phys) noexcept nogil:
    cdef int width = phys_width(phys)
    return 4 if width == 16 else 3 if width == 8 else 2 if width == 4 else 1 if width == 2 else 0


cdef const void* values_as(const Register* register, uint8_t phys, EvaluatorFrame* frame, char* scratch) noexcept nogil:
    """The register's values, widened to 128 bits in `scratch` if `phys` is PHYS_I128."""
    if phys == PHYS_I128:
        return widen_register(register, frame.n, scratch)
    return register.values


cdef int choose(
    const Step* step, EvaluatorFrame* frame,
    const uint8_t* mask,        # IN; 1 for the rows that take `source`
    Register* source,
    uint8_t* valid,             # OUT; bytes; NULL if no row can be null
) except -1 nogil:
    """Copy the rows of `mask` from `source` to the step's register."""
    cdef Register* out = result(step, frame)
    cdef const void* values = values_as(source, out.phys, frame, frame.wide_a)
    if out.phys != PHYS_NONE:
        simd_kernels().select[log2_width(out.phys)](mask, values, out.own_values, out.own_values, frame.n)
    if valid != NULL:
        frame_valid_mask(frame, source, frame.masks[1])
        simd_kernels().select[0](mask, frame.masks[1], valid, valid, frame.n)
    return 0


cdef int start_with(const Step* step, EvaluatorFrame* frame, Register* source, uint8_t* valid) except -1 nogil:
    """Copy all rows from `source` to the step's register."""
    cdef Register* out = result(step, frame)
    memcpy(out.own_values, values_as(source, out.phys, frame, frame.wide_a), frame.n * phys_width(out.phys))
    if valid != NULL:
        frame_valid_mask(frame, source, valid)
    return 0


cdef void settle_phys(const Step* step, EvaluatorFrame* frame, int64_t first, int64_t stride) noexcept nogil:
    """Set the width of a decimal result: 64 bits if all choices have 64 bits. Its bound is the largest of theirs."""
    cdef Register* out = result(step, frame)
    cdef Register* choice
    cdef int64_t i = first
    if out.phys != PHYS_I64 and step.type.id != TYPE_DECIMAL:
        return
    out.phys = PHYS_I64
    out.bound = 0
    out.is_measured = True
    while i < step.n_args:
        choice = arg(step, frame, <int> i)
        if choice.phys == PHYS_I128:
            out.phys = PHYS_I128
        out.bound = max(out.bound, choice.bound)
        out.is_measured = out.is_measured and choice.is_measured
        i += stride if i + stride < step.n_args else 1


cdef int case_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """CASE. The arguments are condition, value, condition, value, …, and the value of ELSE."""
    cdef Register* condition
    cdef int64_t i
    cdef int64_t n = frame.n
    cdef int64_t last = step.n_args - 1
    cdef bint nullable = arg(step, frame, <int> last).validity != NULL
    cdef bint failing = arg(step, frame, <int> last).errors != NULL
    cdef uint8_t* valid = NULL
    cdef uint8_t* mask = frame.masks[0]
    i = 0
    while i < last:
        nullable = nullable or arg(step, frame, <int> i + 1).validity != NULL
        failing = failing or arg(step, frame, <int> i).errors != NULL or arg(step, frame, <int> i + 1).errors != NULL
        i += 2
    settle_phys(step, frame, 1, 2)
    if nullable:
        valid = frame.masks[2]
    start_with(step, frame, arg(step, frame, <int> last), valid)
    i = last - 2
    while i >= 0:       # from the last branch to the first, because the first true condition decides
        condition = arg(step, frame, <int> i)
        if condition.validity == NULL:
            choose(step, frame, <const uint8_t*> condition.values, arg(step, frame, <int> i + 1), valid)
        else:
            frame_valid_mask(frame, condition, mask)
            simd_kernels().mask_and(mask, <const uint8_t*> condition.values, mask, n)
            choose(step, frame, mask, arg(step, frame, <int> i + 1), valid)
        i -= 2
    if failing:
        case_errors(step, frame, valid)
    if valid != NULL:
        simd_kernels().mask_to_bits(valid, n, frame_validity(frame, step))
    return 0


cdef int case_errors(
    const Step* step,
    EvaluatorFrame* frame,
    uint8_t* valid,     # IN, OUT; rows whose condition fails become valid, because a null has no error
) except -1 nogil:
    cdef uint8_t* undecided = frame.masks[0]
    cdef uint8_t* chosen = frame.masks[1]
    cdef Register* condition
    cdef int64_t i = 0
    cdef int64_t j
    for j in range(frame.n):
        undecided[j] = 1
    while i < step.n_args - 1:
        condition = arg(step, frame, <int> i)
        frame_valid_mask(frame, condition, chosen)
        if condition.errors != NULL:
            for j in range(frame.n):
                chosen[j] &= undecided[j]
                if valid != NULL and chosen[j] and condition.errors[j] != 0:
                    valid[j] = 1
            frame_add_errors(frame, step, condition.errors, chosen)
        for j in range(frame.n):
            chosen[j] = chosen[j] & undecided[j] & (<const uint8_t*> condition.values)[j]
            undecided[j] = undecided[j] & (chosen[j] ^ 1)
        frame_add_errors(frame, step, arg(step, frame, <int> i + 1).errors, chosen)
        i += 2
    return frame_add_errors(frame, step, arg(step, frame, <int> i).errors, undecided)


cdef int coalesce_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef uint8_t* mask = frame.masks[0]
    cdef uint8_t* valid = frame.masks[2]
    cdef uint8_t* undecided = frame.masks[3]
    cdef Register* choice
    cdef int64_t n_args = step.n_args
    cdef int64_t i, j
    for i in range(step.n_args):        # arguments after one that is never null are not read
        if arg(step, frame, <int> i).validity == NULL:
            n_args = i + 1
            break
    settle_phys(step, frame, 0, 1)
    start_with(step, frame, arg(step, frame, <int> n_args - 1), valid)
    i = n_args - 2
    while i >= 0:
        choice = arg(step, frame, <int> i)
        frame_valid_mask(frame, choice, mask)
        choose(step, frame, mask, choice, valid)
        i -= 1
    if arg(step, frame, <int> n_args - 1).validity != NULL:
        simd_kernels().mask_to_bits(valid, frame.n, frame_validity(frame, step))
    for j in range(frame.n):
        undecided[j] = 1
    for i in range(n_args):
        choice = arg(step, frame, <int> i)
        frame_add_errors(frame, step, choice.errors, undecided)
        frame_valid_mask(frame, choice, mask)
        for j in range(frame.n):
            undecided[j] &= mask[j] ^ 1
    return 0


cdef bint conditional_bind(Step* step, str name, dict options) except -1:
    step.flags = STEP_OWN_ERRORS
    if name == "case":
        step.kernel = case_kernel
    elif name == "coalesce":
        step.kernel = coalesce_kernel
    else:
        step.flags = 0
        return False
    if step.type.phys == PHYS_NESTED:
        raise PlanError(f"{name} is not defined for nested values")
    return True
