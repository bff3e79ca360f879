"""Splits of one source node: added by the application while the task runs, taken first come, first served. Floor E3."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from qcore_ext.ground.atomic cimport qc_add, qc_load
from qcore_ext.ground.lock cimport mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.wait_token cimport (
    WaitList, WaitToken, wait_list_add, wait_list_clear, wait_list_fire, wait_list_take,
)

from qcore_ext.ground.status import PlanError


cdef class SplitQueue:
    """Splits of one source node.

    Parameters
    ----------
    node_id : str
        The source's plan node, for messages.
    """

    def __cinit__(self, str node_id):
        mutex_init(&self.mutex)
        self.node_id = node_id

    def __dealloc__(self):
        self.drop()
        free(self.splits)
        wait_list_clear(&self.waiting)
        mutex_destroy(&self.mutex)

    def add(self, split):
        """Add one split; any object the source's connector can open. PlanError after no_more."""
        cdef PyObject** grown
        cdef WaitList taken
        cdef bint refused = False
        cdef bint full = False
        taken.n_tokens = 0
        taken.tokens = NULL
        mutex_lock(&self.mutex)
        if self.closed:
            refused = True
        elif not self.dropped:
            if self.n_added == self.capacity:
                grown = <PyObject**> realloc(self.splits, (self.capacity * 2 + 16) * sizeof(PyObject*))
                full = grown == NULL
                if not full:
                    self.splits = grown
                    self.capacity = self.capacity * 2 + 16
            if not full:
                Py_INCREF(split)
                self.splits[self.n_added] = <PyObject*> split
                self.n_added += 1
                wait_list_take(&self.waiting, &taken)
        mutex_unlock(&self.mutex)
        if refused:
            raise PlanError(
                f"split {split!r} came for node {self.node_id!r} after no_more_splits; add every split before that call"
            )
        if full:
            raise MemoryError
        wait_list_fire(&taken)

    def no_more(self):
        """Say that no further split comes. Once more does no harm."""
        cdef WaitList taken
        mutex_lock(&self.mutex)
        self.closed = True
        wait_list_take(&self.waiting, &taken)
        mutex_unlock(&self.mutex)
        wait_list_fire(&taken)

    @property
    def n_splits(self):
        """Splits added so far."""
        return qc_load(&self.n_added)

    @property
    def n_finished(self):
        """Splits read to their end so far."""
        return qc_load(&self.n_done)

    @property
    def is_closed(self):
        """Whether no_more was called."""
        return self.closed

    cdef SplitAnswer take(self, PyObject** split, WaitToken* token) except <SplitAnswer> -1 nogil:
        cdef SplitAnswer answer = SPLIT_TAKEN
        mutex_lock(&self.mutex)
        try:
            if self.n_taken < self.n_added:
                split[0] = self.splits[self.n_taken]
                self.n_taken += 1
            elif self.closed or self.dropped:
                answer = SPLIT_NONE
            else:
                wait_list_add(&self.waiting, token)
                answer = SPLIT_WAIT
        finally:
            mutex_unlock(&self.mutex)
        return answer

    cdef void done(self) noexcept nogil:
        qc_add(&self.n_done, 1)

    cdef void drop(self):
        cdef int64_t first, last
        mutex_lock(&self.mutex)
        self.dropped = True
        first = self.n_taken
        last = self.n_added
        self.n_taken = last
        mutex_unlock(&self.mutex)
        while first < last:
            Py_DECREF(<object> self.splits[first])
            first += 1
