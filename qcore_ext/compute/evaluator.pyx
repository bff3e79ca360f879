"""The evaluator: runs a program over the batches of one operator, for projections, selections and vectors."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.arrow_call cimport arrow_call_drop, arrow_column, arrow_kernel, arrow_raise
from qcore_ext.compute.kernel cimport (
    ERROR_DIVISION_BY_ZERO, ERROR_KIND_BITS, ERROR_NOT_CONVERTIBLE, ERROR_OVERFLOW, ArrowCall, EvaluatorFrame, Register,
    Step, frame_prepare, text_at,
)
from qcore_ext.compute.output_column cimport (
    OutputColumn, output_begin, output_drop, output_finish, output_lend, output_return, output_write,
)
from qcore_ext.compute.program cimport Output, Program, constant_kernel, load_kernel
from qcore_ext.data.batch cimport Batch, batch_new, batch_select, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport (
    CONSTANT, STORE_CANONICAL, STORE_DECIMAL64, VECTOR_BITMAP_BYTES, VECTOR_ROWS, Column, Vector, VectorScratch,
    column_constant_null, column_heap, column_new, column_ref, column_take,
)
from qcore_ext.data.schema cimport PHYS_NONE, PHYS_VIEW, TYPE_DECIMAL, DataType, phys_width, type_name
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.check cimport qc_check, qc_check_selection
from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, Owner, OwnerList, account_check, buffer_new, buffer_unref, owner_list_add,
    owner_list_new, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.stats cimport OperatorStats, wall_nanos

from qcore_ext.ground.status import ExecutionError

cdef enum:
    # If fewer than one row in SPARSE_FACTOR is selected, only the selected rows are gathered and evaluated. Otherwise
    # all rows are evaluated. Gathering costs about four times as much a row; the break-even is at 5 to 20 %.
    SPARSE_FACTOR = 6
    ALIGNMENT = 64


cdef int64_t align_size(int64_t size) noexcept nogil:
    return (size + ALIGNMENT - 1) & ~(<int64_t> ALIGNMENT - 1)


cdef int64_t values_bytes(const DataType* type) noexcept nogil:
    """The bytes of a register's values. Kernels of decimals may write 128-bit values for any number of digits."""
    return align_size(VECTOR_ROWS * (16 if type.id == TYPE_DECIMAL else max(phys_width(type.phys), 1)))


