"""A condition variable whose timeouts follow the monotonic clock."""

from libc.stdint cimport int64_t

from qcore_ext.ground.lock cimport Mutex


cdef extern from "native/condition.h" nogil:
    ctypedef struct Condition "QcCondition":
        pass

    void condition_init "qc_condition_init"(Condition* condition)
    void condition_destroy "qc_condition_destroy"(Condition* condition)
    # `mutex` is locked. Returns False when the time is over. May also return True without a wake-up.
    bint condition_wait "qc_condition_wait"(Condition* condition, Mutex* mutex, int64_t nanos)
    void condition_wake_one "qc_condition_wake_one"(Condition* condition)
    void condition_wake_all "qc_condition_wake_all"(Condition* condition)
