"""Encoders of nested values to bytes, which the engine's operators compare and keep, and decoders of these bytes.

The types of the values may widen while the query runs. The bytes of keys that may widen do not depend on the type
(widening_bytes). Blocks contain a number for their type. A decoder returns values of the widest type that the encoders
of the run have seen.
"""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qcore.errors import SchemaChangeError
from qcore.expression.types import compares_by_bytes
from qcore.functions.arrow.nested_blocks import blocks, values_of_blocks
from qcore.functions.arrow.nested_encoding import nested_bytes
from qcore.functions.arrow.nested_values import nested_values
from qcore.functions.arrow.widening_bytes import values_of_widening_bytes, widening_bytes
from qcore.late_module import late_module
from qcore.plan import nodes as p
from qcore.protocols import Operator
from qcore.record import record
from qcore_ext.compute.widener import Widener
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas
from qcore_ext.ground.memory import Account

pc = late_module("pyarrow.compute")

# The tag before a block: the number of its type among the types that the run has seen.
_TAG = np.dtype("<u4")

# A column's name, and how many columns of this name are before it.
SourceColumn = tuple[str, int]


@record(frozen=True, eq=False)
class EncodedValues(p.Unary):
    """The child's rows. With `carries`, blocks replace nested columns. Then follows a column for each pair of `keys`:
    the bytes of a column if it is nested or an interval, else the column itself, under another name.

    Columns of `refused` may not become nested. `widens`: types may become wider than declared. `token` is the same in
    the DecodedValues of the same operator.
    """

    keys: tuple[tuple[str, str], ...]
    carries: bool
    refused: frozenset[str]
    widens: bool
    token: object


@record(frozen=True, eq=False)
class DecodedValues(p.Unary):
    """The child's rows without the columns `dropped`.

    `sources` has the encoder's column for each column of bytes, and `planned` their values' types in the plan. Those of
    `blocks` are blocks. With `carries`, all other columns that the encoder made blocks of are read too.
    """

    sources: tuple[tuple[str, str], ...]
    planned: tuple[tuple[str, pa.DataType], ...]
    blocks: frozenset[str]
    dropped: frozenset[str]
    carries: bool
    widens: bool
    token: object


class HeldTypes:
    """The types of the values that the encoders of one run have seen. Drivers share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._widest: dict[SourceColumn, pa.DataType] = {}
        self._tagged: list[pa.DataType] = []

    def meet(self, source: SourceColumn, type_: pa.DataType) -> int:
        """Record the type of a column's values. Returns the type's tag.

        SchemaChangeError if no type can hold both these values and the earlier ones.
        """
        with self._lock:
            held = self._widest.get(source, type_)
            if held != type_:
                both = [Schema(pa.schema([(source[0], one)])) for one in (held, type_)]
                held = pa.schema(widen_schemas(*both)).field(0).type
            self._widest[source] = held
            if type_ not in self._tagged:
                self._tagged.append(type_)
            return self._tagged.index(type_)

    def widest(self, source: SourceColumn) -> pa.DataType | None:
        """The type that holds all values of a column so far; None if there was no batch."""
        with self._lock:
            return self._widest.get(source)

    def tag_type(self, tag: int) -> pa.DataType:
        """The type with this tag."""
        with self._lock:
            return self._tagged[tag]


def encoded_schema(node: EncodedValues, schema: pa.Schema) -> pa.Schema:
    """The encoder's columns for an input."""
    fields = list(schema)
    if node.carries:
        fields = [field.with_type(pa.binary()) if pa.types.is_nested(field.type) else field for field in fields]
    for name, key in node.keys:
        type_ = schema.field(schema.get_field_index(name)).type
        fields.append(pa.field(key, pa.binary() if compares_by_bytes(type_) else type_))
    return pa.schema(fields)


class _OneForOne(Operator):
    """Returns one batch for each batch."""

    held: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.held is None and not self.finish_called

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given


