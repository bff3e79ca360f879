"""Splits of one source node: added by the application while the task runs, taken first come, first served."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from qcore_ext.ground.atomic cimport qc_add, qc_cas, qc_load, qc_swap
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.wait_token cimport (
    WaitToken, wait_set_add, wait_set_clear, wait_set_fire, wait_set_fire_all, wait_set_remove,
)

from qcore_ext.ground.error_text import show_value
from qcore_ext.ground.status import PlanError

cdef extern from "native/clz.h" nogil:
    int qc_log2_ceil(uint64_t value)

cdef enum:
    FIRST_CHUNK = 16
    RANGE_TAG = 1               # in the lowest bit of an entry


cdef int chunk_of(
    int64_t number,
    int64_t* position,             # OUT
) noexcept nogil:
    """Return the chunk of split `number`, and its position within the chunk."""
    cdef int chunk = qc_log2_ceil(<uint64_t> (number // FIRST_CHUNK + 2)) - 1
    position[0] = number - FIRST_CHUNK * (((<int64_t> 1) << chunk) - 1)
    return chunk


cdef RowRange* range_of(PyObject* entry) noexcept nogil:
    """The row range of an entry; NULL: the entry is a split object, or NULL."""
    return <RowRange*> (<size_t> entry & ~<size_t> RANGE_TAG) if <size_t> entry & RANGE_TAG else NULL


cdef void entry_drop(PyObject* entry) noexcept:
    """Drop an entry that no driver took."""
    if range_of(entry) != NULL:
        free(range_of(entry))
    elif entry != NULL:
        Py_DECREF(<object> entry)


cdef class SplitQueue:
    """Splits of one source node.

    Parameters
    ----------
    node_id : str
        The source's plan node, for messages.
    """

    def __cinit__(self, str node_id):
        mutex_init(&self.mutex, LOCK_STRUCTURE)
        self.node_id = node_id
        self.range_rows = -1
        self.range_splits = []

    def __dealloc__(self):
        cdef int64_t number, position
        cdef int i, chunk
        self.drop()
        for number in range(self.n_added):
            chunk = chunk_of(number, &position)
            free(range_of(self.chunks[chunk][position]))
        for i in range(SPLIT_CHUNKS):
            free(self.chunks[i])
        wait_set_clear(&self.waiting)
        mutex_destroy(&self.mutex)

    def take_row_ranges(self, int64_t n_rows):
        """Take splits with integers `start` and `length` as ranges of that many stored rows.

        Called before the first split is added. Splits without them, or outside the rows, are objects for the connector.
        """
        self.range_rows = n_rows

    cdef PyObject* entry_of(self, split) except NULL:
        """The split as a row range if it is one, otherwise a new reference to it."""
        cdef RowRange* range_
        start, length = getattr(split, "start", None), getattr(split, "length", None)
        if self.range_rows < 0 or type(start) is not int or type(length) is not int:
            Py_INCREF(split)
            return <PyObject*> split
        if start < 0 or length < 0 or start + length > self.range_rows:
            Py_INCREF(split)
            return <PyObject*> split
        range_ = <RowRange*> calloc(1, sizeof(RowRange))
        if range_ == NULL:
            raise MemoryError
        range_.start = start
        range_.length = length
        range_.split = <PyObject*> split
        self.range_splits.append(split)
        return <PyObject*> (<size_t> range_ | RANGE_TAG)

    def add(self, split):
        """Add one split: any object that the source's connector can open. Raises PlanError after no_more."""
        cdef bint refused = False
        cdef bint full = False
        cdef bint unwanted = False
        cdef int chunk
        cdef int64_t position
        cdef PyObject* entry = self.entry_of(split)
        mutex_lock(&self.mutex)
        if self.closed:
            refused = True
        elif self.dropped:
            unwanted = True
        else:
            chunk = chunk_of(self.n_added, &position)
            if self.chunks[chunk] == NULL:
                self.chunks[chunk] = <PyObject**> calloc(<int64_t> FIRST_CHUNK << chunk, sizeof(PyObject*))
                full = self.chunks[chunk] == NULL
            if not full:
                self.chunks[chunk][position] = entry
                entry = NULL
                qc_swap(&self.n_added, self.n_added + 1)        # from here on drivers see it
        mutex_unlock(&self.mutex)
        entry_drop(entry)
        if refused:
            raise PlanError(
                f"split {show_value(split)} came for node {self.node_id!r} after no_more_splits; "
                "add every split before that call"
            )
        if full:
            raise MemoryError
        if not unwanted:
            wait_set_fire(&self.waiting)

    def no_more(self):
        """Declare that no further split comes. Calling it again has no effect."""
        mutex_lock(&self.mutex)
        qc_swap(&self.closed, 1)
        mutex_unlock(&self.mutex)
        wait_set_fire_all(&self.waiting)

    @property
    def n_splits(self):
        """Splits added so far."""
        return qc_load(&self.n_added)

    @property
    def n_finished(self):
        """Splits that were read to their end so far."""
        return qc_load(&self.n_done)

    @property
    def is_closed(self):
        """Whether no_more was called."""
        return bool(qc_load(&self.closed))

    cdef PyObject* claim(self) noexcept nogil:
        cdef int64_t number, position
        cdef int chunk
        while True:
            number = qc_load(&self.n_taken)
            if number >= qc_load(&self.n_added):
                return NULL
            if qc_cas(&self.n_taken, number, number + 1):
                chunk = chunk_of(number, &position)
                qc_check(self.chunks[chunk] != NULL and position >= 0, b"a split that was added is in a chunk")
                return self.chunks[chunk][position]

    cdef SplitAnswer take(
        self, PyObject** split, RowRange** range_, WaitToken* token,
    ) except <SplitAnswer> -1 nogil:
        cdef int attempt
        cdef bint none_to_come
        for attempt in range(2):
            # Read first: a thread that sees no_more also sees every split added before it.
            none_to_come = qc_load(&self.closed) != 0 or qc_load(&self.dropped) != 0
            split[0] = self.claim()
            if split[0] != NULL or none_to_come:
                if attempt > 0:
                    wait_set_remove(&self.waiting, token)
                range_[0] = range_of(split[0])
                if range_[0] != NULL:
                    split[0] = NULL
                    return SPLIT_TAKEN
                return SPLIT_TAKEN if split[0] != NULL else SPLIT_NONE
            if attempt == 0:
                wait_set_add(&self.waiting, token)
        return SPLIT_WAIT

    cdef void done(self) noexcept nogil:
        qc_add(&self.n_done, 1)

    cdef void drop(self) noexcept:
        cdef PyObject* split
        mutex_lock(&self.mutex)
        qc_swap(&self.dropped, 1)
        mutex_unlock(&self.mutex)
        split = self.claim()
        while split != NULL:
            if range_of(split) == NULL:         # ranges are freed with the queue
                Py_DECREF(<object> split)
            split = self.claim()
