"""Kernels that build text: padding, repetition, reversal, joining and splitting."""

from qcore_ext.compute.kernel cimport Step


cdef bint text_build_bind(Step* step, str name, dict options) except -1
