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
from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, Owner, account_check, account_new, account_release, account_reserve, buffer_new,
    buffer_new_zeroed, buffer_unref, owner_list_add, owner_list_new, owner_unref,
)
from qcore_ext.ground.stats cimport wall_nanos
from qcore_ext.ground.thread_token cimport turn_check

from qcore_ext.compute.long_arrays import concatenated
from qcore_ext.ground.status import ExecutionError, MemoryLimitError

cdef extern from *:
    """
    static __thread void *qc_call_account;
    """
    void* qc_call_account       # of the innermost arrow call on this thread, or NULL

cdef enum:
    # Bytes of arguments that a function gets at first; a slow regular expression takes 20 ms at 6 MB/s. From then on as
    # many rows as take about PIECE_NANOS, by what the last piece took, and at most ARGUMENT_BYTES.
    FIRST_BYTES = 131072
    ARGUMENT_BYTES = 4194304
    PIECE_NANOS = 20000000
    GROWTH_MAX = 4
    # Bytes of lists that a function gives at once, and how many rows tell how long its lists are.
    RESULT_BYTES = 4194304
    FIRST_ROWS = 16


cdef void arrow_call_drop(ArrowCall* call) noexcept nogil:
    batch_unref(call.batch)
    column_unref(call.column)
    call.batch = NULL
    call.column = NULL


cdef int keep_bytes(EvaluatorFrame* frame, const Column* column) except -1 nogil:
    """Strings of the column may be pointed at until the frame drops its heaps."""
    if frame.heaps == NULL:
        frame.heaps = owner_list_new()
    return owner_list_add(frame.heaps, column_heap(column))


cdef int reserve_for_now(MemoryAccount* account, int64_t n_bytes) except -1 nogil:
    """Raises where what a function is about to make goes past the limit: Python's memory is in nobody's account."""
    account_reserve(account, n_bytes)
    account_release(account, n_bytes)
    return 0


cdef object some_rows(PyBatch arguments, int64_t first, int64_t n, MemoryAccount* account):
    """Rows of a function's arguments as a pyarrow.RecordBatch; reserved while they are laid out."""
    import pyarrow

    cdef Batch* part
    if n == arguments.batch.n_selected:
        return pyarrow.record_batch(PyBatch.wrap_for(arguments.batch, account))
    part = rows_part(arguments.batch, first, n, account)
    try:
        return pyarrow.record_batch(PyBatch.wrap_for(part, account))
    finally:
        batch_unref(part)


cdef int64_t rows_at_first(object function, object batch, bint gives_lists) except -1:
    cdef int64_t n = batch.num_rows
    cdef int64_t rows = n
    if not getattr(function, "looks", False):
        rows = n * FIRST_BYTES // max(<int64_t> batch.nbytes, <int64_t> 1)
    if gives_lists:
        rows = min(rows, <int64_t> FIRST_ROWS)
    return max(rows, <int64_t> 1)


