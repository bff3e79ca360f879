"""Steps that a Python function computes over Arrow arrays, for the functions that have no kernel."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from qcore_ext.compute.kernel cimport (
    ERROR_ARGUMENT, ArrowCall, EvaluatorFrame, Register, Step, frame_fail, frame_validity, result,
)
from qcore_ext.data.batch cimport Batch, batch_new, batch_ref, batch_take, batch_unref
from qcore_ext.data.capsule cimport PyBatch, batch_of_arrow
from qcore_ext.data.column cimport (
    CONSTANT, DICTIONARY, Column, Vector, column_heap, column_ref, column_take, column_unref,
)
from qcore_ext.data.load cimport column_load, column_load_narrow
from qcore_ext.data.row_bytes cimport rows_part, rows_that_fit
from qcore_ext.data.schema cimport PHYS_NESTED, phys_width, type_equal, type_name
from qcore_ext.ground.bitmap cimport bit_clear, is_valid
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, Owner, account_check, account_new, account_release, account_reserve, buffer_new,
    buffer_new_zeroed, buffer_unref, owner_list_add, owner_list_new, owner_unref,
)
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.thread_token cimport turn_check

from qcore_ext.compute.long_arrays import concatenate
from qcore_ext.ground.status import ExecutionError, MemoryLimitError

cdef extern from *:
    """
    static __thread void *qc_call_account;
    """
    void* qc_call_account       # account of the innermost arrow call on this thread, or NULL

cdef enum:
    # The bytes of arguments of the first piece; a slow regular expression takes 20 ms for them, at 6 MB/s. Later pieces
    # have as many rows as take about PIECE_NANOS by the time of the last piece, and at most ARGUMENT_BYTES.
    FIRST_BYTES = 131072
    ARGUMENT_BYTES = 4194304
    PIECE_NANOS = 20000000
    GROWTH_MAX = 4
    # The bytes of lists that one call should return, and the number of rows from which their length is estimated.
    RESULT_BYTES = 4194304
    FIRST_ROWS = 16


cdef void arrow_call_drop(ArrowCall* call) noexcept nogil:
    batch_unref(call.batch)
    column_unref(call.column)
    call.batch = NULL
    call.column = NULL


cdef int keep_bytes(EvaluatorFrame* frame, const Column* column) except -1 nogil:
    """Keep the bytes of the column's strings until the frame drops its heaps."""
    if frame.heaps == NULL:
        frame.heaps = owner_list_new()
    return owner_list_add(frame.heaps, column_heap(column))


cdef int check_reservation(MemoryAccount* account, int64_t n_bytes) except -1 nogil:
    """Raise MemoryLimitError if n_bytes more are above the limit. Python's memory itself is not charged to an account.
    """
    account_reserve(account, n_bytes)
    account_release(account, n_bytes)
    return 0


cdef object arrow_rows(PyBatch arguments, int64_t first, int64_t n, MemoryAccount* account):
    """Rows of a function's arguments as a pyarrow.RecordBatch. Memory is reserved while they are converted."""
    import pyarrow

    cdef Batch* part
    if n == arguments.batch.n_selected:
        return pyarrow.record_batch(PyBatch.wrap_for(arguments.batch, account))
    part = rows_part(arguments.batch, first, n, account)
    try:
        return pyarrow.record_batch(PyBatch.wrap_for(part, account))
    finally:
        batch_unref(part)


cdef int64_t rows_at_first(object function, object batch, bint returns_lists) except -1:
    cdef int64_t n = batch.num_rows
    cdef int64_t rows = n
    if not getattr(function, "looks", False):
        rows = n * FIRST_BYTES // max(<int64_t> batch.nbytes, <int64_t> 1)
    if returns_lists:
        rows = min(rows, <int64_t> FIRST_ROWS)
    return max(rows, <int64_t> 1)