class ValueEncoder(_OneForOne):
    """The operator of EncodedValues."""

    operator_name = "ValueEncoder"

    def __init__(self, node: EncodedValues, types: HeldTypes) -> None:
        self.node = node
        self.types = types

    def output_schema(self, schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns, then the keys.

        SchemaChangeError if a column has become nested, and a function over a window reads it but does not take nested
        values; or if a key has another type than in the plan, and the plan has no bytes that are equal for both.
        """
        if schema is None:
            return None
        for name, _ in () if self.node.widens else self.node.keys:
            planned, given = self.node.child.schema.field(name).type, schema.field(name).type
            if planned != given:
                raise SchemaChangeError(
                    f"column {name!r} changed from {planned} to {given}: its values are compared as bytes of the first "
                    "type; declare the wider type at the source"
                )
        for name in sorted(self.node.refused):
            type_ = schema.field(schema.get_field_index(name)).type
            if pa.types.is_nested(type_):
                raise SchemaChangeError(
                    f"column {name!r} changed from null to {type_}: a function over a window reads it, but takes no "
                    "lists, structs or maps; use GROUP BY"
                )
        return encoded_schema(self.node, schema)

    def add_input(self, batch: pa.RecordBatch) -> None:
        """Encode the batch's values."""
        columns = list(batch.columns)
        if self.node.carries:
            for i, source in enumerate(_source_columns(batch.schema)):
                tag = self.types.meet(source, columns[i].type)
                if pa.types.is_nested(columns[i].type):
                    columns[i] = _tagged_blocks(columns[i], tag)
        encode = widening_bytes if self.node.widens else nested_bytes
        for name, key in self.node.keys:
            column = batch.column(batch.schema.get_field_index(name))
            self.types.meet((key, 0), column.type)
            columns.append(encode(column) if compares_by_bytes(column.type) else column)
        self.held = pa.RecordBatch.from_arrays(columns, schema=encoded_schema(self.node, batch.schema))


class ValueDecoder(_OneForOne):
    """The operator of DecodedValues."""

    operator_name = "ValueDecoder"

    def __init__(self, node: DecodedValues, types: HeldTypes, account: Account) -> None:
        self.node = node
        self.types = types
        self.account = account

    def output_schema(self, schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns with the types of the values."""
        return None if schema is None else pa.schema([field for _, field, _ in self._columns(schema)])

    def add_input(self, batch: pa.RecordBatch) -> None:
        """Decode the batch's bytes."""
        made = self._columns(batch.schema)
        columns = [self._values(batch.column(i), field, is_block) for i, field, is_block in made]
        self.held = pa.RecordBatch.from_arrays(columns, schema=pa.schema([field for _, field, _ in made]))

    def _columns(self, schema: pa.Schema) -> list[tuple[int, pa.Field, bool | None]]:
        """For each column of the output its position in the input, its field, and whether it has blocks or sortable
        bytes; None if it is not encoded.
        """
        node = self.node
        made: list[tuple[int, pa.Field, bool | None]] = []
        sources = dict(node.sources)
        for i, (field, source) in enumerate(zip(schema, _source_columns(schema), strict=True)):
            if field.name in node.dropped:
                continue
            has_bytes = field.name in sources or node.carries
            source = (sources[field.name], 0) if field.name in sources else source
            type_ = self._type(field.name, source) if has_bytes else None
            if type_ is None or not compares_by_bytes(type_):
                made.append((i, field, None))
                continue
            is_block = field.name in node.blocks or field.name not in sources
            if is_block and not pa.types.is_nested(type_):
                made.append((i, field, None))
                continue
            is_list = pa.types.is_list(field.type)
            made.append((i, field.with_type(pa.list_(type_) if is_list else type_).with_nullable(True), is_block))
        return made

    def _type(self, name: str, source: SourceColumn) -> pa.DataType | None:
        """The widest type of a column's values. None if the encoder does not have the column."""
        type_ = self.types.widest(source)
        if type_ is None and name in dict(self.node.sources):
            # No batch came: the one group of no rows.
            return dict(self.node.planned)[name]
        return type_

    def _values(self, column: pa.Array, field: pa.Field, is_block: bool | None) -> pa.Array:
        if is_block is None:
            return column
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), field.type)
        if is_block:
            return self._of_blocks(column, field)
        if self.node.widens:
            return values_of_widening_bytes(column, field.type, field.name)
        return nested_values(column, field.type)

    def _of_blocks(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Decode tagged blocks."""
        there = column.is_valid().to_numpy(zero_copy_only=False)
        tags = _tags(column)
        met = np.unique(tags[there])
        if len(met) == 1:
            return self._of_one_type(column, int(met[0]), field)
        absent = np.flatnonzero(~there)
        parts, rows = [pa.nulls(len(absent), field.type)], [absent]
        for tag in met:
            at = np.flatnonzero(there & (tags == tag))
            parts.append(self._of_one_type(column.take(pa.array(at)), int(tag), field))
            rows.append(at)
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(rows))))

    def _of_one_type(self, column: pa.Array, tag: int, field: pa.Field) -> pa.Array:
        values = values_of_blocks(column, self.types.tag_type(tag), _TAG.itemsize)
        if values.type == field.type:
            return values
        batch = PyBatch.from_arrow(pa.record_batch([values], [field.name]), self.account, trusted=True)
        wide = Widener(self.account).widen(batch, Schema(pa.schema([field])))
        return pa.record_batch(wide).column(0).cast(field.type)


def _tags(column: pa.Array) -> npt.NDArray[np.int64]:
    """The tag before each block, 0 for nulls."""
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column)].astype(np.int64)
    starts = starts[column.is_valid().to_numpy(zero_copy_only=False)]
    held = np.frombuffer(data or b"", np.uint8)
    tags = np.zeros(len(column), np.int64)
    rows = held[starts[:, None] + np.arange(_TAG.itemsize)]
    tags[column.is_valid().to_numpy(zero_copy_only=False)] = rows.view(_TAG).reshape(-1)
    return tags


def _source_columns(schema: pa.Schema) -> list[SourceColumn]:
    """For each column its name, and its number among the columns of that name."""
    seen: Counter[str] = Counter()
    made = []
    for name in schema.names:
        made.append((name, seen[name]))
        seen[name] += 1
    return made


def _tagged_blocks(values: pa.Array, tag: int) -> pa.Array:
    prefix = pa.scalar(np.array([tag], _TAG).tobytes(), pa.binary())
    return pc.binary_join_element_wise(prefix, blocks(values), pa.scalar(b"", pa.binary()))
