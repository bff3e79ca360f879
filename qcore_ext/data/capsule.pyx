"""Import and export of Arrow data by the C Data and C Stream interfaces (PyCapsule protocol)."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport atoi, free, malloc
from libc.string cimport memset, strchr, strcmp

from qcore_ext.data.array_charge cimport array_charge, charge_trail_clear, tree_bytes
from qcore_ext.data.array_check cimport (
    INDICES_NOT_INTEGER, INDICES_OUTSIDE, IndexState, batch_fault, explain_fault, read_indices,
)
from qcore_ext.data.batch cimport Batch, batch_bytes, batch_new, batch_ref, batch_unref
from qcore_ext.data.column cimport (
    CONSTANT, DICTIONARY, FLAT, STORE_ARROW_VIEW, STORE_BITS, STORE_CANONICAL, STORE_DATE64, STORE_DECIMAL32,
    STORE_DECIMAL64, STORE_DECIMAL128, STORE_FIXED_BINARY, STORE_HALF, STORE_LARGE_UTF8, STORE_NESTED, STORE_UTF8,
    Column, column_new, column_unref,
)
from qcore_ext.data.layout cimport array_from_batch
from qcore_ext.data.row_check cimport RowCheck, RowChecks, row_check_covers
from qcore_ext.data.schema cimport (
    PHYS_I128, TYPE_DECIMAL, TYPE_NESTED, TYPE_NULL, CSchema, DataType, Schema, schema_from_arrow,
)
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema
from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, Owner, OwnerList, buffer_new, owner_ref, owner_unref, struct_free, struct_new,
)
from qcore_ext.ground.status cimport raise_execution

from qcore_ext.ground.status import ExecutionError, MemoryLimitError


# One less than NO_ROW (data/column).
cdef int64_t INDEX_MAX = 0xFFFFFFFE

ctypedef struct ForeignArray:
    # Keeps an imported Arrow array alive for the columns that point into it.
    Owner owner
    ArrowArray array
    OwnerList* charges          # owned; charges of its buffers, or NULL: no account is charged


cdef enum:
    # What is known about the batches of a stream.
    TRUST_NOTHING = 1
    TRUST_LAYOUT = 2            # pyarrow decoded them; only text is unchecked
    TRUST_EVERYTHING = 3        # this process made or checked them


cdef void foreign_free(Owner* self) noexcept nogil:
    cdef ForeignArray* foreign = <ForeignArray*> self
    if foreign.array.release != NULL:
        foreign.array.release(&foreign.array)
    # After the memory was freed, so that a thread that waits for the charge finds it free.
    owner_unref(<Owner*> foreign.charges)
    struct_free(foreign)


cdef int storage_of(const char* format, const DataType* type, int32_t* width) noexcept nogil:
    """Storage of a column that is imported from this Arrow format."""
    cdef const char* comma
    width[0] = 0
    if type.id == TYPE_DECIMAL:
        comma = strchr(format, c",")
        comma = strchr(comma + 1, c",")
        if comma == NULL or atoi(comma + 1) == 128:
            return STORE_CANONICAL if type.phys == PHYS_I128 else STORE_DECIMAL128
        if atoi(comma + 1) == 32:
            return STORE_DECIMAL32
        return STORE_DECIMAL64 if type.phys == PHYS_I128 else STORE_CANONICAL
    if strcmp(format, b"b") == 0:
        return STORE_BITS
    if strcmp(format, b"u") == 0 or strcmp(format, b"z") == 0:
        return STORE_UTF8
    if strcmp(format, b"U") == 0 or strcmp(format, b"Z") == 0:
        return STORE_LARGE_UTF8
    if format[0] == c"v":
        return STORE_ARROW_VIEW
    if strcmp(format, b"tdm") == 0:
        return STORE_DATE64
    if strcmp(format, b"e") == 0:
        return STORE_HALF
    if format[0] == c"w":
        width[0] = atoi(format + 2)
        return STORE_FIXED_BINARY
    return STORE_CANONICAL


cdef int import_validity(Column* column, const ArrowArray* array, Owner* owner, MemoryAccount* account) except -1 nogil:
    cdef const uint8_t* bits
    cdef Buffer* shifted
    cdef uint8_t* out
    cdef int64_t i, offset, n_bytes
    cdef int shift
    if array.null_count == 0 or array.n_buffers == 0 or array.buffers[0] == NULL:
        return 0
    bits = <const uint8_t*> array.buffers[0] + (array.offset >> 3)
    shift = array.offset & 7
    if shift == 0:
        column.validity = bits
        column.validity_owner = owner_ref(owner)
        return 0
    offset = array.offset + array.length
    n_bytes = (offset + 7) // 8 - (array.offset >> 3)        # readable bytes of `bits`
    shifted = buffer_new(account, bitmap_bytes(array.length))
    out = <uint8_t*> shifted.data
    for i in range((array.length + 7) >> 3):
        out[i] = <uint8_t> (bits[i] >> shift)
        if i + 1 < n_bytes:
            out[i] |= <uint8_t> (bits[i + 1] << (8 - shift))
    column.validity = out
    column.validity_owner = <Owner*> shifted
    return 0


cdef int64_t buffers_needed(int storage, const DataType* type) noexcept nogil:
    if type.id == TYPE_NULL:
        return 0
    return 3 if storage in (STORE_UTF8, STORE_LARGE_UTF8) else 2


cdef Column* import_nested(
    const ArrowArray* array,    # the array as part of the batch's array, and as long as that
    const ArrowArray* part,     # the rows of it that belong to the batch
    const DataType* type, Owner* owner, MemoryAccount* account,
) except NULL nogil:
    cdef Column* column = column_new(type, part.length)
    cdef bint done = False
    try:
        column.storage = STORE_NESTED
        column.offset = part.offset - array.offset      # rows are later taken by position from the array's own offset
        column.values = array
        column.values_owner = owner_ref(owner)
        import_validity(column, part, owner, account)
        done = True
    finally:
        if not done:
            column_unref(column)
    return column


cdef Column* import_plain(
    const ArrowArray* array, const char* format, const DataType* type, Owner* owner, MemoryAccount* account,
) except NULL nogil:
    """A FLAT column over an Arrow array that is not dictionary-encoded."""
    cdef Column* column
    cdef int32_t width
    cdef int storage = storage_of(format, type, &width)
    cdef bint done = False
    if array.n_buffers < buffers_needed(storage, type):
        raise_execution(b"an Arrow array has fewer buffers than its type needs; its producer is broken")
        return NULL
    column = column_new(type, array.length)
    try:
        column.storage = <uint8_t> storage
        column.width = width
        column.offset = array.offset
        column.values_owner = owner_ref(owner)
        if type.id != TYPE_NULL:
            import_validity(column, array, owner, account)
            column.values = array.buffers[1]
            if storage == STORE_UTF8 or storage == STORE_LARGE_UTF8:
                column.bytes = <const char*> array.buffers[2]
                if array.length == 0:
                    column.values = EMPTY_OFFSETS   # the offsets of an empty array may be missing
                    column.offset = 0
            elif storage == STORE_ARROW_VIEW:
                column.view_buffers = array.buffers + 2
        done = True
    finally:
        if not done:
            column_unref(column)
    return column

cdef int64_t[1] EMPTY_OFFSETS
EMPTY_OFFSETS[0] = 0

cdef int import_indices(
    const ArrowArray* array, const char* format, const uint8_t* validity, uint32_t* out,
) except -1 nogil:
    cdef int64_t n_values = array.dictionary.length
    cdef IndexState state
    if array.length == 0:
        return 0
    if array.buffers[1] == NULL:
        return raise_execution(b"a dictionary-encoded Arrow array has no indices; its producer is broken")
    if n_values > INDEX_MAX:
        return raise_execution(b"a dictionary has more than 4294967294 values; cast the column to its value type first")
    state = read_indices(format, array.buffers[1], array.offset, array.length, validity, 0, n_values, out)
    if state == INDICES_NOT_INTEGER:
        return raise_execution(b"a dictionary-encoded Arrow array has indices that are not integers")
    if state == INDICES_OUTSIDE:
        return raise_execution(b"a dictionary-encoded Arrow array has an index outside its dictionary")
    return 0


cdef Column* import_dictionary(
    const ArrowArray* array, const ArrowSchema* layout, const DataType* type, Owner* owner, MemoryAccount* account,
) except NULL nogil:
    cdef Column* column = column_new(type, array.length)
    cdef Buffer* widened
    cdef bint done = False
    try:
        if array.n_buffers < 2 or array.dictionary == NULL:
            raise_execution(b"a dictionary-encoded Arrow array has no indices or no dictionary; its producer is broken")
        column.encoding = DICTIONARY
        column.base = import_plain(array.dictionary, layout.dictionary.format, type, owner, account)
        import_validity(column, array, owner, account)
        widened = buffer_new(account, array.length * 4)
        column.indices_owner = <Owner*> widened
        column.indices = <uint32_t*> widened.data
        import_indices(array, layout.format, column.validity, <uint32_t*> widened.data)
        if array.dictionary.length == 0:
            # All rows are null, so there is no value to reference.
            column_unref(column.base)
            column.base = NULL
            column.encoding = CONSTANT
            column.values = &EMPTY_OFFSETS[0]
            column.validity = <const uint8_t*> &EMPTY_OFFSETS[0]
        done = True
    finally:
        if not done:
            column_unref(column)
    return column


cdef Column* column_import(
    const ArrowArray* array, const ArrowSchema* layout, const DataType* type, Owner* owner, MemoryAccount* account,
) except NULL nogil:
    cdef Column* column
    if type.id == TYPE_NESTED:
        column = import_nested(array, array, type, owner, account)
        column.n_bytes = tree_bytes(array, layout, 0, array.length)
        return column
    if layout.dictionary != NULL:
        return import_dictionary(array, layout, type, owner, account)
    return import_plain(array, layout.format, type, owner, account)


cdef int import_columns(
    Batch* batch, ForeignArray* foreign, const ArrowSchema* layout, MemoryAccount* account,
) except -1 nogil:
    cdef ArrowArray* child
    cdef ArrowArray shifted
    cdef int64_t i
    for i in range(batch.n_columns):
        child = foreign.array.children[i]
        if child.length < foreign.array.offset + foreign.array.length:
            return raise_execution(b"a column of an Arrow batch is shorter than the batch; its producer is broken")
        # The offset of the struct is added to the offset of each child.
        shifted = child[0]
        shifted.offset += foreign.array.offset
        shifted.length = foreign.array.length
        if shifted.length != child.length and shifted.null_count > 0:
            shifted.null_count = -1
        if batch.schema.fields[i].type.id == TYPE_NESTED:
            batch.columns[i] = import_nested(child, &shifted, &batch.schema.fields[i].type, <Owner*> foreign, account)
            batch.columns[i].n_bytes = tree_bytes(&shifted, layout.children[i], 0, shifted.length)
        elif layout.children[i].dictionary != NULL:
            batch.columns[i] = import_dictionary(
                &shifted, layout.children[i], &batch.schema.fields[i].type, <Owner*> foreign, account
            )
        else:
            batch.columns[i] = import_plain(
                &shifted, layout.children[i].format, &batch.schema.fields[i].type, <Owner*> foreign, account
            )
    return 0


cdef Batch* batch_import(
    ArrowArray* array, const ArrowSchema* layout, CSchema* schema, MemoryAccount* account, MemoryAccount* payer,
    ChargeTrail* trail,
) except NULL nogil:
    cdef ForeignArray* foreign = <ForeignArray*> struct_new(sizeof(ForeignArray))
    cdef Batch* batch = NULL
    cdef int32_t i
    cdef bint done = False
    foreign.owner.references = 1
    foreign.owner.release = foreign_free
    foreign.array = array[0]
    array.release = NULL
    try:
        if foreign.array.n_children != schema.n_fields:
            raise_execution(b"an Arrow batch has another number of columns than its schema; its producer is broken")
        batch = batch_new(schema, foreign.array.length)
        import_columns(batch, foreign, layout, account)
        if payer != NULL:
            foreign.charges = array_charge(&foreign.array, layout, payer, trail)
        else:
            for i in range(batch.n_columns):
                batch.columns[i].lent = batch.columns[i].encoding == FLAT
        done = True
    finally:
        owner_unref(<Owner*> foreign)
        if not done:
            batch_unref(batch)
    return batch


cdef int trust_of(object name) except -1:
    for known, trust in (("nothing", TRUST_NOTHING), ("layout", TRUST_LAYOUT), ("everything", TRUST_EVERYTHING)):
        if name == known:
            return trust
    raise ExecutionError(f"a stream's trust is 'nothing', 'layout' or 'everything', not {name!r}")


cdef int check_foreign(ArrowArray* array, const ArrowSchema* layout, int trust) except -1 nogil:
    """Check what `trust` does not cover. Releases the array if it is malformed."""
    cdef const char* name
    cdef const char* fault
    if trust == TRUST_EVERYTHING:
        return 0
    fault = batch_fault(array, layout, trust == TRUST_LAYOUT, &name)
    if fault != NULL:
        with gil:
            message = explain_fault(fault, name)
            array.release(array)    # not while an error is raised: the producer's release may run Python code
            raise ExecutionError(message)
    return 0


cdef Batch* batch_of_arrow(object source, MemoryAccount* payer, bint trusted) except NULL:
    schema_capsule, array_capsule = source.__arrow_c_array__()
    cdef ArrowSchema* layout = <ArrowSchema*> PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    cdef ArrowArray* array = <ArrowArray*> PyCapsule_GetPointer(array_capsule, "arrow_array")
    cdef CSchema* schema = schema_from_arrow(layout)
    try:
        check_foreign(array, layout, TRUST_EVERYTHING if trusted else TRUST_NOTHING)
        return batch_import(array, layout, schema, NULL, payer, NULL)
    finally:
        owner_unref(<Owner*> schema)


cdef class Stream:
    """An open ArrowArrayStream, read without the GIL by one thread at a time.

    Parameters
    ----------
    source : object with __arrow_c_stream__
        Its batches are read one at a time. Its attribute `trust` says what is known about them: "nothing" (also if
        it has none), "layout" or "everything". The rest is checked.
        Its attribute `row_checks`, if it has one, is a list of RowChecks for each column: those of the arrays whose
        slices the batches are. Their rows are checked when they are loaded, whatever `trust` is.
    is_charged : bool
        The buffers of the batches are made for the query that reads them, and charged to it while they live.
    """

    def __init__(self, source, bint is_charged=False):
        self.trust = trust_of(getattr(source, "trust", "nothing"))
        self.is_charged = is_charged
        capsule = source.__arrow_c_stream__()
        cdef ArrowArrayStream* given = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
        if given.release == NULL:
            raise ExecutionError("the Arrow stream was already read")
        self.stream = given[0]
        given.release = NULL
        if self.stream.get_schema(&self.stream, &self.layout) != 0:
            raise ExecutionError(f"the Arrow stream has no schema: {self.last_error()}")
        self.schema = schema_from_arrow(&self.layout)
        self.schema_object = Schema.wrap(self.schema)
        row_checks = getattr(source, "row_checks", None)
        if row_checks is not None:
            self.hold_checks(row_checks)

    def __dealloc__(self):
        self.close()
        owner_unref(<Owner*> self.schema)

    cdef int hold_checks(self, row_checks) except -1:
        cdef int64_t i, k
        cdef RowChecks held
        if len(row_checks) != self.schema.n_fields:
            raise ExecutionError(f"a stream of {self.schema.n_fields} columns has row checks for {len(row_checks)}")
        self.checks = <CheckList*> struct_new((self.schema.n_fields + 1) * sizeof(CheckList))
        for i in range(self.schema.n_fields):
            if not row_checks[i]:
                continue
            self.checks[i].items = <RowCheck**> struct_new(len(row_checks[i]) * sizeof(RowCheck*))
            for k in range(len(row_checks[i])):
                held = row_checks[i][k]
                self.checks[i].items[k] = <RowCheck*> owner_ref(<Owner*> held.check)
                self.checks[i].n_items = k + 1
        return 0

    cdef bint find_checks(self, const ArrowArray* array) noexcept nogil:
        """Find the row checks of a batch. False if a column with row checks is not a slice of one of their arrays."""
        cdef CheckList* list_
        cdef const ArrowArray* child
        cdef int64_t i, _
        for i in range(min(<int64_t> self.schema.n_fields, array.n_children)):
            list_ = &self.checks[i]
            child = array.children[i]
            # Batches come in the order of the arrays.
            for _ in range(list_.n_items):
                if row_check_covers(list_.items[list_.at], child, child.offset + array.offset, array.length):
                    break
                list_.at = list_.at + 1 if list_.at + 1 < list_.n_items else 0
            else:
                if list_.n_items > 0:
                    return False
        return True

    cdef str last_error(self):
        cdef const char* message = self.stream.get_last_error(&self.stream)
        if message == NULL:
            return "no reason given"
        # After this text pyarrow adds the stack trace of the Python code that feeds the stream.
        return message.decode("utf-8", "replace").partition(". Detail: Python exception")[0]

    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil:
        cdef ArrowArray array
        cdef bint found
        cdef int64_t i
        cdef int failed
        memset(&array, 0, sizeof(ArrowArray))
        if self.stream.release == NULL:
            return 0
        failed = self.stream.get_next(&self.stream, &array)
        if failed != 0:
            with gil:
                kind = MemoryLimitError if failed == ENOMEM else ExecutionError
                raise kind(f"an Arrow stream failed while being read: {self.last_error()}")
        if array.release == NULL:
            return 0
        found = self.checks != NULL and self.find_checks(&array)
        check_foreign(&array, &self.layout, self.trust if self.checks == NULL or found else TRUST_NOTHING)
        out[0] = batch_import(
            &array, &self.layout, self.schema, account, account if self.is_charged else NULL, &self.trail
        )
        if found:
            for i in range(self.schema.n_fields):
                if self.checks[i].n_items > 0:
                    out[0].columns[i].check = owner_ref(<Owner*> self.checks[i].items[self.checks[i].at])
        return 1

    cdef void drop_checks(self) noexcept nogil:
        cdef int64_t i, k
        if self.checks == NULL:
            return
        for i in range(self.schema.n_fields):
            for k in range(self.checks[i].n_items):
                owner_unref(<Owner*> self.checks[i].items[k])
            if self.checks[i].items != NULL:
                struct_free(self.checks[i].items)
        struct_free(self.checks)
        self.checks = NULL

    cdef void close(self) noexcept nogil:
        charge_trail_clear(&self.trail)
        self.drop_checks()
        if self.stream.release != NULL:
            self.stream.release(&self.stream)
            self.stream.release = NULL
        if self.layout.release != NULL:
            self.layout.release(&self.layout)
            self.layout.release = NULL


cdef void release_array_capsule(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class PyBatch:
    """A batch as a Python object. It exports itself to pyarrow and others by __arrow_c_array__."""

    def __dealloc__(self):
        batch_unref(self.batch)
        owner_unref(<Owner*> self.payer)

    @staticmethod
    cdef PyBatch wrap(Batch* batch):
        cdef PyBatch self = PyBatch.__new__(PyBatch)
        self.batch = batch_ref(batch)
        return self

    @staticmethod
    cdef PyBatch wrap_for(Batch* batch, MemoryAccount* payer):
        cdef PyBatch self = PyBatch.wrap(batch)
        self.payer = <MemoryAccount*> owner_ref(<Owner*> payer)
        self.looks = payer != NULL
        return self

    @staticmethod
    def from_arrow(source, Account payer=None, bint trusted=False):
        """Import one record batch: an object with __arrow_c_array__, such as a pyarrow.RecordBatch.

        `payer` is charged for its buffers while the engine references them. None: they belong to the application. The
        batch is checked unless `trusted`, which is for batches that this process made.
        """
        cdef PyBatch self = PyBatch.__new__(PyBatch)
        self.batch = batch_of_arrow(source, payer.account if payer is not None else NULL, trusted)
        return self

    def __arrow_c_array__(self, requested_schema=None):
        """Return capsules of schema and array. The values are copied into Arrow's layout."""
        cdef ArrowArray* array = <ArrowArray*> malloc(sizeof(ArrowArray))
        memset(array, 0, sizeof(ArrowArray))
        array_capsule = PyCapsule_New(array, "arrow_array", release_array_capsule)
        with nogil:
            array_from_batch(self.batch, self.payer, self.looks, array)
        return Schema.wrap(self.batch.schema).__arrow_c_schema__(), array_capsule

    @property
    def schema(self):
        """The batch's schema as data.schema.Schema."""
        return Schema.wrap(self.batch.schema)

    @property
    def n_bytes(self):
        """Memory that the rows take, as queues and counters count it."""
        return batch_bytes(self.batch)

    def __len__(self):
        return self.batch.n_selected
