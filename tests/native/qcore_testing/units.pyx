"""For tests: units of the engine that have no Python interface, made callable."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from qcore_ext.basic.list_column cimport ListColumn, list_at, list_close, list_open
from qcore_ext.data.batch cimport Batch, batch_new, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.column cimport Column, column_new, column_ref, column_unref
from qcore_ext.data.row_filter cimport RowFilter
from qcore_ext.data.schema cimport Schema
from qcore_ext.data.take cimport gather_width, log2_of, scatter_runs
from qcore_ext.execution.batch_check cimport check_batch
from qcore_ext.ground.arrow_memory cimport release_arrow_memory
from qcore_ext.ground.atomic cimport qc_add, qc_load
from qcore_ext.ground.bitmap cimport qc_clear_missing, qc_count_bits, qc_gather_bits, qc_set_rows
from qcore_ext.ground.dispatch cimport simd_kernels, sorting_kernels
from qcore_ext.ground.memory cimport (
    Account, Buffer, Owner, buffer_grow, buffer_new, buffer_unref, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.placement cimport Seat, seat_init, seat_keep, seat_leave
from qcore_ext.ground.status cimport raise_memory_limit
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitSet, WaitToken, wait_list_add, wait_list_clear, wait_list_fire, wait_list_take, wait_list_try_add,
    wait_set_add, wait_set_clear, wait_set_fire, wait_set_remove,
)


cdef class GivenRows(RowFilter):
    """A row filter that leaves the rows that a function chooses.

    Parameters
    ----------
    columns : sequence of int
        As the parameter of RowFilter.
    choose : callable
        Takes the number of rows of a batch and returns the numbers of those to leave, as an array of uint32.
    """
    cdef object given
    cdef readonly bint is_closed

    def __init__(self, columns, choose):
        RowFilter.__init__(self, columns)
        self.given = choose

    cdef bint open(self, Account memory, Schema schema) except -1:
        self.account = memory.account
        return True

    cdef int64_t select(self, Batch* batch, Buffer** selection) except -1 nogil:
        with gil:
            return self.select_given(batch.n_rows, selection)

    cdef int64_t select_given(self, int64_t n_rows, Buffer** selection) except -1:
        cdef const uint32_t[::1] rows = self.given(n_rows)
        cdef int64_t n = len(rows)
        selection[0] = NULL
        if 0 < n < n_rows:
            selection[0] = buffer_new((<Account> Account()).account, n * 4)
            memcpy(selection[0].data, &rows[0], n * 4)
        return n

    cdef void close(self) noexcept nogil:
        RowFilter.close(self)
        self.is_closed = True


cdef class WorkerSeat:
    """A Seat of ground.placement, for the thread that makes it."""
    cdef Seat seat

    def __cinit__(self):
        seat_init(&self.seat)

    def keep(self):
        return seat_keep(&self.seat)

    def leave(self):
        seat_leave(&self.seat)


def gather_bits(const uint8_t[::1] bits, const uint32_t[::1] rows):
    """Call qc_gather_bits. Returns the words as bytes."""
    cdef int64_t n = len(rows)
    out = bytearray((n + 63) // 64 * 8)
    cdef uint8_t[::1] view = out
    if n > 0:
        qc_gather_bits(&bits[0], &rows[0], n, &view[0])
    return bytes(out)


def set_rows(const uint8_t[::1] bits, int64_t n):
    """Call qc_set_rows and qc_count_bits with a copy of exactly the size of `bits`, which may be None.

    Returns the rows, and the number of set bits.
    """
    cdef uint8_t* source = NULL
    cdef uint32_t* rows = <uint32_t*> malloc((n + 1) * sizeof(uint32_t))
    cdef int64_t n_rows
    try:
        if bits is not None:
            source = <uint8_t*> malloc(len(bits))
            if len(bits) > 0:
                memcpy(source, &bits[0], len(bits))
        n_rows = qc_set_rows(source, n, rows)
        return [rows[i] for i in range(n_rows)], n if source == NULL else qc_count_bits(source, n)
    finally:
        free(source)
        free(rows)


def gather(const uint8_t[::1] values, int width, const uint32_t[::1] rows):
    """Call gather_width. Returns the gathered values."""
    cdef int64_t n = len(rows)
    out = bytearray(n * width)
    cdef uint8_t[::1] view = out
    if n > 0:
        gather_width(&values[0], len(values) // width, width, &rows[0], n, &view[0])
    return bytes(out)


def clear_missing(const uint8_t[::1] out, int64_t at, const uint8_t[::1] bits, int64_t start, int64_t n):
    """Call qc_clear_missing with a copy of `out`, and return that. Of `bits` a copy of exactly its size is read."""
    cdef uint8_t* source = <uint8_t*> malloc(len(bits))
    changed = bytearray(out)
    cdef uint8_t[::1] view = changed
    try:
        memcpy(source, &bits[0], len(bits))
        qc_clear_missing(&view[0], at, source, start, n)
    finally:
        free(source)
    return bytes(changed)


def release_arrow():
    """Call ground.arrow_memory.release_arrow_memory."""
    with nogil:
        release_arrow_memory()


def scatter_to_parts(
    Account account, int width, list columns, const uint8_t[::1] parts, int64_t capacity, list counts,
):
    """Call SimdKernels.scatter_parts for one column of bytes, or scatter_parts_pair for two.

    Returns the number of values of each of 256 parts after that, and for each column the bytes of the parts and those
    of the lines. A part has its first counts[part] values from before: zeros.
    """
    cdef uint32_t[256] n_values
    cdef const uint8_t[::1] first = columns[0]
    cdef const uint8_t[::1] second = columns[len(columns) - 1]
    cdef int64_t n_bytes = 256 * capacity * width
    cdef Buffer* out = buffer_new(account.account, 2 * n_bytes)
    cdef Buffer* lines = buffer_new(account.account, 2 * 256 * 64)
    cdef int i
    try:
        for i in range(256):
            n_values[i] = counts[i]
        memset(out.data, 0, 2 * n_bytes)
        memset(lines.data, 0, 2 * 256 * 64)
        if len(columns) == 1:
            simd_kernels().scatter_parts[log2_of(width)](
                &first[0], &parts[0], len(parts), n_values, capacity, lines.data, out.data
            )
        else:
            simd_kernels().scatter_parts_pair(
                &first[0], &second[0], &parts[0], len(parts), n_values, capacity, lines.data, lines.data + 256 * 64,
                out.data, out.data + n_bytes,
            )
        return (
            [n_values[i] for i in range(256)],
            [out.data[i * n_bytes : (i + 1) * n_bytes] for i in range(len(columns))],
            [lines.data[i * 256 * 64 : (i + 1) * 256 * 64] for i in range(len(columns))],
        )
    finally:
        buffer_unref(out)
        buffer_unref(lines)


def has_sort_kernel():
    """Whether the kernels in use sort words."""
    return sorting_kernels().sort_words != NULL


def sort_words(uint64_t[::1] words, int64_t start, int64_t n):
    """Call SortingKernels.sort_words for n of the words."""
    if not 0 <= start <= start + n <= len(words):
        raise ValueError("the words to sort are among the words")
    if n > 0:
        with nogil:
            sorting_kernels().sort_words(&words[start], n)


def scatter_to_runs(
    Account account, int width, const uint8_t[::1] values, const uint32_t[::1] rows, const uint32_t[::1] ends,
    list starts, int64_t n_bytes,
):
    """Call data.take.scatter_runs. Returns n_bytes bytes, zeros beside the runs, whose first bytes are `starts`."""
    cdef Buffer* out = buffer_new(account.account, n_bytes)
    cdef char** runs = <char**> struct_new(len(ends) * sizeof(char*))
    cdef int64_t i
    try:
        memset(out.data, 0, n_bytes)
        for i in range(<int64_t> len(ends)):
            runs[i] = out.data + <int64_t> starts[i]
        scatter_runs(&values[0], len(values) // width, width, &rows[0], &ends[0], len(ends), runs)
        return out.data[:n_bytes]
    finally:
        struct_free(runs)
        buffer_unref(out)


ctypedef struct CountedToken:
    WaitToken token             # first: a CountedToken* is a WaitToken*
    int64_t n_fired             # atomic


cdef void counted_token_notify(WaitToken* token) noexcept nogil:
    qc_add(&(<CountedToken*> token).n_fired, 1)


cdef void counted_token_free(Owner* owner) noexcept nogil:
    struct_free(owner)


cdef class CountingToken:
    """A wait token that counts how often it was fired."""
    cdef CountedToken* counted      # owned

    def __cinit__(self):
        self.counted = <CountedToken*> struct_new(sizeof(CountedToken))
        self.counted.token.owner.references = 1
        self.counted.token.owner.release = counted_token_free
        self.counted.token.notify = counted_token_notify

    def __dealloc__(self):
        owner_unref(<Owner*> self.counted)

    @property
    def fired(self):
        """The number of times it was fired."""
        return qc_load(&self.counted.n_fired)

    @property
    def registered(self):
        """The number of times it was added to a list or a set."""
        return self.counted.token.n_registered

    @property
    def references(self):
        """Number of references to it, this object's included."""
        return qc_load(&self.counted.token.owner.references)