cdef object values_of(object function, PyBatch arguments, MemoryAccount* account, bint gives_lists):
    """What the function gives for all rows of the arguments, as a record batch. Long arguments are laid out, and given
    to it, piece by piece: nobody can stop a call half-way, unless the function looks itself. So are the arguments of a
    function that gives lists, which may be longer than any argument: as many rows at once as the lists so far allow.
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
                batch = None        # before the next is made
                fit = rows_that_fit(arguments.batch, at, ARGUMENT_BYTES)
                batch = some_rows(arguments, at, fit, account)
                end = at + fit
                rows = rows or rows_at_first(function, batch, gives_lists)
            fit = min(end - at, n if looks and not gives_lists else rows)
            began = wall_nanos()
            piece = function(batch.slice(batch.num_rows - (end - at), fit))
            took = max(wall_nanos() - began, <int64_t> 1)
            if fit == n:
                return piece
            piece = pyarrow.record_batch(piece)
            pieces.append(piece)
            account_reserve(account, piece.nbytes)
            held += <int64_t> piece.nbytes
            rows = n if looks else min(max(rows * PIECE_NANOS // took, <int64_t> 1), rows * GROWTH_MAX)
            at += fit
            if gives_lists:
                rows = min(rows, max(1, at * RESULT_BYTES // max(held, <int64_t> 1)))
        # In pieces, and together.
        reserve_for_now(account, held)
        return joined(pieces)
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


cdef object joined(list pieces):
    """Record batches of one column behind one another as one."""
    import pyarrow

    if len(pieces) == 1:
        return pieces[0]
    return pyarrow.record_batch([concatenated([piece.column(0) for piece in pieces], look)], names=["value"])


cdef Column* repeated(Column* one, int64_t n, MemoryAccount* account) except NULL nogil:
    """The one value of a column n times, which is not copied: a list may be long."""
    cdef Buffer* indices = buffer_new_zeroed(account, max(n, <int64_t> 1) * sizeof(uint32_t))
    try:
        return column_take(one, <const uint32_t*> indices.data, n, <Owner*> indices, account)
    finally:
        buffer_unref(indices)


def look():
    """Raise Cancelled when the query that the function under way is called for is stopped. Long functions call it.

    Outside of a query's call, where constants are computed, it hears Ctrl-C and, on a driver's thread, that the task of
    the driver is stopped.
    """
    if qc_call_account == NULL:
        PyErr_CheckSignals()
        turn_check()
    else:
        account_check(<const MemoryAccount*> qc_call_account)
    return 0


def calling_account():
    """An Account below the one of the operator that the function under way is called for: it stops with its query, and
    what it holds counts as the query's. Outside of a query's call, one that stands alone.
    """
    cdef Account account = Account()
    if qc_call_account != NULL:
        owner_unref(<Owner*> account.account)
        account.account = NULL
        account.account = account_new(<MemoryAccount*> qc_call_account, 0)
    return account


def check_room(int64_t n_bytes):
    """MemoryLimitError where the query that the function under way is called for may not keep so many bytes more."""
    if qc_call_account != NULL:
        reserve_for_now(<MemoryAccount*> qc_call_account, n_bytes)


cdef object called(object function, PyBatch arguments, MemoryAccount* account, bint gives_lists):
    global qc_call_account
    cdef void* outer = qc_call_account
    qc_call_account = account
    try:
        return values_of(function, arguments, account, gives_lists)
    finally:
        qc_call_account = outer


cdef Column* column_made(const Step* step, EvaluatorFrame* frame, object given, int64_t n) except NULL:
    """The one column of what a function gave for n rows."""
    cdef Batch* made = batch_of_arrow(given, frame.account, True)
    try:
        if made.n_rows != n or made.n_columns != 1:
            raise ExecutionError(f"{step.name.decode()} gave {made.n_columns} columns of {made.n_rows} rows for {n}")
        if not type_equal(&made.schema.fields[0].type, &step.type):
            told = type_name(&made.schema.fields[0].type)
            raise ExecutionError(f"{step.name.decode()} gave {told} instead of {type_name(&step.type)}")
        keep_bytes(frame, made.columns[0])
        return column_ref(made.columns[0])
    finally:
        batch_unref(made)


cdef Column* computed(const Step* step, EvaluatorFrame* frame, Batch* batch) except NULL with gil:
    """The step's values for all rows of a batch without selection. Raises when the function does."""
    cdef ArrowCall* call = &frame.calls[step.p0]
    cdef int64_t began = wall_nanos()
    cdef int64_t n = batch.n_rows
    cdef bint gives_lists = step.type.phys == PHYS_NESTED
    cdef PyBatch arguments = (<object> call.arguments).project_batch(PyBatch.wrap(batch))
    cdef Batch* one
    cdef Column* column
    if getattr(<object> call.function, "gives_one_row", False):
        # A constant.
        given = (<object> call.function)(None)
        n = 1
    elif has_one_value(arguments.batch):
        # Functions are of their arguments alone.
        n = 1
        one = rows_part(arguments.batch, 0, n, frame.account)
        try:
            given = called(<object> call.function, PyBatch.wrap(one), frame.account, gives_lists)
        finally:
            batch_unref(one)
    else:
        given = called(<object> call.function, arguments, frame.account, gives_lists)
    column = column_made(step, frame, given, n)
    if n != batch.n_rows:
        try:
            return repeated(column, batch.n_rows, frame.account)
        finally:
            column_unref(column)
    if frame.stats != NULL:
        counter_add(&frame.stats.arrow_calls, 1)
        counter_add(&frame.stats.arrow_rows, batch.n_rows)
        counter_add(&frame.stats.arrow_wall_nanos, wall_nanos() - began)
    return column


