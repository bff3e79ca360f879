"""Lengths of strings and lists in an ORC file, added up before pyarrow allocates their sum.

pyarrow's decoder does not check whether the allocation succeeds, so one damaged length ends the process.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from qcore_ext.data.byte_cursor cimport ByteCursor, cursor_over, fail, next_byte, next_varint

# The longest string or list in Arrow.
cdef int64_t LENGTH_MAX = 0x7FFFFFFF
cdef uint64_t WORD_MAX = 0xFFFFFFFFFFFFFFFF
cdef const char* LZ4_ENDS_EARLY = b"an LZ4 block ends in the middle"

cdef enum:
    # Run kinds of the second version.
    SHORT_REPEAT = 0
    DIRECT = 1
    PATCHED_BASE = 2
    # Widths of packed values by code: up to 24 each, then these steps.
    CODE_24_BITS = 23
    # The length of literals or of a copy in LZ4 that means that more bytes of the length follow.
    LZ4_MORE = 15
    LZ4_COPY_MIN = 4


cdef struct Runs:
    ByteCursor bytes
    int64_t n
    int64_t total


cdef uint64_t big_endian(ByteCursor* bytes, int n_bytes) noexcept nogil:
    cdef uint64_t value = 0
    cdef int _
    for _ in range(n_bytes):
        value = value << 8 | next_byte(bytes)
    return value


cdef int packed_bits(int code) noexcept nogil:
    """The width of packed values: 1 to 24 bits, 26, 28, 30, 32, and whole bytes up to 64."""
    if code <= CODE_24_BITS:
        return code + 1
    if code <= 27:
        return 24 + 2 * (code - CODE_24_BITS)
    return 32 + 8 * (code - 27)


cdef int closest_bits(int bits) noexcept nogil:
    cdef int code = 0
    while packed_bits(code) < bits:
        code += 1
    return packed_bits(code)


cdef void add(Runs* runs, uint64_t length) noexcept nogil:
    """Add one length. It is unsigned, so that negative lengths are above the limit."""
    if length > <uint64_t> LENGTH_MAX:
        fail(&runs.bytes, b"a string or list is longer than 2 GiB, or its length is negative")
        return
    runs.n += 1
    # At most 2^31 times the values of a stream, which each take a part of a byte: no overflow.
    runs.total += <int64_t> length


cdef void add_series(Runs* runs, uint64_t length, uint64_t step, int64_t n) noexcept nogil:
    cdef int64_t _
    for _ in range(n):
        if runs.bytes.fault != NULL:
            return
        add(runs, length)
        length += step


cdef void unpack(Runs* runs, int bits, int64_t n, uint64_t* out) noexcept nogil:
    """n <= 512 packed values, highest bit first; the rest of the last byte is dropped."""
    cdef uint64_t value
    cdef int64_t i
    cdef int n_held = 0, wanted, taken
    cdef uint8_t held = 0
    if runs.bytes.end - runs.bytes.at < (n * bits + 7) // 8:
        fail(&runs.bytes, b"a stream of lengths ends in the middle")
        return
    for i in range(n):
        value = 0
        wanted = bits
        while wanted > 0:
            if n_held == 0:
                held = runs.bytes.at[0]
                runs.bytes.at += 1
                n_held = 8
            taken = wanted if wanted < n_held else n_held
            value = value << taken | ((held >> (n_held - taken)) & ((1 << taken) - 1))
            n_held -= taken
            wanted -= taken
        out[i] = value


cdef void add_patched(Runs* runs, int bits, int64_t n, uint64_t* values) noexcept nogil:
    """Add values above a base. A patch list has the high bits of some; their positions do not matter for the sum."""
    cdef uint8_t third = next_byte(&runs.bytes)
    cdef uint8_t fourth = next_byte(&runs.bytes)
    cdef int base_bytes = (third >> 5) + 1
    cdef int patch_bits = packed_bits(third & 0x1F)
    cdef int gap_bits = (fourth >> 5) + 1
    cdef int64_t n_patches = fourth & 0x1F
    cdef uint64_t base = big_endian(&runs.bytes, base_bytes)
    cdef uint64_t patch
    cdef int64_t i
    if patch_bits + gap_bits > 64 or n_patches == 0:
        fail(&runs.bytes, b"a run of lengths is no run of ORC")
        return
    if base >> (8 * base_bytes - 1):
        fail(&runs.bytes, b"a string or list is longer than 2 GiB, or its length is negative")
        return
    unpack(runs, bits, n, values)
    for i in range(n):
        if runs.bytes.fault != NULL:
            return
        if values[i] > WORD_MAX - base:
            fail(&runs.bytes, b"a string or list is longer than 2 GiB, or its length is negative")
            return
        add(runs, base + values[i])
    unpack(runs, closest_bits(patch_bits + gap_bits), n_patches, values)
    for i in range(n_patches):
        if runs.bytes.fault != NULL:
            return
        patch = values[i] & (WORD_MAX >> (64 - patch_bits))
        if patch != 0 and (bits >= 31 or patch > <uint64_t> LENGTH_MAX >> bits):
            fail(&runs.bytes, b"a string or list is longer than 2 GiB, or its length is negative")
            return
        runs.total += <int64_t> (patch << bits) if patch != 0 else 0


cdef void add_deltas(Runs* runs, int code, int64_t n, uint64_t* values) noexcept nogil:
    cdef uint64_t length = next_varint(&runs.bytes)
    cdef uint64_t zigzag = next_varint(&runs.bytes)
    cdef uint64_t step = (zigzag >> 1) ^ (0 - (zigzag & 1))
    cdef int64_t i
    if code == 0:
        add_series(runs, length, step, n)
        return
    if n < 2:
        fail(&runs.bytes, b"a run of lengths is no run of ORC")
        return
    add(runs, length)
    length += step
    add(runs, length)
    unpack(runs, packed_bits(code), n - 2, values)
    for i in range(n - 2):
        if runs.bytes.fault != NULL:
            return
        length = length - values[i] if zigzag & 1 else length + values[i]
        add(runs, length)


cdef void add_second_version(Runs* runs) noexcept nogil:
    cdef uint64_t values[512]
    cdef uint8_t head = next_byte(&runs.bytes)
    cdef int kind = head >> 6
    cdef int code = (head >> 1) & 0x1F
    cdef int64_t i, n
    if kind == SHORT_REPEAT:
        add_series(runs, big_endian(&runs.bytes, ((head >> 3) & 7) + 1), 0, (head & 7) + 3)
        return
    n = (<int64_t> (head & 1) << 8 | next_byte(&runs.bytes)) + 1
    if kind == DIRECT:
        unpack(runs, packed_bits(code), n, values)
        for i in range(n):
            if runs.bytes.fault != NULL:
                return
            add(runs, values[i])
    elif kind == PATCHED_BASE:
        add_patched(runs, packed_bits(code), n, values)
    else:
        add_deltas(runs, code, n, values)


cdef void add_first_version(Runs* runs) noexcept nogil:
    cdef uint8_t head = next_byte(&runs.bytes)
    cdef uint64_t step
    cdef int64_t _
    if head < 0x80:
        # The step between neighbours is signed.
        step = next_byte(&runs.bytes)
        step |= WORD_MAX << 8 if step >= 0x80 else 0
        add_series(runs, next_varint(&runs.bytes), step, head + 3)
        return
    for _ in range(0x100 - head):
        if runs.bytes.fault != NULL:
            return
        add(runs, next_varint(&runs.bytes))


def sum_of_lengths(const uint8_t[::1] data, bint second_version):
    """Return how many lengths the bytes of a LENGTH stream hold, and their sum.

    Parameters
    ----------
    data : bytes
        The stream, decompressed.
    second_version : bool
        Whether it is in run-length encoding version 2.

    Raises
    ------
    ValueError
        A run ends after the stream, or a length is negative or above 2^31 - 1.
    """
    cdef Runs runs
    if data.shape[0] == 0:
        return 0, 0
    runs.bytes = cursor_over(
        &data[0], data.shape[0], b"a stream of lengths ends in the middle", b"a length has more than 64 bits",
    )
    runs.n = 0
    runs.total = 0
    with nogil:
        while runs.bytes.at < runs.bytes.end:
            if second_version:
                add_second_version(&runs)
            else:
                add_first_version(&runs)
    if runs.bytes.fault != NULL:
        raise ValueError(runs.bytes.fault.decode())
    return runs.n, runs.total


cdef int64_t lz4_extended(ByteCursor* block, int64_t length) noexcept nogil:
    cdef uint8_t byte = 255
    if length == LZ4_MORE:
        while byte == 255 and block.fault == NULL:
            byte = next_byte(block)
            length += byte
    return length


def lz4_bytes(const uint8_t[::1] data):
    """Return how many bytes a raw LZ4 block decompresses to. ValueError: it ends in the middle."""
    cdef ByteCursor block
    cdef int64_t n_literals, n_bytes = 0
    cdef uint8_t token
    if data.shape[0] == 0:
        return 0
    block = cursor_over(&data[0], data.shape[0], LZ4_ENDS_EARLY, NULL)
    while block.at < block.end:
        token = next_byte(&block)
        n_literals = lz4_extended(&block, token >> 4)
        if n_literals > block.end - block.at:
            fail(&block, LZ4_ENDS_EARLY)
        if block.fault != NULL:
            break
        block.at += n_literals
        n_bytes += n_literals
        # The last sequence has only literals.
        if block.at < block.end:
            next_byte(&block)
            next_byte(&block)
            n_bytes += lz4_extended(&block, token & LZ4_MORE) + LZ4_COPY_MIN
    if block.fault != NULL:
        raise ValueError(block.fault.decode())
    return n_bytes
