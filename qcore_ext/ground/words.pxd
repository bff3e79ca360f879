"""Fused types of kernels, and the 16-byte word.

A kernel that moves values chooses its type by width (`Word`). A kernel that computes chooses it by the kind of value.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


ctypedef struct Word128:
    # Decimals and views of strings: moved and compared as a whole.
    uint64_t low
    uint64_t high

ctypedef fused Word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Word128

ctypedef fused Unsigned:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Signed:
    int8_t
    int16_t
    int32_t
    int64_t

ctypedef fused Integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused SmallInteger:
    int8_t
    int16_t
    int32_t
    uint8_t
    uint16_t
    uint32_t

ctypedef fused Real:
    float
    double