cdef bint try_computed(const Step* step, EvaluatorFrame* frame, Batch* batch, Column** out) except -1 nogil:
    """False, and nothing in `out`, when the function fails for some row; raises where it is memory that fails."""
    with gil:
        try:
            out[0] = computed(step, frame, batch)
        except MemoryLimitError:
            raise
        except ExecutionError:
            return False
    return True


cdef Batch* rows_of(EvaluatorFrame* frame, int64_t first, int64_t n) except NULL nogil:
    """Rows first..first+n of the vector as a batch, to be used up before the frame moves on."""
    cdef Buffer* rows
    cdef Batch* batch
    cdef int64_t i
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


cdef Batch* batch_given(Batch* batch, const uint32_t* rows, int64_t n, MemoryAccount* account) except NULL nogil:
    """These rows of the batch, or all where they are NULL, without a selection."""
    cdef Batch* given
    cdef int64_t i
    if rows != NULL:
        return batch_take(batch, rows, n, batch.selection_owner, account)
    given = batch_new(batch.schema, batch.n_rows)
    for i in range(batch.n_columns):
        given.columns[i] = column_ref(batch.columns[i])
    return given


cdef Column* arrow_column(
    const Step* step, EvaluatorFrame* frame, Batch* batch, const uint32_t* rows, int64_t n
) except NULL nogil:
    cdef Batch* given = batch_given(batch, rows, n, frame.account)
    try:
        return computed(step, frame, given)
    finally:
        batch_unref(given)


cdef int compute_batch(const Step* step, EvaluatorFrame* frame) except -1 nogil:
    """The column of the selected rows of the frame's batch, or of all where it has no selection, into the call."""
    cdef ArrowCall* call = &frame.calls[step.p0]
    cdef Batch* batch = frame.batch
    cdef Batch* given
    arrow_call_drop(call)
    given = batch_given(batch, batch.selection, batch.n_selected, frame.account)
    try:
        try_computed(step, frame, given, &call.column)
    finally:
        batch_unref(given)
    call.batch = batch_ref(batch)
    return 0


cdef int64_t place_in_selection(const EvaluatorFrame* frame) noexcept nogil:
    """Where the frame's rows begin among the selected ones of its batch; -1 where they are not a run of these."""
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
    """Rows of the vector into the register; where the function fails, in halves down to the rows it fails for."""
    cdef Register* out = result(step, frame)
    cdef int64_t width = phys_width(step.type.phys)
    cdef Column* column = NULL
    cdef Batch* batch
    cdef Vector vector
    cdef bint good
    cdef int64_t i
    batch = rows_of(frame, first, n)
    try:
        good = try_computed(step, frame, batch, &column)
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
    """Rows of a whole batch, or of its whole selection, come from one call for all; others from one of their own."""
    cdef ArrowCall* call = &frame.calls[step.p0]
    cdef Batch* batch = frame.batch
    cdef Register* out = result(step, frame)
    cdef const uint32_t* rows = frame.rows
    cdef int64_t start = frame.start
    cdef Vector vector
    if batch.selection != NULL:
        # The column has the selected rows alone.
        start = place_in_selection(frame)
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
    cdef Batch* batch = rows_of(frame, row, 1)
    try:
        column_unref(computed(step, frame, batch))
    finally:
        batch_unref(batch)
    return 0
