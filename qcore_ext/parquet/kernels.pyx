"""Decoders of Parquet's pages and encodings, and functions that call them in tests."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from qcore_ext.ground.dispatch import instruction_set

cdef extern from "parquet/native/kernels_all.h" nogil:
    const QpKernels* qp_kernels_of(const char* instruction_set)


cdef const QpKernels* parquet_kernels() except NULL:
    name = instruction_set().encode()
    return qp_kernels_of(name)


def snappy_decompress(bytes compressed, int64_t size):
    """Decompress raw Snappy to `size` bytes. None: the input is damaged or has another size. For tests."""
    cdef int64_t n = len(compressed)
    cdef const char* given = PyBytes_AsString(compressed)
    cdef uint8_t* source
    cdef uint8_t* out
    cdef bint whole
    # The allocation has exactly this size, so that a sanitizer finds accesses outside it.
    source = <uint8_t*> malloc(n + QP_SLACK)
    out = <uint8_t*> malloc(size + QP_SLACK)
    try:
        memset(source + n, 0xAA, QP_SLACK)
        memcpy(source, given, n)
        whole = qp_snappy(source, n, out, size)
        return PyBytes_FromStringAndSize(<char*> out, size) if whole else None
    finally:
        free(source)
        free(out)
