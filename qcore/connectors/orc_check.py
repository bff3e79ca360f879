"""Checks of an ORC file, made before pyarrow decodes it.

pyarrow's decoder allocates memory for the counts in a file: the sum of the lengths of a stripe's strings, the elements
of its lists, its rows, its dictionaries, and its blocks of decompression. If it cannot, it ends the process. This
module compares each count with the bytes that the file has for it. It decodes footers and the LENGTH streams of the
columns that a query reads. It decodes other streams only if a count is much larger than the stream.

pyarrow also ends the process if a decimal has too many digits or a map has a null key, so these are checked too.
pyarrow itself reports streams that end early, indices outside a dictionary and damaged values; these are not checked
here. Files compressed with LZO are an error, because this module cannot decompress them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from qcore.record import record
from qcore_ext.data.orc_lengths import lz4_bytes, sum_of_lengths

MAGIC = b"ORC"
POSTSCRIPT_BYTES_MAX = 256
# Three bytes before each compressed chunk: twice its size, plus one if it is stored as it is.
CHUNK_HEAD_BYTES = 3
BLOCK_BYTES_MAX = 1 << 23
# The most values that a byte of any stream can hold: 1,040 bits of a bitmap take two bytes.
VALUES_PER_BYTE_MAX = 520
# Counts up to this many times the compressed bytes, plus PLAUSIBLE_BYTES, are accepted without decoding the stream.
PLAUSIBLE_RATIO = 8
PLAUSIBLE_BYTES = 1 << 20
DEPTH_MAX = 64

COMPRESSIONS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
STRINGS = {7, 8, 16, 17}
LIST, MAP, DECIMAL = 10, 11, 14
DECIMAL_DIGITS_MAX = 38
PRESENT, DATA, LENGTH, DICTIONARY_DATA = range(4)
# Kinds of streams that lie before a stripe's data.
INDEX_STREAMS = {6, 7, 8, 9, 100, 101}
N_ENCODINGS = 4
DICTIONARY_ENCODINGS = {1, 3}
SECOND_VERSIONS = {2, 3}
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


@record
class _Type:
    kind: int = 0
    digits: int = 0
    children: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


@record
class _Stream:
    kind: int
    column: int
    start: int
    length: int


@record
class _Stripe:
    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    n_rows: int


class OrcFootprint:
    """What an ORC file claims to hold, read from its tail.

    Parameters
    ----------
    file : pyarrow.NativeFile
        Open for reading, and seekable; its position changes.

    Raises
    ------
    pyarrow.ArrowInvalid
        The tail is damaged, or the file is compressed in a way that is not known here.
    OSError
        The file cannot be read.
    """

    def __init__(self, file: Any) -> None:
        self._size = file.size()
        if self._size < len(MAGIC) + 2:
            raise pa.ArrowInvalid("the file is too short for an ORC file")
        tail = _read(file, max(0, self._size - POSTSCRIPT_BYTES_MAX), min(self._size, POSTSCRIPT_BYTES_MAX))
        n = tail[-1]
        postscript = _numbers(_fields(tail[max(0, len(tail) - 1 - n) : -1]))
        self._compression = postscript.get(2, 0)
        self._block_bytes = postscript.get(3, 0)
        if self._compression >= len(COMPRESSIONS):
            raise pa.ArrowInvalid(f"the file is compressed with ORC's codec {self._compression}, which is unknown")
        if COMPRESSIONS[self._compression] == "lzo":
            raise pa.ArrowInvalid("the file is compressed with LZO, which qcore cannot read; write it with zstd")
        if self._compression and not 0 < self._block_bytes <= BLOCK_BYTES_MAX:
            raise pa.ArrowInvalid(f"its blocks have {self._block_bytes} bytes; ORC's have up to {BLOCK_BYTES_MAX}")
        footer_bytes = postscript.get(1, 0)
        if footer_bytes + postscript.get(5, 0) + n + 1 > self._size:
            raise pa.ArrowInvalid("its footer is longer than the file")
        self._types: list[_Type] = []
        self._stripes: list[_Stripe] = []
        self._read_footer(self.decompress_stream(_read(file, self._size - 1 - n - footer_bytes, footer_bytes)))

    def _read_footer(self, footer: bytes) -> None:
        for number, value in _fields(footer):
            if number == 3 and isinstance(value, bytes):
                held = _numbers(_fields(value))
                stripe = _Stripe(*(held.get(key, 0) for key in range(1, 6)))
                if stripe.offset + stripe.index_bytes + stripe.data_bytes + stripe.footer_bytes > self._size:
                    raise pa.ArrowInvalid("a stripe of it lies outside the file")
                self._stripes.append(stripe)
            elif number == 4 and isinstance(value, bytes):
                self._types.append(_type(value))
        for number, type in enumerate(self._types):
            # pyarrow demands it too; a circle would never end.
            if any(not number < child < len(self._types) for child in type.children):
                raise pa.ArrowInvalid("its types do not form a tree")
            if type.kind == DECIMAL and type.digits > DECIMAL_DIGITS_MAX:
                raise pa.ArrowInvalid(f"a decimal of it has {type.digits} digits; Arrow's have up to 38")

    def require_sound(self, file: Any, number: int, names: Sequence[str]) -> None:
        """Compare the claims of a stripe, about some of the file's columns, with its bytes.

        Raises pyarrow.ArrowInvalid if one cannot be true, OSError if the file cannot be read.
        """
        if number >= len(self._stripes) or not self._types:
            raise pa.ArrowInvalid("its stripes are not those of its footer")
        stripe = self._stripes[number]
        start = stripe.offset + stripe.index_bytes + stripe.data_bytes
        footer = self.decompress_stream(_read(file, start, stripe.footer_bytes))
        streams, encodings = _stripe_footer(footer, stripe.offset)
        if len(encodings) < len(self._types):
            raise pa.ArrowInvalid("a stripe of it has fewer encodings than columns")
        end = stripe.offset + stripe.index_bytes + stripe.data_bytes
        if any(stream.start + stream.length > end for stream in streams.values()):
            raise pa.ArrowInvalid("a stream of it lies outside its stripe")
        root = self._types[0]
        wanted = [child for child, name in zip(root.children, root.names, strict=False) if name in set(names)]
        checked = _StripeCheck(self, file, streams, encodings)
        checked.require_values(stripe.n_rows, [0, *wanted], "rows")
        for column in wanted:
            checked.require_column(column)

    def decompress_stream(self, raw: bytes) -> bytes:
        """Decompress a stream. ArrowInvalid if it is damaged."""
        return b"".join(self.chunks(raw))

    def chunks(self, raw: bytes) -> Iterator[bytes]:
        """Decompress a stream chunk by chunk. ArrowInvalid if one is damaged or larger than a block."""
        if not self._compression:
            yield raw
            return
        at = 0
        while at < len(raw):
            head = int.from_bytes(raw[at : at + CHUNK_HEAD_BYTES], "little")
            at += CHUNK_HEAD_BYTES
            end = at + (head >> 1)
            if end > len(raw):
                raise pa.ArrowInvalid("a compressed chunk of it ends after its stream")
            chunk = raw[at:end]
            at = end
            yield chunk if head & 1 else self._decompress_chunk(chunk)

    def _decompress_chunk(self, chunk: bytes) -> bytes:
        name = COMPRESSIONS[self._compression]
        try:
            if name == "zlib":
                out = zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, self._block_bytes + 1)
            elif name == "zstd":
                with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
                    out = stream.read(self._block_bytes + 1)
            else:
                n = _varint(chunk, 0)[0] if name == "snappy" else lz4_bytes(chunk)
                if n > self._block_bytes:
                    raise pa.ArrowInvalid("a compressed chunk of it is larger than its blocks")
                codec = pa.Codec("snappy" if name == "snappy" else "lz4_raw")
                out = codec.decompress(chunk, n, asbytes=True) if n else b""
        except (zlib.error, OSError, ValueError) as error:
            raise pa.ArrowInvalid(f"a compressed chunk of it is damaged: {error}") from error
        if len(out) > self._block_bytes:
            raise pa.ArrowInvalid("a compressed chunk of it is larger than its blocks")
        return out

    def type(self, column: int) -> _Type:
        """Return the type of a column by its number; 0 is the struct of all."""
        return self._types[column]


class _StripeCheck:
    """The check of one stripe."""

    def __init__(
        self,
        footprint: OrcFootprint,
        file: Any,
        streams: dict[tuple[int, int], _Stream],
        encodings: list[tuple[int, int]],
    ) -> None:
        self._footprint = footprint
        self._file = file
        self._streams = streams
        self._encodings = encodings

    def require_column(self, column: int, depth: int = 0) -> None:
        """Check a column and those below it."""
        if depth > DEPTH_MAX:
            raise pa.ArrowInvalid(f"its types are nested more than {DEPTH_MAX} times")
        type = self._footprint.type(column)
        encoding, n_entries = self._encodings[column]
        if type.kind in STRINGS:
            has_dictionary = encoding in DICTIONARY_ENCODINGS
            n_lengths, total = self._lengths(column, encoding)
            if has_dictionary and n_entries > n_lengths:
                raise pa.ArrowInvalid(f"a dictionary of it has {n_lengths} lengths of {n_entries} entries")
            self._require_bytes(total, column, DICTIONARY_DATA if has_dictionary else DATA)
        elif type.kind in (LIST, MAP):
            total = self._lengths(column, encoding)[1]
            self.require_values(total, type.children, "elements")
            if type.kind == MAP and type.children:
                self._require_keys(total, type.children[0])
        for child in type.children:
            self.require_column(child, depth + 1)

    def require_values(self, n: int, columns: Sequence[int], what: str) -> None:
        """Check that the streams of columns, and of those below them, can hold n values."""
        streams = [stream for column in columns for stream in self._below(column)]
        if n <= PLAUSIBLE_RATIO * sum(stream.length for stream in streams) + PLAUSIBLE_BYTES:
            return
        if n > VALUES_PER_BYTE_MAX * sum(self._n_bytes(stream) for stream in streams):
            raise pa.ArrowInvalid(f"it claims to have {n} {what}, more than its streams can hold")

    def _require_keys(self, n: int, column: int) -> None:
        stream = self._streams.get((column, PRESENT))
        if stream is None:
            return
        raw = self._footprint.decompress_stream(_read(self._file, stream.start, stream.length))
        if not _all_present(raw, n):
            raise pa.ArrowInvalid("a map of it has a key that is null")

    def _below(self, column: int) -> Iterator[_Stream]:
        for key, stream in self._streams.items():
            if key[0] == column:
                yield stream
        if column > 0:
            for child in self._footprint.type(column).children:
                yield from self._below(child)

    def _lengths(self, column: int, encoding: int) -> tuple[int, int]:
        """How many lengths a column has, and their sum."""
        stream = self._streams.get((column, LENGTH))
        if stream is None:
            return 0, 0
        raw = self._footprint.decompress_stream(_read(self._file, stream.start, stream.length))
        try:
            return sum_of_lengths(raw, encoding in SECOND_VERSIONS)
        except ValueError as error:
            raise pa.ArrowInvalid(f"column {column} of a stripe: {error}") from error

    def _require_bytes(self, total: int, column: int, kind: int) -> None:
        stream = self._streams.get((column, kind))
        if total <= (PLAUSIBLE_RATIO * stream.length if stream is not None else 0) + PLAUSIBLE_BYTES:
            return
        if stream is None or total > self._n_bytes(stream):
            raise pa.ArrowInvalid(f"column {column} of a stripe claims to have {total} bytes of text, more than it has")

    def _n_bytes(self, stream: _Stream) -> int:
        """The size of a stream, decompressed."""
        return sum(map(len, self._footprint.chunks(_read(self._file, stream.start, stream.length))))


def _all_present(raw: bytes, n: int) -> bool:
    """Whether the first n bits of a run-length encoded bitmap, as far as it goes, are ones."""
    at = 0
    while n > 0 and at < len(raw):
        head = raw[at]
        # A byte that repeats, or bytes as they are.
        n_bytes = 1 if head < 0x80 else 0x100 - head
        held = raw[at + 1 : at + 1 + n_bytes] * (head + 3 if head < 0x80 else 1)
        at += 1 + n_bytes
        whole, rest = divmod(min(n, 8 * len(held)), 8)
        if held[:whole] != b"\xff" * whole or (rest and held[whole] >> (8 - rest) != (1 << rest) - 1):
            return False
        n -= 8 * len(held)
    return True


def _read(file: Any, start: int, n: int) -> bytes:
    file.seek(start)
    out: bytes = file.read(n)
    if len(out) < n:
        raise pa.ArrowInvalid("it ends before its footer says so")
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned number of up to 64 bits: (number, offset after it)."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise pa.ArrowInvalid("a message of it ends in the middle")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protocol Buffers: (number, value). Fixed ones, which ORC has none of, are left out."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == BYTES:
            length, at = _varint(data, at)
        elif wire in (FIXED_64, FIXED_32):
            length = 8 if wire == FIXED_64 else 4
        else:
            raise pa.ArrowInvalid("a message of it has a field of an unknown kind")
        if at + length > len(data):
            raise pa.ArrowInvalid("a message of it ends in the middle")
        if wire == BYTES:
            yield key >> 3, data[at : at + length]
        at += length


def _numbers(fields: Iterator[tuple[int, int | bytes]]) -> dict[int, int]:
    """The fields that are numbers; the last of each counts."""
    return {number: value for number, value in fields if isinstance(value, int)}


def _type(data: bytes) -> _Type:
    made = _Type()
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            made.kind = value
        elif number == 5 and isinstance(value, int):
            made.digits = value & 0xFFFFFFFF
        elif number == 2:
            # Packed or one by one.
            if isinstance(value, int):
                made.children.append(value & 0xFFFFFFFF)
            else:
                at = 0
                while at < len(value):
                    child, at = _varint(value, at)
                    made.children.append(child & 0xFFFFFFFF)
        elif number == 3 and isinstance(value, bytes):
            made.names.append(value.decode("utf-8", "surrogateescape"))
    return made


def _stripe_footer(data: bytes, start: int) -> tuple[dict[tuple[int, int], _Stream], list[tuple[int, int]]]:
    """The streams of a stripe with values, by column and kind; each column's encoding and size of its dictionary."""
    streams: dict[tuple[int, int], _Stream] = {}
    encodings = []
    for number, value in _fields(data):
        if number not in (1, 2) or not isinstance(value, bytes):
            continue
        held = _numbers(_fields(value))
        if number == 2:
            encodings.append((held.get(1, 0), held.get(2, 0) & 0xFFFFFFFF))
            if encodings[-1][0] >= N_ENCODINGS:
                raise pa.ArrowInvalid("a column of it has an unknown encoding")
            continue
        stream = _Stream(held.get(1, 0), held.get(2, 0) & 0xFFFFFFFF, start, held.get(3, 0))
        start += stream.length
        if stream.kind in INDEX_STREAMS:
            continue
        if (stream.column, stream.kind) in streams:
            raise pa.ArrowInvalid("a column of it has two streams of one kind")
        streams[stream.column, stream.kind] = stream
    return streams, encodings
