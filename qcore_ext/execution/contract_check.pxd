"""Checked mode (QCORE_DEBUG=1): a check between a driver and an operator that both follow the contract."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.lock cimport N_LOCK_SITES
from qcore_ext.flow.operator cimport Operator


cdef class ContractCheck(Operator):
    cdef readonly Operator checked      # the operator behind it
    cdef readonly str broken            # a breach by a call that cannot raise, or None
    cdef bint is_broken
    cdef PyObject* upstream             # ContractCheck; borrowed, because the driver keeps the chain; NULL at the ends
    cdef PyObject* downstream
    cdef void* chain                    # the same for all checks of a driver
    cdef int64_t inside                 # atomic; a call is under way
    cdef bint opened
    cdef bint hungry                    # needs_input answered true, and no batch was accepted since
    cdef bint finish_called
    cdef bint finished
    cdef bint abandoned
    cdef bint failed
    cdef bint closed
    cdef CSchema* bound                 # owned
    cdef const Batch* refused           # the batch refused last
    cdef int64_t locks_before[N_LOCK_SITES]
    cdef int64_t locks[N_LOCK_SITES]    # locks taken in needs_input, add_input and get_output

    cdef const char* end_of_calls(self) noexcept nogil
    cdef bint left_twice(self) noexcept nogil
    cdef int enter(self, const char* call) except -1 nogil
    cdef int leave(self) except -1 nogil
    # The error for the breach `what`; without it, for the breach that `note` kept.
    cdef object error(self, what=*)
    cdef int refuse(self, str what) except -1
    cdef int refuse_call(self, const char* call, const char* when) except -1 nogil
    cdef int refuse_misuse(self, const char* call, const char* when) except -1 nogil
    cdef int check_answer(self, int answer, Batch** out, bint registered) except -1 nogil
    cdef void note(self, str what)
    cdef void* enter_quietly(self, const char* call, int64_t* allocations) noexcept nogil
    cdef void leave_quietly(self, const char* call, void* before, int64_t allocations) noexcept nogil
    cdef void count_locks(self, int by) noexcept nogil
    cdef dict lock_counters(self)


# One for each operator of a driver, source first.
cdef list contract_checks(list operators)
