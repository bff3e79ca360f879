"""A program: expressions compiled for one input schema."""

cimport cython
from cpython.bytearray cimport PyByteArray_AsString
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.compute.arithmetic cimport arithmetic_bind
from qcore_ext.compute.arrow_call cimport arrow_kernel
from qcore_ext.compute.cast cimport cast_bind
from qcore_ext.compute.comparison cimport comparison_bind
from qcore_ext.compute.conditional cimport conditional_bind
from qcore_ext.compute.kernel cimport EvaluatorFrame, Register, Step, frame_validity, result
from qcore_ext.compute.logic cimport logic_bind
from qcore_ext.compute.numeric cimport numeric_bind
from qcore_ext.compute.temporal cimport temporal_bind
from qcore_ext.compute.text cimport text_bind
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport CONSTANT, DICTIONARY, VECTOR_ROWS, Column, Vector, VectorScratch, column_heap
from qcore_ext.data.load cimport column_load_narrow
from qcore_ext.data.schema cimport PHYS_I64, PHYS_NESTED, PHYS_VIEW, TYPE_DECIMAL, CSchema, DataType, Schema, type_name
from qcore_ext.ground.bitmap cimport bit_clear, is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport (
    Account, Owner, OwnerList, buffer_new, buffer_unref, owner_list_add, owner_list_new, owner_ref, owner_unref,
    struct_free,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.wide cimport wide_power_of_ten

from qcore_ext.ground.status import PlanError

cdef enum:
    STEPS_MAX = 16000           # Register.errors has 14 bits for the step's number
    ALIGNMENT = 64


cdef uint64_t bound_of_type(const DataType* type) noexcept nogil:
    """The largest magnitude of a value of the type; all ones if it does not fit 63 bits."""
    if type.id == TYPE_DECIMAL and type.precision <= 18:
        return <uint64_t> wide_power_of_ten(type.precision) - 1
    return ~(<uint64_t> 0)


cdef int load_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    cdef Register* out = result(step, frame)
    cdef Vector vector
    column_load_narrow(
        frame.batch.columns[step.p0], frame.start, frame.rows, frame.n, <VectorScratch*> out.own_values, &vector
    )
    out.phys = vector.phys
    out.values = vector.values
    out.validity = vector.validity
    return 0


cdef int nested_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Load only the validity of a nested column. Kernels do not read its values."""
    cdef Column* column = frame.batch.columns[step.p0]
    cdef const Column* base = column.base if column.encoding == DICTIONARY else NULL
    cdef uint8_t* validity = frame_validity(frame, step)
    cdef int64_t i, row
    for i in range(frame.n):
        row = 0 if column.encoding == CONSTANT else frame.rows[i] if frame.rows != NULL else frame.start + i
        if not is_valid(column.validity, row) or (
            base != NULL and not is_valid(base.validity, 0 if base.encoding == CONSTANT else column.indices[row])
        ):
            bit_clear(validity, i)
    return 0


cdef int constant_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    return 0


# A program is part of no reference cycle. If the collector cleared it, as a part of a cycle of closures that refer to
# it, `blocks` would be freed before __dealloc__ reads the steps.
@cython.no_gc
cdef class Program:
    """Expressions compiled for one input schema.

    Parameters
    ----------
    input_schema, output_schema : pyarrow.Schema
        The schema of the input batches, and of the results with one field for each expression.
    steps : list of (name, arguments, options)
        The steps in order of evaluation. Arguments are numbers of earlier steps. 'load' reads a column of the input,
        and 'constant' one of `constants`. 'arrow' has a Program that computes its arguments, and a function from their
        PyBatch to a batch of one column.
    types : pyarrow.Schema
        The result type of each step.
    outputs : list of int
        For each expression the number of the step that computes it.
    constants : pyarrow.RecordBatch or None
        One row with the constants.

    Raises
    ------
    PlanError
        If there are too many steps, or no kernel for a step.
    """

    def __init__(self, input_schema, output_schema, list steps, types, list outputs, constants=None):
        cdef Schema step_types = Schema(types)
        cdef int32_t i
        if len(steps) > STEPS_MAX:
            raise PlanError(
                f"the expressions have {len(steps)} steps, but a node supports at most {STEPS_MAX}; use several nodes"
            )
        self.blocks = []
        self.arrow_calls = []
        self.input_schema = <CSchema*> owner_ref(<Owner*> (<Schema> Schema(input_schema)).schema)
        self.output_schema = <CSchema*> owner_ref(<Owner*> (<Schema> Schema(output_schema)).schema)
        self.n_steps = <int32_t> len(steps)
        self.steps = <Step*> self.allocate(self.n_steps * sizeof(Step))
        self.types = <DataType*> self.allocate(self.n_steps * sizeof(DataType))
        self.registers = <Register*> self.allocate(self.n_steps * sizeof(Register))
        self.constant_columns = <Column**> self.allocate(self.n_steps * sizeof(Column*))
        self.text_columns = <int32_t*> self.allocate(self.n_steps * sizeof(int32_t))
        for i in range(self.n_steps):
            self.types[i] = step_types.schema.fields[i].type
        for i in range(self.n_steps):
            name, args, options = steps[i]
            self.bind_step(i, name, args, options)
        self.load_constants(steps, constants)
        self.bind_outputs(outputs)

    def __dealloc__(self):
        cdef int32_t i
        if self.steps != NULL:
            for i in range(self.n_steps):
                struct_free(self.steps[i].data)
        owner_unref(<Owner*> self.input_schema)
        owner_unref(<Owner*> self.output_schema)
        buffer_unref(self.constants)
        owner_unref(self.constants_heap)

    cdef void* allocate(self, int64_t size) except NULL:
        """Zeroed memory that is freed with the program."""
        block = bytearray(max(size, 1))
        self.blocks.append(block)
        return <void*> PyByteArray_AsString(block)

    cdef int bind_step(self, int32_t i, str name, tuple args, dict options) except -1:
        cdef Step* step = &self.steps[i]
        cdef int32_t k
        label = options.get("label", name).encode()
        self.blocks.append(label)
        step.id = i
        step.name = label
        step.type = self.types[i]
        step.bound = bound_of_type(&step.type)
        step.n_args = <int32_t> len(args)
        step.args = <int32_t*> self.allocate(step.n_args * sizeof(int32_t))
        step.arg_types = <DataType*> self.allocate(step.n_args * sizeof(DataType))
        for k in range(step.n_args):
            step.args[k] = args[k]
            qc_check(0 <= step.args[k] < i, b"a step's arguments are earlier steps")
            step.arg_types[k] = self.types[step.args[k]]
        if name == "load":
            step.p0 = options["column"]
            step.kernel = load_kernel if step.type.phys != PHYS_NESTED else nested_kernel
            if step.type.phys == PHYS_VIEW:
                self.text_columns[self.n_text_columns] = <int32_t> step.p0
                self.n_text_columns += 1
        elif name == "constant":
            step.kernel = constant_kernel
        elif name == "arrow":
            step.p0 = len(self.arrow_calls)
            self.arrow_calls.append((options["arguments"], options["function"]))
            step.kernel = arrow_kernel
        elif not (
            arithmetic_bind(step, name, options) or comparison_bind(step, name, options)
            or logic_bind(step, name, options) or conditional_bind(step, name, options)
            or cast_bind(step, name, options) or temporal_bind(step, name, options) or text_bind(step, name, options)
            or numeric_bind(step, name, options)
        ):
            if name == "cast":
                raise PlanError(f"cannot cast {type_name(step.arg_types)} to {type_name(&step.type)}")
            shown = ", ".join([type_name(&step.arg_types[k]) for k in range(step.n_args)])
            raise PlanError(f"there is no kernel for {name}({shown})")
        return 0

    cdef int load_constants(self, list steps, object constants) except -1:
        """Fill a register with each constant. All evaluators share these registers."""
        cdef int64_t stride = (sizeof(VectorScratch) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
        cdef uint32_t[VECTOR_ROWS] zeros
        cdef VectorScratch* scratch
        cdef Register* register
        cdef Column* column
        cdef OwnerList* heaps
        cdef Vector vector
        cdef int32_t i
        cdef int64_t k = 0
        positions = [(i, options["constant"]) for i, (name, _, options) in enumerate(steps) if name == "constant"]
        if not positions:
            return 0
        memset(zeros, 0, sizeof(zeros))
        self.constants_batch = PyBatch.from_arrow(constants, trusted=True)
        self.constants = buffer_new((<Account> Account()).account, len(positions) * stride)
        heaps = owner_list_new()
        self.constants_heap = <Owner*> heaps
        for i, position in positions:
            column = self.constants_batch.batch.columns[<int64_t> position]
            scratch = <VectorScratch*> (self.constants.data + k * stride)
            k += 1
            column_load_narrow(column, 0, zeros, VECTOR_ROWS, scratch, &vector)
            register = &self.registers[i]
            register.phys = vector.phys
            register.values = vector.values
            register.validity = vector.validity
            register.is_constant = True
            register.is_measured = True
            register.bound = ~(<uint64_t> 0)
            if vector.phys == PHYS_I64:
                register.bound = simd_kernels().magnitude(<const int64_t*> vector.values, 1)
            self.constant_columns[i] = column
            if vector.phys == PHYS_VIEW:
                owner_list_add(heaps, column_heap(column))
        return 0

    cdef int bind_outputs(self, list outputs) except -1:
        cdef Output* output
        cdef Step* step
        cdef int32_t i, j
        self.n_outputs = <int32_t> len(outputs)
        self.outputs = <Output*> self.allocate(self.n_outputs * sizeof(Output))
        together = set()
        for i in range(self.n_outputs):
            output = &self.outputs[i]
            output.register = outputs[i]
            step = &self.steps[output.register]
            output.column = <int32_t> step.p0 if step.kernel in (load_kernel, nested_kernel) else -1
            output.is_nested = step.type.phys == PHYS_NESTED and output.column < 0
            output.makes_text = step.type.phys == PHYS_VIEW
            if output.is_nested:
                if step.kernel != arrow_kernel:
                    raise PlanError(f"{step.name.decode()} has no kernel that makes {type_name(&step.type)} values")
                self.makes_nested = True
            needed = set()
            waiting = [output.register]
            while waiting:
                j = waiting.pop()
                if j in needed or self.steps[j].kernel == constant_kernel:
                    continue
                needed.add(j)
                waiting.extend([self.steps[j].args[k] for k in range(self.steps[j].n_args)])
            output.n_needed = <int32_t> len(needed)
            output.needed = <int32_t*> self.allocate(len(needed) * sizeof(int32_t))
            for k, j in enumerate(sorted(needed)):
                output.needed[<int32_t> k] = j
            if output.column < 0 and not output.is_nested:
                together |= needed
        self.n_needed = <int32_t> len(together)
        self.needed = <int32_t*> self.allocate(len(together) * sizeof(int32_t))
        for k, j in enumerate(sorted(together)):
            self.needed[<int32_t> k] = j
        return 0

    @property
    def schema(self):
        """The schema of the results, as data.schema.Schema."""
        return Schema.wrap(self.output_schema)

    @property
    def description(self):
        """The steps as text, one line each."""
        cdef int32_t i, k
        lines = []
        for i in range(self.n_steps):
            args = ", ".join([f"r{self.steps[i].args[k]}" for k in range(self.steps[i].n_args)])
            lines.append(f"r{i} = {self.steps[i].name.decode()}({args}) {type_name(&self.types[i])}")
        return "\n".join(lines)
