"""Arrow arrays as structs of the C Data interface, in which a test can change any field."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

# Zero bytes allocated behind each buffer. A length that is a little too large reads them: no consumer can find it.
SLACK = 1 << 12


class Schema(ctypes.Structure):
    """ArrowSchema."""


class Array(ctypes.Structure):
    """ArrowArray."""


class Stream(ctypes.Structure):
    """ArrowArrayStream."""


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))
GET_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Stream))
RELEASE_STREAM = ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))
Stream._fields_ = [
    ("get_schema", GET_SCHEMA),
    ("get_next", GET_NEXT),
    ("get_last_error", GET_ERROR),
    ("release", RELEASE_STREAM),
    ("private_data", ctypes.c_void_p),
]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))
def _release_array(array: Any) -> None:
    array.contents.release = None


@ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))
def _release_schema(schema: Any) -> None:
    schema.contents.release = None


class Part:
    """One array of a tree, with its type. A test may change every field before the C structs are made from it.

    Attributes
    ----------
    schema, numbers : dict
        The fields of ArrowSchema, and of ArrowArray.
    buffers : list of bytearray or None
        None is NULL.
    children : list of Part
    dictionary : Part or None
    lost : set of int
        Children whose pointer is NULL in ArrowArray; -1: the dictionary's.
    """

    def __init__(self, schema: Schema, array: Array, sizes: dict[int, int]) -> None:
        self.schema = {key: getattr(schema, key) for key in ("format", "name", "flags", "n_children")}
        numbers = ("length", "null_count", "offset", "n_buffers", "n_children")
        self.numbers = {key: getattr(array, key) for key in numbers}
        self.buffers: list[bytearray | None] = []
        for i in range(array.n_buffers):
            address = array.buffers[i]
            lengths_of_views = self.schema["format"][:1] == b"v" and i == array.n_buffers - 1
            size = 8 * (array.n_buffers - 3) if lengths_of_views else sizes.get(address or 0, 0)
            self.buffers.append(None if not address else bytearray(ctypes.string_at(address, size)))
        self.children: list[Part] = [
            Part(schema.children[i].contents, array.children[i].contents, sizes) for i in range(array.n_children)
        ]
        self.lost: set[int] = set()
        self.dictionary = (
            Part(schema.dictionary.contents, array.dictionary.contents, sizes) if array.dictionary else None
        )

    def copy(self) -> Part:
        """A deep copy of the tree."""
        made = Part.__new__(Part)
        made.schema, made.numbers = dict(self.schema), dict(self.numbers)
        made.buffers = [None if buffer is None else bytearray(buffer) for buffer in self.buffers]
        made.children = [child.copy() for child in self.children]
        made.lost = set(self.lost)
        made.dictionary = None if self.dictionary is None else self.dictionary.copy()
        return made

    def walk(self) -> Iterator[Part]:
        """This part and all below it."""
        yield self
        for child in [*self.children, self.dictionary]:
            if child is not None:
                yield from child.walk()

    def c_schema(self, kept: list[Any]) -> Schema:
        """The type as ArrowSchema. The objects that it points to are appended to `kept`."""
        made = Schema(release=ctypes.cast(_release_schema, ctypes.c_void_p), **self.schema)
        children = [child.c_schema(kept) for child in self.children]
        pointers = (ctypes.POINTER(Schema) * max(1, len(children)))(*map(ctypes.pointer, children))
        made.children = pointers
        if self.dictionary is not None:
            made.dictionary = ctypes.pointer(self.dictionary.c_schema(kept))
        kept += [made, pointers, children]
        return made

    def c_array(self, kept: list[Any]) -> Array:
        """The values as ArrowArray."""
        made = Array(release=ctypes.cast(_release_array, ctypes.c_void_p), **self.numbers)
        buffers = (ctypes.c_void_p * max(1, len(self.buffers)))()
        for i, buffer in enumerate(self.buffers):
            if buffer is not None:
                room = ctypes.create_string_buffer(bytes(buffer), len(buffer) + SLACK)
                buffers[i] = ctypes.addressof(room)
                kept.append(room)
        made.buffers = buffers
        children = [child.c_array(kept) for child in self.children]
        pointers = (ctypes.POINTER(Array) * max(1, len(children)))()
        for i, child in enumerate(children):
            if i not in self.lost:
                pointers[i] = ctypes.pointer(child)
        made.children = pointers
        if self.dictionary is not None and -1 not in self.lost:
            made.dictionary = ctypes.pointer(self.dictionary.c_array(kept))
        kept += [made, buffers, pointers, children]
        return made


def sizes_of(array: pa.Array) -> dict[int, int]:
    """Sizes of an array's buffers, by address."""
    found = {buffer.address: buffer.size for buffer in array.buffers() if buffer is not None}
    parts: list[pa.Array] = []
    if pa.types.is_dictionary(array.type):
        parts = [array.dictionary]
    elif pa.types.is_struct(array.type) or pa.types.is_union(array.type):
        parts = [array.field(i) for i in range(array.type.num_fields)]
    elif pa.types.is_nested(array.type):
        parts = [array.values]
    for part in parts:
        found |= sizes_of(part)
    return found


def part_of(batch: pa.RecordBatch) -> Part:
    """A record batch as a tree of parts."""
    schema, array = Schema(), Array()
    batch._export_to_c(ctypes.addressof(array), ctypes.addressof(schema))
    sizes: dict[int, int] = {}
    for column in batch.columns:
        sizes |= sizes_of(column)
    made = Part(schema, array, sizes)
    for struct in (schema, array):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct.release)(ctypes.addressof(struct))
    return made


#: The objects that exported C structs point to. Callbacks run when the last struct is released, which may be after the
#: producer has been freed.
_ALIVE: deque[list[Any]] = deque(maxlen=200)


class Producer:
    """A producer of streams: each call of `__arrow_c_stream__` gives a stream with the tree as its only batch."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._kept: list[Any] = []
        self._schema: Schema | None = None
        _ALIVE.append(self._kept)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        part, kept = self._part, self._kept
        n_given = 0

        @GET_SCHEMA
        def get_schema(stream: Any, out: Any) -> int:
            if self._schema is None:
                self._schema = part.c_schema(kept)
            ctypes.memmove(out, ctypes.byref(self._schema), ctypes.sizeof(Schema))
            return 0

        @GET_NEXT
        def get_next(stream: Any, out: Any) -> int:
            nonlocal n_given
            n_given += 1
            if n_given > 1:
                ctypes.memset(out, 0, ctypes.sizeof(Array))
            else:
                ctypes.memmove(out, ctypes.byref(part.c_array(kept)), ctypes.sizeof(Array))
            return 0

        @GET_ERROR
        def get_last_error(stream: Any) -> None:
            return None

        @RELEASE_STREAM
        def release(stream: Any) -> None:
            at = ctypes.addressof(stream.contents) + Stream.release.offset
            ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p))[0] = None

        made = Stream(get_schema, get_next, get_last_error, release, None)
        kept += [made, get_schema, get_next, get_last_error, release]
        return _new_capsule(ctypes.addressof(made), b"arrow_array_stream", None)

    def close(self) -> None:
        """Part of the protocol BatchStream. Structs that the engine still holds keep their memory."""
