"""Kernels that make text of pieces and repetitions: padding, reversal, parts between delimiters."""

from qcore_ext.compute.kernel cimport Step


cdef bint text_build_bind(Step* step, str name, dict options) except -1
