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


def snappy_decompress(bytes compressed, int64_t size, bytes other=None, int64_t other_size=0):
    """Decompress raw Snappy to `size` bytes. None: the input is damaged or has another size. For tests.

    With another text both are decompressed together. The result is a pair then, and None if one of them is damaged.
    """
    cdef int64_t n = len(compressed)
    cdef int64_t n_other = len(other) if other is not None else 0
    cdef const char* given = PyBytes_AsString(compressed)
    cdef uint8_t* blocks[4]
    cdef int64_t[4] sizes
    cdef bint whole
    cdef int i
    # The allocations have exactly these sizes, so that a sanitizer finds accesses outside them.
    sizes[:] = [n, size, n_other, other_size]
    for i in range(4):
        blocks[i] = <uint8_t*> malloc(sizes[i] + QP_SLACK)
        memset(blocks[i] + sizes[i], 0xAA, QP_SLACK)
    try:
        memcpy(blocks[0], given, n)
        if other is None:
            whole = qp_snappy(blocks[0], n, blocks[1], size)
        else:
            memcpy(blocks[2], PyBytes_AsString(other), n_other)
            whole = qp_snappy_pair(blocks[0], n, blocks[1], size, blocks[2], n_other, blocks[3], other_size)
        if not whole:
            return None
        made = PyBytes_FromStringAndSize(<char*> blocks[1], size)
        return made if other is None else (made, PyBytes_FromStringAndSize(<char*> blocks[3], other_size))
    finally:
        for i in range(4):
            free(blocks[i])
