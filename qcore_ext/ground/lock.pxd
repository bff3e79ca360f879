"""A mutex that counts its acquisitions. Floor E0."""

from libc.stdint cimport int64_t


cdef extern from "native/lock.h" nogil:
    ctypedef struct Mutex "QcMutex":
        int64_t acquisitions

    void mutex_init "qc_mutex_init"(Mutex* mutex)
    void mutex_destroy "qc_mutex_destroy"(Mutex* mutex)
    void mutex_lock "qc_mutex_lock"(Mutex* mutex)
    void mutex_unlock "qc_mutex_unlock"(Mutex* mutex)
