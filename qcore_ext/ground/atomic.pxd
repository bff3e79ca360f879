"""Atomic operations on int64 counters, pointers and flags of a byte."""

from libc.stdint cimport int64_t, uint8_t


cdef extern from "native/atomic.h" nogil:
    int64_t qc_add(int64_t* counter, int64_t by)
    int64_t qc_drop(int64_t* references)
    int64_t qc_fetch_add(int64_t* counter, int64_t by)
    int64_t qc_load(const int64_t* value)
    void qc_store(int64_t* value, int64_t to)
    int64_t qc_swap(int64_t* value, int64_t to)
    bint qc_cas(int64_t* value, int64_t expected, int64_t desired)
    void* qc_load_pointer(void** value)
    void* qc_swap_pointer(void** value, void* to)
    bint qc_cas_pointer(void** value, void* expected, void* desired)
    uint8_t qc_flag_get(const uint8_t* flag)
    void qc_flag_set(uint8_t* flag)