@cython.no_gc      # part of no reference cycle, and close() needs the program
cdef class Evaluator:
    """Runs a program over the batches of one operator.

    Parameters
    ----------
    program : Program
    account : Account
        The account that is charged for the registers and for results of project and select.
    """

    def __init__(self, Program program, Account account):
        cdef int64_t size = 0
        cdef int64_t i
        cdef int64_t n = program.n_steps
        cdef char* next_bytes
        cdef Register* register
        cdef int64_t n_calls = len(program.arrow_calls)
        self.program = program
        self.n_calls = n_calls
        self.argument_evaluators = [Evaluator(arguments, account) for arguments, _ in program.arrow_calls]
        self.account = <MemoryAccount*> owner_ref(<Owner*> account.account)
        for i in range(n):
            size += self.register_bytes(i)
        size += align_size(n * sizeof(Register)) + align_size(n * 4)
        size += align_size(max(program.n_outputs, 1) * sizeof(Conjunct))
        size += align_size(max(program.n_outputs, 1) * 4) + 5 * (VECTOR_ROWS + ALIGNMENT) + 2 * VECTOR_ROWS * 16
        size += align_size((VECTOR_ROWS + 16) * 4)
        size += align_size(n_calls * sizeof(ArrowCall)) + n_calls * align_size(sizeof(VectorScratch))
        self.block = buffer_new(self.account, size)
        next_bytes = self.block.data
        memset(next_bytes, 0, size)
        self.frame.registers = <Register*> next_bytes
        next_bytes += align_size(n * sizeof(Register))
        self.done = <uint32_t*> next_bytes
        next_bytes += align_size(n * 4)
        self.conjuncts = <Conjunct*> next_bytes
        next_bytes += align_size(max(program.n_outputs, 1) * sizeof(Conjunct))
        self.order = <int32_t*> next_bytes
        next_bytes += align_size(max(program.n_outputs, 1) * 4)
        for i in range(4):
            self.frame.masks[i] = <uint8_t*> next_bytes
            next_bytes += VECTOR_ROWS + ALIGNMENT
        self.mask = <uint8_t*> next_bytes
        next_bytes += VECTOR_ROWS + ALIGNMENT
        self.frame.wide_a = next_bytes
        self.frame.wide_b = next_bytes + VECTOR_ROWS * 16
        next_bytes += 2 * VECTOR_ROWS * 16
        self.rows = <uint32_t*> next_bytes
        next_bytes += align_size((VECTOR_ROWS + 16) * 4)
        self.frame.account = self.account
        self.frame.calls = <ArrowCall*> next_bytes
        next_bytes += align_size(n_calls * sizeof(ArrowCall))
        for i in range(n_calls):
            self.frame.calls[i].arguments = <PyObject*> self.argument_evaluators[i]
            self.frame.calls[i].function = <PyObject*> program.arrow_calls[i][1]
            self.frame.calls[i].scratch = <VectorScratch*> next_bytes
            next_bytes += align_size(sizeof(VectorScratch))
        for i in range(program.n_outputs):
            self.order[i] = <int32_t> i
        for i in range(n):
            register = &self.frame.registers[i]
            register[0] = program.registers[i]
            if self.register_bytes(i) > 0:
                register.own_values = next_bytes
                register.own_validity = <uint8_t*> next_bytes + self.register_bytes(i) - VECTOR_BITMAP_BYTES
                next_bytes += self.register_bytes(i)

    cdef int64_t register_bytes(self, int64_t i) noexcept nogil:
        cdef Step* step = &self.program.steps[i]
        if step.kernel == constant_kernel:
            return 0
        if step.kernel == load_kernel:
            return align_size(sizeof(VectorScratch)) + VECTOR_BITMAP_BYTES
        return values_bytes(&step.type) + VECTOR_BITMAP_BYTES

    def __dealloc__(self):
        self.close()
        owner_unref(<Owner*> self.account)

    cdef void close(self) noexcept nogil:
        cdef int64_t i
        if self.block == NULL:
            return
        self.drop_arena()
        self.drop_calls()
        for i in range(self.n_calls):
            (<Evaluator> self.frame.calls[i].arguments).close()
        for i in range(self.program.n_steps):
            buffer_unref(self.frame.registers[i].own_errors)
        buffer_unref(self.block)
        self.block = NULL

    cdef void drop_arena(self) noexcept nogil:
        owner_unref(<Owner*> self.frame.arena)
        self.frame.arena = NULL
        owner_unref(<Owner*> self.frame.heaps)
        self.frame.heaps = NULL

    cdef void drop_calls(self) noexcept nogil:
        """Drop the results of arrow calls for the current batch."""
        cdef int64_t i
        for i in range(self.n_calls):
            arrow_call_drop(&self.frame.calls[i])

    cdef void count_in(self, OperatorStats* stats) noexcept nogil:
        """Count arrow calls in `stats`. Without this call they are not counted."""
        self.frame.stats = stats

    # --- running steps ---

    cdef void aim(self, Batch* batch, int64_t start, const uint32_t* rows, int64_t n) noexcept nogil:
        """Set the rows of the next run: rows[0..n), or start..start+n if rows is NULL."""
        qc_check((n >= 0) & (n <= VECTOR_ROWS), b"at most a vector of rows is evaluated at a time")
        if rows != NULL:
            qc_check_selection(rows, n, batch.n_rows, b"the rows of a vector ascend and are rows of the batch")
        else:
            qc_check((start >= 0) & (start + n <= batch.n_rows), b"the rows of a vector are rows of the batch")
            qc_check(start % 8 == 0, b"the rows of a vector start at a byte of the bitmap")
        self.frame.batch = batch
        self.frame.start = start
        self.frame.rows = rows
        self.frame.n = n
        self.generation += 1
        if self.generation == 0:        # the counter has wrapped around, so old numbers could match
            memset(self.done, 0, self.program.n_steps * sizeof(uint32_t))
            self.generation = 1

    cdef int run(self, const int32_t* steps, int64_t n_steps) except -1 nogil:
        cdef Step* all_steps = self.program.steps
        cdef EvaluatorFrame* frame = &self.frame
        cdef uint32_t* done = self.done
        cdef uint32_t generation = self.generation
        cdef const Step* step
        cdef int64_t i
        for i in range(n_steps):
            step = &all_steps[steps[i]]
            if done[step.id] != generation:
                frame_prepare(frame, step)
                step.kernel(step, frame)
                done[step.id] = generation
        return 0

    cdef int check(self, const Register* register) except -1 nogil:
        """Raise an error if a row of the vector failed. All rows of the vector are used."""
        cdef int64_t i
        if register.errors == NULL:
            return 0
        for i in range(self.frame.n):
            if register.errors[i] != 0 and is_valid(register.validity, i):
                self.raise_row(register.errors[i], i)
        return 0

    cdef int check_selected(self, const Register* register, Batch* batch) except -1 nogil:
        """Like check, for a vector of consecutive rows of which only the batch's selected rows are used."""
        cdef int64_t i
        cdef int64_t low = 0
        cdef int64_t high = batch.n_selected
        cdef int64_t row
        if register.errors == NULL:
            return 0
        if batch.selection == NULL:
            return self.check(register)
        while low < high:               # first selected row of this vector
            i = (low + high) >> 1
            if batch.selection[i] < self.frame.start:
                low = i + 1
            else:
                high = i
        for i in range(low, batch.n_selected):
            row = batch.selection[i] - self.frame.start
            if row >= self.frame.n:
                break
            if register.errors[row] != 0 and is_valid(register.validity, row):
                self.raise_row(register.errors[row], row)
        return 0

    cdef int raise_row(self, uint32_t error, int64_t row) except -1 nogil:
        cdef const Step* step = &self.program.steps[(error >> ERROR_KIND_BITS) - 1]
        cdef int kind = error & ((1 << ERROR_KIND_BITS) - 1)
        cdef Register* registers = self.frame.registers
        cdef int32_t k
        if step.kernel == arrow_kernel:
            arrow_raise(step, &self.frame, row)
        with gil:
            name = step.name.decode()
            wanted = type_name(&step.type)
            values = [text_at(&registers[step.args[k]], &step.arg_types[k], row) for k in range(step.n_args)]
            shown = ", ".join(values)
            if kind == ERROR_OVERFLOW:
                raise ExecutionError(f"{name}({shown}) overflows {wanted}; cast an argument to a wider type first")
            if kind == ERROR_DIVISION_BY_ZERO:
                raise ExecutionError(
                    f"division by zero: {name}({shown}); divide by nullif(divisor, 0) to get null instead"
                )
            if kind == ERROR_NOT_CONVERTIBLE:
                given = type_name(&step.arg_types[0])
                raise ExecutionError(
                    f"cannot cast {values[0]} of type {given} to {wanted}; try_cast returns null instead"
                )
            raise ExecutionError(f"{name} is not defined for {shown}")

    # --- project ---

    cdef Owner* heap(self, Batch* batch) except NULL nogil:
        """An owner of all bytes to which string registers of this batch may point. The caller owns the reference."""
        cdef OwnerList* owners = owner_list_new()
        cdef int64_t i
        cdef bint done = False
        try:
            for i in range(self.program.n_text_columns):
                owner_list_add(owners, column_heap(batch.columns[self.program.text_columns[i]]))
            owner_list_add(owners, self.program.constants_heap)
            owner_list_add(owners, <Owner*> self.frame.arena)
            owner_list_add(owners, <Owner*> self.frame.heaps)
            done = True
        finally:
            if not done:
                owner_unref(<Owner*> owners)
        return <Owner*> owners

    cdef Column* constant_column(self, int32_t output, int64_t n) except NULL nogil:
        cdef int32_t step = self.program.outputs[output].register
        cdef const Register* register = &self.program.registers[step]
        cdef const DataType* type = &self.program.types[step]
        cdef Column* column
        if register.phys == PHYS_NONE or not is_valid(register.validity, 0):
            return column_constant_null(type, n)
        column = column_new(type, n)
        column.encoding = CONSTANT
        column.storage = STORE_DECIMAL64 if register.phys != type.phys else STORE_CANONICAL
        column.values = register.values
        column.values_owner = owner_ref(<Owner*> self.program.constants)
        if register.phys == PHYS_VIEW:
            column.heap_owner = owner_ref(self.program.constants_heap)
        return column

    cdef int pass_columns(self, Batch* batch, const uint32_t* rows, int64_t n, Batch* out) except -1 nogil:
        """Set the columns that no register computes: plain references, constants, and nested results of arrow calls."""
        cdef Output* output
        cdef int32_t i
        for i in range(self.program.n_outputs):
            output = &self.program.outputs[i]
            if output.column >= 0 and rows == NULL:
                out.columns[i] = column_ref(batch.columns[output.column])
            elif output.column >= 0:
                out.columns[i] = column_take(
                    batch.columns[output.column], rows, n, batch.selection_owner, self.account
                )
            elif output.is_nested:
                out.columns[i] = arrow_column(&self.program.steps[output.register], &self.frame, batch, rows, n)
            elif output.n_needed == 0:
                out.columns[i] = self.constant_column(i, n)
        return 0

    cdef int fill(self, Batch* batch, const uint32_t* rows, int64_t n, void* writers) except -1 nogil:
        """Evaluate all rows and write the computed columns. `writers` has an OutputColumn for each output; the caller
        drops them.
        """
        cdef OutputColumn* columns = <OutputColumn*> writers
        cdef Register* registers = self.frame.registers
        cdef Output* outputs = self.program.outputs
        cdef Register* register
        cdef int64_t start = 0
        cdef int64_t step
        cdef int64_t i
        cdef int64_t n_outputs = self.program.n_outputs
        try:
            while start < n:
                account_check(self.account)
                step = min(n - start, <int64_t> VECTOR_ROWS)
                self.aim(batch, start if rows == NULL else 0, rows + start if rows != NULL else NULL, step)
                for i in range(n_outputs):
                    if columns[i].values != NULL:
                        output_lend(&columns[i], &registers[outputs[i].register], start)
                self.run(self.program.needed, self.program.n_needed)
                for i in range(n_outputs):
                    if columns[i].values != NULL:
                        register = &registers[outputs[i].register]
                        if rows == NULL:
                            self.check_selected(register, batch)
                        else:
                            self.check(register)
                        output_write(&columns[i], register, start, step)
                start += step
        finally:
            for i in range(n_outputs - 1, -1, -1):
                output_return(&columns[i], &registers[outputs[i].register])
        return 0

    cdef int compute(self, Batch* batch, const uint32_t* rows, int64_t n, Batch* out) except -1 nogil:
        """Compute the columns of `out` that are not set."""
        cdef int64_t n_outputs = self.program.n_outputs
        cdef OutputColumn* columns = <OutputColumn*> struct_new(n_outputs * sizeof(OutputColumn))
        cdef Output* output
        cdef Owner* heap = NULL
        cdef int64_t i
        try:
            for i in range(n_outputs):
                if out.columns[i] == NULL:
                    output_begin(&columns[i], &self.program.types[self.program.outputs[i].register], n, self.account)
            self.fill(batch, rows, n, columns)
            for i in range(n_outputs):
                if columns[i].values != NULL:
                    output = &self.program.outputs[i]
                    if output.makes_text and heap == NULL:
                        heap = self.heap(batch)
                    out.columns[i] = output_finish(&columns[i], heap if output.makes_text else NULL)
        finally:
            owner_unref(heap)
            for i in range(n_outputs):
                output_drop(&columns[i])
            struct_free(columns)
        return 0

    cdef int project(self, Batch* batch, Batch** out) except -1 nogil:
        cdef const uint32_t* rows = NULL
        cdef int64_t n = batch.n_rows
        cdef Batch* result
        cdef bint done = False
        cdef bint few = self.program.n_needed > 0 and batch.n_selected * SPARSE_FACTOR < batch.n_rows
        if batch.selection != NULL and (few or self.program.makes_nested or self.n_calls > 0):
            rows = batch.selection
            n = batch.n_selected
        result = batch_new(self.program.output_schema, n)
        try:
            self.pass_columns(batch, rows, n, result)
            if self.program.n_needed > 0:
                self.compute(batch, rows, n, result)
            if rows == NULL and batch.selection != NULL:
                batch_select(result, batch.selection, batch.n_selected, batch.selection_owner)
            done = True
        finally:
            self.drop_arena()
            self.drop_calls()
            if not done:
                batch_unref(result)
        out[0] = result
        return 0

    # --- load ---

    cdef int load(self, Batch* batch, int64_t start, int64_t n, Vector* outs) except -1 nogil:
        cdef const uint32_t* rows = NULL
        if batch.selection != NULL:
            rows = batch.selection + start
            start = 0
            if n > 0 and rows[n - 1] - rows[0] == <uint32_t> (n - 1) and (rows[0] & 7) == 0:
                start = rows[0]         # consecutive rows need no gather
                rows = NULL
        self.aim(batch, start, rows, n)
        return self.load_outputs(outs, NULL)

    cdef int load_all(self, Batch* batch, int64_t first, int64_t n, Vector* outs) except -1 nogil:
        self.aim(batch, first, NULL, n)
        return self.load_outputs(outs, batch)

    cdef int load_outputs(self, Vector* outs, Batch* selected_of) except -1 nogil:
        """Compute all outputs. If `selected_of` is not NULL, only rows that it selects are used."""
        cdef Register* register
        cdef int32_t i
        if self.frame.arena != NULL or self.frame.heaps != NULL:
            self.drop_arena()
        for i in range(self.program.n_outputs):
            self.run(self.program.outputs[i].needed, self.program.outputs[i].n_needed)
            register = &self.frame.registers[self.program.outputs[i].register]
            if register.errors != NULL and selected_of != NULL:
                self.check_selected(register, selected_of)
            elif register.errors != NULL:
                self.check(register)
            outs[i].phys = register.phys
            outs[i].values = register.values
            outs[i].validity = register.validity
        return 0

    # --- select ---

    cdef void reorder(self) noexcept nogil:
        """Sort the conjuncts by their cost for each row that they remove, and halve their measurements."""
        cdef int64_t i, j, moved
        cdef Conjunct* conjunct
        cdef double[64] ranks
        cdef int64_t n = self.program.n_outputs
        if n < 2 or n > 64:
            return
        for i in range(n):
            conjunct = &self.conjuncts[i]
            ranks[i] = 1e300            # not measured yet: last
            if conjunct.rows_in > 0:
                ranks[i] = conjunct.nanos / max(conjunct.rows_in - conjunct.rows_out, conjunct.rows_in * 1e-3)
            conjunct.nanos *= 0.5
            conjunct.rows_in *= 0.5
            conjunct.rows_out *= 0.5
        for i in range(1, n):
            moved = self.order[i]
            j = i
            while j > 0 and ranks[self.order[j - 1]] > ranks[moved]:
                self.order[j] = self.order[j - 1]
                j -= 1
            self.order[j] = <int32_t> moved

    cdef int64_t select_failing(
        self, Batch* batch, int64_t start, const uint32_t* rows, int64_t n, uint32_t* out,
    ) except -1 nogil:
        """Select the rows of a vector with failed rows. Raise an error for one that no other conjunct excludes."""
        cdef Register* register
        cdef uint8_t* mask = self.mask
        cdef int64_t i, k
        self.aim(batch, start, rows, n)
        memset(mask, 1, n)
        for k in range(self.program.n_outputs):
            self.run(self.program.outputs[k].needed, self.program.outputs[k].n_needed)
            register = &self.frame.registers[self.program.outputs[k].register]
            for i in range(n):
                if register.errors == NULL or register.errors[i] == 0:
                    mask[i] = mask[i] & (<const uint8_t*> register.values)[i] & is_valid(register.validity, i)
        for k in range(self.program.n_outputs):
            register = &self.frame.registers[self.program.outputs[k].register]
            if register.errors != NULL:
                for i in range(n):
                    if mask[i] and register.errors[i] != 0:
                        self.raise_row(register.errors[i], i)
        if rows == NULL:
            return simd_kernels().mask_rows(mask, n, <uint32_t> start, out)
        return simd_kernels().mask_filter(mask, rows, n, out)

    cdef int64_t select_vector(
        self, Batch* batch, int64_t start, const uint32_t* rows, int64_t n, uint32_t* out,
    ) except -1 nogil:
        """Write the rows of the vector for which all conjuncts are true to `out`. Returns their number."""
        cdef const Register* register
        cdef const uint8_t* holds = NULL    # for each evaluated row whether it is left; NULL: all rows are left
        cdef const uint32_t* at_rows = rows
        cdef Conjunct* conjunct
        cdef Output* output
        cdef int64_t m = n                  # number of rows to evaluate
        cdef int64_t count = n              # number of these rows that are left
        cdef int64_t n_conjuncts = self.program.n_outputs
        cdef int64_t k, i, ended
        cdef int64_t began = wall_nanos() if n_conjuncts > 1 else 0
        self.aim(batch, start, rows, n)
        for k in range(n_conjuncts):
            if holds != NULL and count * SPARSE_FACTOR < m:
                if at_rows == NULL:
                    simd_kernels().mask_rows(holds, m, <uint32_t> start, self.rows)
                else:
                    simd_kernels().mask_filter(holds, at_rows, m, self.rows)
                at_rows = self.rows
                m = count
                holds = NULL
                self.aim(batch, start, at_rows, m)
            conjunct = &self.conjuncts[self.order[k]]
            output = &self.program.outputs[self.order[k]]
            self.run(output.needed, output.n_needed)
            register = &self.frame.registers[output.register]
            if register.errors != NULL and self.leaves_failing:
                for i in range(n):
                    out[i] = rows[i] if rows != NULL else <uint32_t> (start + i)
                return n
            if register.errors != NULL:
                return self.select_failing(batch, start, rows, n, out)
            conjunct.rows_in += count
            if register.validity != NULL:
                simd_kernels().bits_to_mask(register.validity, m, self.frame.masks[0])
                simd_kernels().mask_and(self.frame.masks[0], <const uint8_t*> register.values, self.frame.masks[0], m)
                if holds == NULL:
                    memcpy(self.mask, self.frame.masks[0], m)
                else:
                    simd_kernels().mask_and(holds, self.frame.masks[0], self.mask, m)
                holds = self.mask
            elif holds == NULL:
                holds = <const uint8_t*> register.values
            else:
                simd_kernels().mask_and(holds, <const uint8_t*> register.values, self.mask, m)
                holds = self.mask
            if n_conjuncts == 1:
                break
            count = simd_kernels().mask_count(holds, m)
            conjunct.rows_out += count
            ended = wall_nanos()
            conjunct.nanos += <double> (ended - began)
            began = ended
            if count == 0:
                return 0
        if holds == NULL:
            memcpy(out, at_rows, m * sizeof(uint32_t))
            return m
        if at_rows == NULL:
            return simd_kernels().mask_rows(holds, m, <uint32_t> start, out)
        return simd_kernels().mask_filter(holds, at_rows, m, out)

    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil:
        cdef int64_t n = batch.n_selected
        cdef int64_t start = 0
        cdef int64_t found = 0
        cdef int64_t step
        cdef Buffer* rows
        cdef uint32_t* out
        cdef bint done = False
        selection[0] = NULL
        if self.program.n_outputs == 0 or n == 0:
            return n
        rows = buffer_new(self.account, (n + 16) * sizeof(uint32_t))
        try:
            out = <uint32_t*> rows.data
            while start < n:
                account_check(self.account)
                step = min(n - start, <int64_t> VECTOR_ROWS)
                if batch.selection == NULL:
                    found += self.select_vector(batch, start, NULL, step, out + found)
                else:
                    found += self.select_vector(batch, 0, batch.selection + start, step, out + found)
                start += step
            qc_check_selection(out, found, batch.n_rows, b"the selected rows ascend and are rows of the batch")
            done = True
        finally:
            self.drop_arena()
            self.drop_calls()
            if not done or found == 0 or found == n:
                buffer_unref(rows)
                rows = NULL
        self.reorder()
        selection[0] = rows
        return found

    # --- from Python ---

    def project_batch(self, source):
        """Return the results for a record batch (an object with __arrow_c_array__), as data.capsule.PyBatch."""
        cdef PyBatch batch = source if isinstance(source, PyBatch) else PyBatch.from_arrow(source)
        cdef Batch* out = NULL
        with nogil:
            self.project(batch.batch, &out)
        try:
            return PyBatch.wrap(out)
        finally:
            batch_unref(out)

    def select_batch(self, source):
        """Return the rows of a record batch for which the predicate is true, as data.capsule.PyBatch."""
        cdef PyBatch batch = source if isinstance(source, PyBatch) else PyBatch.from_arrow(source)
        cdef Buffer* selection = NULL
        cdef Batch* out = NULL
        cdef int64_t found
        cdef int32_t i
        with nogil:
            found = self.select(batch.batch, &selection)
        try:
            out = batch_new(batch.batch.schema, batch.batch.n_rows)
            for i in range(out.n_columns):
                out.columns[i] = column_ref(batch.batch.columns[i])
            if selection != NULL:
                batch_select(out, <const uint32_t*> selection.data, found, <Owner*> selection)
            elif found < batch.batch.n_selected:
                batch_select(out, self.rows, 0, NULL)
            else:
                batch_select(out, batch.batch.selection, found, batch.batch.selection_owner)
            return PyBatch.wrap(out)
        finally:
            batch_unref(out)
            buffer_unref(selection)

    def load_batch(self, source):
        """Evaluate a record batch vector by vector without keeping results. Returns the number of rows. For benchmarks.
        """
        cdef PyBatch batch = source if isinstance(source, PyBatch) else PyBatch.from_arrow(source)
        cdef Vector* outs = <Vector*> struct_new(max(self.program.n_outputs, 1) * sizeof(Vector))
        cdef int64_t start = 0
        cdef int64_t n = batch.batch.n_selected
        try:
            with nogil:
                while start < n:
                    self.load(batch.batch, start, min(n - start, <int64_t> VECTOR_ROWS), outs)
                    start += VECTOR_ROWS
        finally:
            struct_free(outs)
        return n
