"""A reader of Thrift's compact encoding, in which Parquet stores footers and page headers."""

from __future__ import annotations

# Thrift compact types.
BOOL_TRUE, BOOL_FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class FooterDamaged(ValueError):
    """The bytes are not a Thrift struct of the expected form."""


class ThriftReader:
    """A cursor over bytes in compact encoding. IndexError at the end of the bytes.

    Attributes
    ----------
    data : bytes
        The encoded struct, and perhaps bytes after it.
    at : int
        Offset of the next byte.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def varint(self) -> int:
        """Read an unsigned integer: seven bits a byte, lowest first."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def integer(self) -> int:
        """Read a signed integer in zigzag encoding."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def field(self, last: int) -> tuple[int, int] | None:
        """Read the head of a struct's next field: (id, type), or None at the end. `last` is the previous id."""
        head = self.data[self.at]
        self.at += 1
        if head == 0:
            return None
        delta = head >> 4
        return (last + delta if delta else self.integer()), head & 0x0F

    def list_head(self) -> tuple[int, int]:
        """Read the head of a list: (length, element type)."""
        head = self.data[self.at]
        self.at += 1
        length = head >> 4
        return (self.varint() if length == 15 else length), head & 0x0F

    def skip(self, type: int) -> None:
        """Skip a value. FooterDamaged for a map or an unknown type, which Parquet does not use."""
        if type in (BOOL_TRUE, BOOL_FALSE):
            return
        if type == I8:
            self.at += 1
        elif type in (I16, I32, I64):
            self.varint()
        elif type == DOUBLE:
            self.at += 8
        elif type == BINARY:
            length = self.varint()
            self.at += length
        elif type in (LIST, SET):
            length, element = self.list_head()
            for _ in range(length):
                self.at += 1 if element in (BOOL_TRUE, BOOL_FALSE) else 0
                self.skip(element)
        elif type == STRUCT:
            last = 0
            while (head := self.field(last)) is not None:
                last = head[0]
                self.skip(head[1])
        else:
            raise FooterDamaged(f"unexpected Thrift type {type}")