cdef class TokenList:
    """A WaitList of one thread."""
    cdef WaitList waiting

    def __dealloc__(self):
        wait_list_clear(&self.waiting)

    def __len__(self):
        return self.waiting.n_tokens

    def add(self, CountingToken token):
        wait_list_add(&self.waiting, &token.counted.token)

    def try_add(self, CountingToken token):
        """Add without raising. Returns the message to raise, or None."""
        cdef const char* failed = wait_list_try_add(&self.waiting, &token.counted.token)
        return failed.decode() if failed != NULL else None

    def take(self):
        """Move all tokens to another list."""
        cdef TokenList taken = TokenList()
        wait_list_take(&self.waiting, &taken.waiting)
        return taken

    def fire(self):
        wait_list_fire(&self.waiting)

    def clear(self):
        wait_list_clear(&self.waiting)


cdef class TokenSet:
    """A WaitSet, for any thread."""
    cdef WaitSet waiting

    def __dealloc__(self):
        wait_set_clear(&self.waiting)

    @property
    def n_waiting(self):
        """The number of waiting slots."""
        return qc_load(&self.waiting.n_waiting)

    def add(self, CountingToken token):
        with nogil:
            wait_set_add(&self.waiting, &token.counted.token)

    def remove(self, CountingToken token):
        wait_set_remove(&self.waiting, &token.counted.token)

    def fire(self):
        with nogil:
            wait_set_fire(&self.waiting)

    def clear(self):
        wait_set_clear(&self.waiting)