cdef object call_in_pieces(object function, PyBatch arguments, MemoryAccount* account, bint returns_lists):
    """Call the function for all rows of the arguments, and return its results as a record batch.

    Long arguments are converted and passed in pieces, because a call cannot be stopped unless the function calls
    look(). A function that returns lists also gets its arguments in pieces, because lists may be longer than arguments.
    The size of a piece depends on the size of the lists so far.
    """
    import pyarrow

    cdef bint looks = getattr(function, "looks", False)
    cdef int64_t n = arguments.batch.n_selected
    cdef int64_t held = 0
    cdef int64_t at = 0
    cdef int64_t end = 0
    cdef int64_t rows = 0
    cdef int64_t began, took, fit
    batch = None
    pieces = []
    try:
        while at < n or not pieces:
            account_check(account)
            if at >= end:
                batch = None        # freed before the next one is made
                fit = rows_that_fit(arguments.batch, at, ARGUMENT_BYTES)
                batch = arrow_rows(arguments, at, fit, account)
                end = at + fit
                rows = rows or rows_at_first(function, batch, returns_lists)
            fit = min(end - at, n if looks and not returns_lists else rows)
            began = wall_nanos()
            piece = function(batch.slice(batch.num_rows - (end - at), fit))
            took = max(wall_nanos() - began, <int64_t> 1)
            if fit == n:
                return piece
            piece = pyarrow.record_batch(piece)
            pieces.append(piece)
            account_reserve(account, piece.nbytes)
            held += <int64_t> piece.nbytes
            rows = n if looks else min(max(fit * PIECE_NANOS // took, <int64_t> 1), rows * GROWTH_MAX)
            at += fit
            if returns_lists:
                rows = min(rows, max(1, at * RESULT_BYTES // max(held, <int64_t> 1)))
        # The pieces and the concatenation are in memory at the same time.
        check_reservation(account, held)
        return join_pieces(pieces)
    finally:
        account_release(account, held)


cdef bint has_one_value(const Batch* batch) noexcept nogil:
    """Whether the arguments are the same in all rows."""
    cdef const Column* column
    cdef int32_t i
    for i in range(batch.n_columns):
        column = batch.columns[i]
        if column.encoding != CONSTANT and not (
            column.encoding == DICTIONARY and column.validity == NULL and column.base.n_rows == 1
        ):
            return False
    return batch.n_columns > 0 and batch.n_selected > 1


cdef object join_pieces(list pieces):
    """Concatenate record batches of one column."""
    import pyarrow

    if len(pieces) == 1:
        return pieces[0]
    return pyarrow.record_batch([concatenate([piece.column(0) for piece in pieces], look)], names=["value"])


cdef Column* repeat_value(Column* one, int64_t n, MemoryAccount* account) except NULL nogil:
    """A column that repeats the only value of a column n times. The value, which may be a long list, is not copied."""
    cdef Buffer* indices = buffer_new_zeroed(account, max(n, <int64_t> 1) * sizeof(uint32_t))
    try:
        return column_take(one, <const uint32_t*> indices.data, n, <Owner*> indices, account)
    finally:
        buffer_unref(indices)


def look():
    """Raise Cancelled if the query that called the current function is stopped. Long functions call it.

    When constants are computed no query has called the function. Then it raises KeyboardInterrupt after Ctrl-C, and, on
    a driver's thread, Cancelled if the driver's task is stopped.
    """
    if qc_call_account == NULL:
        PyErr_CheckSignals()
        turn_check()
    else:
        account_check(<const MemoryAccount*> qc_call_account)
    return 0


def calling_account():
    """Return an Account below the account of the operator that called the current function.

    It stops with the query, and its memory counts as the query's. If no query has called the function it has no parent.
    """
    cdef Account account = Account()
    if qc_call_account != NULL:
        owner_unref(<Owner*> account.account)
        account.account = NULL
        account.account = account_new(<MemoryAccount*> qc_call_account, 0)
    return account


def check_memory(int64_t n_bytes):
    """Raise MemoryLimitError if the query that called the current function may not reserve n_bytes more."""
    if qc_call_account != NULL:
        check_reservation(<MemoryAccount*> qc_call_account, n_bytes)


cdef object call_function(object function, PyBatch arguments, MemoryAccount* account, bint returns_lists):
    global qc_call_account
    cdef void* outer = qc_call_account
    qc_call_account = account
    try:
        return call_in_pieces(function, arguments, account, returns_lists)
    finally:
        qc_call_account = outer


cdef Column* import_result(const Step* step, EvaluatorFrame* frame, object values, int64_t n) except NULL:
    """The only column of a function's result for n rows."""
    cdef Batch* batch = batch_of_arrow(values, frame.account, True)
    try:
        if batch.n_rows != n or batch.n_columns != 1:
            raise ExecutionError(
                f"{step.name.decode()} returned {batch.n_columns} columns of {batch.n_rows} rows for {n} rows; it must "
                "return one column with a value for each row"
            )
        if not type_equal(&batch.schema.fields[0].type, &step.type):
            raise ExecutionError(
                f"{step.name.decode()} returned values of type {type_name(&batch.schema.fields[0].type)}, but its type "
                f"is {type_name(&step.type)}"
            )
        keep_bytes(frame, batch.columns[0])
        return column_ref(batch.columns[0])
    finally:
        batch_unref(batch)


cdef Column* compute_column(const Step* step, EvaluatorFrame* frame, Batch* batch) except NULL with gil:
    """The step's values for all rows of a batch without a selection. Raises the function's error."""
    cdef ArrowCall* call = &frame.calls[step.p0]
    cdef int64_t began = wall_nanos()
    cdef int64_t n = batch.n_rows
    cdef bint returns_lists = step.type.phys == PHYS_NESTED
    cdef PyBatch arguments = (<object> call.arguments).project_batch(PyBatch.wrap(batch))
    cdef Batch* one
    cdef Column* column
    if getattr(<object> call.function, "gives_one_row", False):
        # The result is a constant.
        values = (<object> call.function)(None)
        n = 1
    elif has_one_value(arguments.batch):
        # The result depends only on the arguments, which are the same in all rows.
        n = 1
        one = rows_part(arguments.batch, 0, n, frame.account)
        try:
            values = call_function(<object> call.function, PyBatch.wrap(one), frame.account, returns_lists)
        finally:
            batch_unref(one)
    else:
        values = call_function(<object> call.function, arguments, frame.account, returns_lists)
    column = import_result(step, frame, values, n)
    if n != batch.n_rows:
        try:
            return repeat_value(column, batch.n_rows, frame.account)
        finally:
            column_unref(column)
    if frame.stats != NULL:
        counter_add(&frame.stats.arrow_calls, 1)
        counter_add(&frame.stats.arrow_rows, batch.n_rows)
        counter_add(&frame.stats.arrow_wall_nanos, wall_nanos() - began)
    return column


cdef bint try_compute_column(const Step* step, EvaluatorFrame* frame, Batch* batch, Column** out) except -1 nogil:
    """Like compute_column, but returns False if the function fails for some row. Raises MemoryLimitError."""
    with gil:
        try:
            out[0] = compute_column(step, frame, batch)
        except MemoryLimitError:
            raise
        except ExecutionError:
            return False
    return True


cdef Batch* take_vector_rows(EvaluatorFrame* frame, int64_t first, int64_t n) except NULL nogil:
    """Rows first..first+n of the vector as a batch, which is valid until the frame's next vector."""
    cdef Buffer* rows
    cdef Batch* batch
    cdef int64_t i
    qc_check((first >= 0) & (n >= 0) & (first + n <= frame.n), b"rows to compute are rows of the vector")
    if frame.rows != NULL:
        return batch_take(frame.batch, frame.rows + first, n, NULL, frame.account)
    rows = buffer_new(frame.account, n * sizeof(uint32_t))
    try:
        for i in range(n):
            (<uint32_t*> rows.data)[i] = <uint32_t> (frame.start + first + i)
        batch = batch_take(frame.batch, <const uint32_t*> rows.data, n, <Owner*> rows, frame.account)
    finally:
        buffer_unref(rows)
    return batch


cdef Batch* take_rows(Batch* batch, const uint32_t* rows, int64_t n, MemoryAccount* account) except NULL nogil:
    """The rows rows[0..n) of the batch, or all rows if `rows` is NULL, as a batch without a selection."""
    cdef Batch* out
    cdef int64_t i
    if rows != NULL:
        return batch_take(batch, rows, n, batch.selection_owner, account)
    out = batch_new(batch.schema, batch.n_rows)
    for i in range(batch.n_columns):
        out.columns[i] = column_ref(batch.columns[i])
    return out


cdef Column* arrow_column(
    const Step* step, EvaluatorFrame* frame, Batch* batch, const uint32_t* rows, int64_t n
) except NULL nogil:
    cdef Batch* taken = take_rows(batch, rows, n, frame.account)
    try:
        return compute_column(step, frame, taken)
    finally:
        batch_unref(taken)


cdef int compute_batch(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """Compute call.column for the selected rows of the frame's batch, or for all rows if it has no selection."""
    cdef ArrowCall* call = &frame.calls[step.p0]
    cdef Batch* batch = frame.batch
    cdef Batch* rows
    arrow_call_drop(call)
    rows = take_rows(batch, batch.selection, batch.n_selected, frame.account)
    try:
        try_compute_column(step, frame, rows, &call.column)
    finally:
        batch_unref(rows)
    call.batch = batch_ref(batch)
    return 0


cdef int64_t position_in_selection(const EvaluatorFrame* frame) noexcept nogil:
    """The position of the frame's first row in the batch's selection; -1 if its rows are not consecutive there."""
    cdef const uint32_t* selection = frame.batch.selection
    cdef int64_t high = frame.batch.n_selected - frame.n
    cdef int64_t low = 0
    cdef int64_t middle
    if frame.n == 0:
        return -1
    if frame.rows != NULL:
        low = frame.rows - selection if frame.rows >= selection else -1
        return low if low <= high and (low & 7) == 0 else -1
    while low < high:
        middle = (low + high) >> 1
        if selection[middle] < frame.start:
            low = middle + 1
        else:
            high = middle
    if low != high or (low & 7) != 0 or selection[low] != frame.start:
        return -1
    return low if selection[low + frame.n - 1] == frame.start + frame.n - 1 else -1


cdef int compute_rows(const Step* step, EvaluatorFrame* frame, int64_t first, int64_t n) except -1 nogil:
    """Compute rows of the vector into the register. If the function fails, each half is computed by itself, down to the
    single rows that fail.
    """
    cdef Register* out = result(step, frame)
    cdef int64_t width = phys_width(step.type.phys)
    cdef Column* column = NULL
    cdef Batch* batch
    cdef Vector vector
    cdef bint good
    cdef int64_t i
    batch = take_vector_rows(frame, first, n)
    try:
        good = try_compute_column(step, frame, batch, &column)
    finally:
        batch_unref(batch)
    if not good:
        memset(out.own_values + first * width, 0, n * width)
        if n == 1:
            return frame_fail(frame, step, first, ERROR_ARGUMENT)
        compute_rows(step, frame, first, n >> 1)
        return compute_rows(step, frame, first + (n >> 1), n - (n >> 1))
    try:
        column_load(column, 0, NULL, n, frame.calls[step.p0].scratch, &vector)
        memcpy(out.own_values + first * width, vector.values, n * width)
        if vector.validity != NULL:
            for i in range(n):
                if not is_valid(vector.validity, i):
                    bit_clear(frame_validity(frame, step), first + i)
    finally:
        column_unref(column)
    return 0


cdef int arrow_kernel(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """A vector of a whole batch or of its whole selection is read from the result of one call for all rows. Another
    vector is computed by a call of its own.
    """
    cdef ArrowCall* call = &frame.calls[step.p0]
    cdef Batch* batch = frame.batch
    cdef Register* out = result(step, frame)
    cdef const uint32_t* rows = frame.rows
    cdef int64_t start = frame.start
    cdef Vector vector
    if batch.selection != NULL:
        # The column has only the selected rows.
        start = position_in_selection(frame)
        rows = NULL
    if call.batch != batch and rows == NULL and start >= 0:
        compute_batch(step, frame)
    if call.batch != batch or call.column == NULL or start < 0:
        return compute_rows(step, frame, 0, frame.n)
    column_load_narrow(call.column, start, rows, frame.n, call.scratch, &vector)
    out.phys = vector.phys
    out.values = vector.values
    out.validity = vector.validity
    return 0


cdef int arrow_raise(const Step* step, EvaluatorFrame* frame, int64_t row) except -1 nogil:
    cdef Batch* batch = take_vector_rows(frame, row, 1)
    try:
        column_unref(compute_column(step, frame, batch))
    finally:
        batch_unref(batch)
    return 0
