"""Rows of an array of strings from outside, checked when they are first loaded."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from qcore_ext.data.array_check cimport array_fault, explain_fault, fault_at_rows, run_fault
from qcore_ext.data.column cimport VIEW_INLINE_BYTES, StringView
from qcore_ext.data.layout_check cimport layout_fault
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_load
from qcore_ext.ground.dispatch cimport simd_kernels
from qcore_ext.ground.memory cimport Owner, owner_unref
from qcore_ext.ground.prefetch cimport qc_prefetch_range

from qcore_ext.ground.status import ExecutionError

cdef enum:
    SECTION_ROWS = ROW_CHECK_ROWS
    # Cache lines to prefetch of the offsets and of the text after a section: about as many as a core can have in
    # flight. The processor itself prefetches longer text.
    OFFSETS_FETCHED = 1024
    VIEWS_FETCHED = 1024
    TEXT_FETCHED = 512


cdef void row_check_free(Owner* owner) noexcept nogil:
    cdef RowCheck* self = <RowCheck*> owner
    if self.array.release != NULL:
        self.array.release(&self.array)
    if self.layout.release != NULL:
        self.layout.release(&self.layout)
    free(self.name)
    free(self.done)
    free(self)


cdef int raise_fault(const RowCheck* self, const char* fault) except -1 nogil:
    with gil:
        raise ExecutionError(explain_fault(fault, self.name))


cdef void fetch_behind(const RowCheck* self, int64_t low, int64_t high) noexcept nogil:
    """Prefetch the data after the sound rows low to high - 1. The caller loads these rows meanwhile."""
    cdef char kind = self.layout.format[0]
    cdef const char* values = <const char*> self.array.buffers[1]
    cdef const StringView* view
    cdef const int32_t* pair
    cdef int64_t start, end
    if kind == c"v":
        qc_prefetch_range(values + sizeof(StringView) * high, VIEWS_FETCHED)
        view = <const StringView*> values + high - 1
        pair = <const int32_t*> &view.pointer
        # The view of a null row may point anywhere.
        if view.length > VIEW_INLINE_BYTES and 0 <= pair[0] < self.array.n_buffers - 3:
            qc_prefetch_range(
                <const char*> self.array.buffers[2 + pair[0]] + pair[1] + view.length, TEXT_FETCHED
            )
        return
    if kind == c"u" or kind == c"z":
        start = (<const int32_t*> values)[low]
        end = (<const int32_t*> values)[high]
        qc_prefetch_range(values + 4 * high, OFFSETS_FETCHED)
    else:
        start = (<const int64_t*> values)[low]
        end = (<const int64_t*> values)[high]
        qc_prefetch_range(values + 8 * high, OFFSETS_FETCHED)
    qc_prefetch_range(<const char*> self.array.buffers[2] + end, min(end - start, TEXT_FETCHED))


cdef const char* section_fault(RowCheck* self, int64_t section) noexcept nogil:
    cdef int64_t low = max(section * SECTION_ROWS, self.array.offset)
    cdef int64_t high = min((section + 1) * SECTION_ROWS, self.array.offset + self.array.length)
    cdef const char* fault
    if high <= low:
        return NULL
    fault = run_fault(&self.array, &self.layout, self.data_bytes, low, high - low)
    if fault == NULL:
        fetch_behind(self, low, high)
    return fault


cdef int check_sections(RowCheck* self, int64_t low, int64_t high) except -1 nogil:
    """Check the sections of the positions low to high, both included."""
    cdef const char* fault = NULL
    cdef int64_t n_done = 0
    cdef int64_t section
    for section in range(low // SECTION_ROWS, high // SECTION_ROWS + 1):
        if qc_load(&self.done[section]):
            continue
        fault = section_fault(self, section)
        if fault != NULL:
            break
        # Two threads may both have checked it, with the same result.
        n_done += qc_cas(&self.done[section], 0, 1)
    # Once for all: threads that read the same array write to one cache line here.
    if n_done > 0:
        qc_add(&self.n_left, -n_done)
    return 0 if fault == NULL else raise_fault(self, fault)


cdef int check_picked(RowCheck* self, int64_t first, const uint32_t* rows, int64_t n) except -1 nogil:
    """Check some rows of sections. After single rows have cost as much as all rows would, check whole sections."""
    cdef int64_t i
    cdef const char* fault
    if qc_load(&self.n_picked) < self.array.length:
        qc_add(&self.n_picked, n)
        fault = fault_at_rows(&self.array, &self.layout, self.data_bytes, first, rows, n)
        return 0 if fault == NULL else raise_fault(self, fault)
    for i in range(n):
        check_sections(self, first + rows[i], first + rows[i])
    return 0


cdef int row_check(RowCheck* self, int64_t first, const uint32_t* rows, int64_t n) except -1 nogil:
    cdef int64_t low, high, n_around
    cdef uint32_t least, most
    if n == 0 or qc_load(&self.n_left) == 0:
        return 0
    if rows == NULL:
        return check_sections(self, first, first + n - 1)
    simd_kernels().range(rows, n, &least, &most)
    low = first + least
    high = first + most
    # These are at least a quarter of the rows of their sections. Checking all costs little more and is remembered.
    n_around = min((high // SECTION_ROWS + 1) * SECTION_ROWS, self.array.offset + self.array.length)
    n_around -= max(low // SECTION_ROWS * SECTION_ROWS, self.array.offset)
    if 4 * n >= n_around:
        return check_sections(self, low, high)
    if high // SECTION_ROWS - low // SECTION_ROWS <= 1:
        if qc_load(&self.done[low // SECTION_ROWS]) and qc_load(&self.done[high // SECTION_ROWS]):
            return 0
    return check_picked(self, first, rows, n)


cdef bint row_check_covers(const RowCheck* self, const ArrowArray* array, int64_t first, int64_t n) noexcept nogil:
    # The last buffer of views is the list of the others' sizes, which each export makes anew.
    cdef int64_t n_same = self.array.n_buffers - (1 if self.layout.format[0] == c"v" else 0)
    cdef int64_t i
    if array.n_buffers != self.array.n_buffers:
        return False
    if first < self.array.offset or first + n > self.array.offset + self.array.length:
        return False
    for i in range(n_same):
        if array.buffers[i] != self.array.buffers[i]:
            return False
    return True


cdef class RowChecks:
    """Checks the rows of one array of strings when they are loaded.

    Parameters
    ----------
    name : str
        The column's, for errors.
    array : object with __arrow_c_array__
        Strings or binary values in any layout, past pyarrow's `validate()`.
    data_bytes : int
        The size of the buffer that offsets point into; of views 0.

    Raises
    ------
    ExecutionError
        Counts or buffers of the array do not fit its type.
    """

    def __init__(self, str name, array, int64_t data_bytes):
        cdef bytes held = name.encode()
        cdef ArrowSchema* layout
        cdef ArrowArray* given
        cdef const char* fault
        capsules = array.__arrow_c_array__()
        layout = <ArrowSchema*> PyCapsule_GetPointer(capsules[0], "arrow_schema")
        given = <ArrowArray*> PyCapsule_GetPointer(capsules[1], "arrow_array")
        fault = layout_fault(layout)
        if fault == NULL:
            fault = array_fault(given, layout)
        if fault != NULL:
            raise ExecutionError(explain_fault(fault, held))
        self.check = <RowCheck*> calloc(1, sizeof(RowCheck))
        if self.check == NULL:
            raise MemoryError()
        self.check.owner.references = 1
        self.check.owner.release = row_check_free
        self.check.array = given[0]
        given.release = NULL
        self.check.layout = layout[0]
        layout.release = NULL
        self.check.data_bytes = data_bytes
        self.check.n_sections = (self.check.array.offset + self.check.array.length + SECTION_ROWS - 1) // SECTION_ROWS
        self.check.name = <char*> calloc(len(held) + 1, 1)
        self.check.done = <int64_t*> calloc(self.check.n_sections + 1, sizeof(int64_t))
        if self.check.name == NULL or self.check.done == NULL:
            raise MemoryError()
        memcpy(self.check.name, <const char*> held, len(held))
        # Sections before the array's first row also count. They are marked as checked when they are reached.
        self.check.n_left = self.check.n_sections - self.check.array.offset // SECTION_ROWS

    def __dealloc__(self):
        owner_unref(<Owner*> self.check)

    def require(self, int64_t start, int64_t length):
        """Check rows of the array now. ExecutionError, naming the column, if one is malformed."""
        cdef int64_t first = self.check.array.offset + max(<int64_t> 0, start)
        cdef int64_t end = self.check.array.offset + min(self.check.array.length, start + length)
        if end > first:
            with nogil:
                row_check(self.check, first, NULL, end - first)

    @property
    def n_left(self):
        """The number of sections of 256 rows that are not known to be sound."""
        return qc_load(&self.check.n_left)