cdef class GrowingBuffer:
    """A Buffer of one account. Its bytes are written, so that its memory is in use."""

    cdef Buffer* buffer

    def __cinit__(self, Account account, int64_t size):
        self.buffer = buffer_new(account.account, size)
        memset(self.buffer.data, 1, self.buffer.size)

    def __dealloc__(self):
        buffer_unref(self.buffer)

    @property
    def size(self):
        """Usable bytes."""
        return self.buffer.size

    @property
    def address(self):
        """The address of the bytes."""
        return <int64_t> self.buffer.data

    def grow(self, int64_t size):
        """Grow to at least `size` bytes. Returns how many of the bytes that were written before are kept."""
        cdef int64_t used = self.buffer.size
        buffer_grow(&self.buffer, used, size)
        memset(self.buffer.data + used, 1, self.buffer.size - used)
        return used if bytes(self.buffer.data[:used]) == b"\1" * used else 0


def list_rows(PyBatch batch, int32_t column, Schema elements):
    """Positions of the elements of each row of a list column.

    Parameters
    ----------
    batch : PyBatch
    column : int
        The list column.
    elements : Schema
        One field, of the type of the elements.

    Returns
    -------
    (list of (int, int), PyBatch or None)
        Start and length of each row, as list_at gives them, and all elements as a batch of one column.
    """
    cdef ListColumn lists
    cdef Batch* whole
    cdef Account account = Account()
    cdef int64_t i, start, length
    rows = []
    values = None
    list_open(
        &lists, batch.batch.columns[column], batch.batch.schema.fields[column].nested, &elements.schema.fields[0].type,
        account.account,
    )
    try:
        for i in range(batch.batch.n_rows):
            start = 0
            length = list_at(&lists, i, &start)
            rows.append((start, length))
        if lists.elements != NULL:
            whole = batch_new(elements.schema, lists.elements.n_rows)
            whole.columns[0] = column_ref(lists.elements)
            values = PyBatch.wrap(whole)
            batch_unref(whole)
    finally:
        list_close(&lists)
    return rows, values


cdef Column* copy_column(Column* column) except NULL:
    """A column with the values of another one, whose fields a test may change."""
    cdef Column* copy = column_new(&column.type, column.n_rows)
    cdef Owner owner = copy.owner
    copy[0] = column[0]
    copy.owner = owner
    column_ref(copy.base)
    owner_ref(copy.values_owner)
    owner_ref(copy.validity_owner)
    owner_ref(copy.indices_owner)
    owner_ref(copy.heap_owner)
    owner_ref(copy.check)
    return copy


cdef int change_column(Column* column, dict changes) except -1:
    """Make the changes that check_changed describes."""
    cdef Column* base
    if "n_rows" in changes:
        column.n_rows = changes["n_rows"]
    if "type" in changes:
        column.type.id = changes["type"]
    if "encoding" in changes:
        column.encoding = changes["encoding"]
    if "index" in changes:
        (<uint32_t*> column.indices)[0] = changes["index"]
    if "no_indices" in changes:
        column.indices = NULL
    if "base_encoding" in changes:
        base = copy_column(column.base)
        column_unref(column.base)
        column.base = base
        base.encoding = changes["base_encoding"]
    if "no_base" in changes:
        column_unref(column.base)
        column.base = NULL
    if "references" in changes:
        column.owner.references = changes["references"]
    return 0


def check_changed(PyBatch batch, Schema schema=None, dict changes=None, dict column=None, selection=None):
    """Call execution.batch_check.check_batch for a copy of a batch of which some fields were changed.

    Parameters
    ----------
    batch : PyBatch
    schema : Schema, optional
        The schema to compare with.
    changes : dict of str to int, optional
        New values of n_columns, n_rows and n_selected.
    column : dict of str to int, optional
        Changes of the first column. 'missing': 1 removes it; 'references', 'encoding', 'n_rows' and 'type' (a TypeId)
        set a field; 'index' sets index 0 of a dictionary; 'no_base', 'no_indices': 1 sets NULL; 'base_encoding' sets
        the encoding of the base.
    selection : list of int, optional
        The selection.
    """
    cdef Batch* copy = batch_new(batch.batch.schema, batch.batch.n_rows)
    cdef Column* first = NULL
    cdef uint32_t* rows = NULL
    cdef int32_t n_columns = copy.n_columns
    cdef int64_t i
    cdef int64_t references = 0
    changes = changes or {}
    column = column or {}
    for i in range(n_columns):
        copy.columns[i] = copy_column(batch.batch.columns[i])
    copy.n_selected = batch.batch.n_selected
    try:
        if selection is not None:
            rows = <uint32_t*> malloc((len(selection) + 1) * sizeof(uint32_t))
            if rows == NULL:
                raise_memory_limit(b"the machine has no memory left")
            for i, row in enumerate(selection):
                rows[i] = row
            copy.selection = rows
            copy.n_selected = len(selection)
        copy.n_columns = changes.get("n_columns", copy.n_columns)
        copy.n_rows = changes.get("n_rows", copy.n_rows)
        copy.n_selected = changes.get("n_selected", copy.n_selected)
        if column:
            first = copy.columns[0]
            references = first.owner.references
            change_column(first, column)
            if "missing" in column:
                copy.columns[0] = NULL
        check_batch(copy, schema.schema if schema is not None else NULL)
    finally:
        copy.n_columns = n_columns
        copy.selection = NULL
        if first != NULL:
            copy.columns[0] = first
            first.owner.references = references
        batch_unref(copy)
        free(rows)
