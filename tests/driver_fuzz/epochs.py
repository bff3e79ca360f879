"""Sources whose schema changes in mid-stream (SPEC D6).

A table's rows are cut into parts, each under a schema of its own: columns missing, added, in another order, of narrower
or wider types, text in any layout. The oracle sees the rows cast up front to the widest schema.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import qcore
from driver_fuzz.user_operators import pieces, short_wait
from qcore import IterOutcome, PlanBuilder, PollPull
from qcore_ext.data.schema import Schema
from qcore_ext.data.widening import widen_schemas

# Types that hold a number of the tables, each wider than the one before. The null type may come before all of them.
EXACT = (pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0), pa.decimal128(24, 2))
INEXACT = (pa.int16(), pa.float32(), pa.float64())
TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
ADDED = pa.field("extra", pa.int16())


@dataclass
class Epochs:
    """A table's rows in parts of different schemas."""

    declared: pa.Schema
    widest: pa.Schema
    batches: list[pa.RecordBatch]
    # The rows under the schema `widest`, without added columns; text as string.
    table: pa.Table
    in_conflict: bool = False

    def list_changes(self) -> dict[str, str]:
        """The kind of change of each declared column whose widest type is not the declared one."""
        found = {}
        for field in self.declared:
            now = self.widest.field(field.name).type
            if is_text(field.type) or field.type == now:
                continue
            found[field.name] = kind_of(field.type, now)
        return found


def kind_of(declared: pa.DataType, widest: pa.DataType) -> str:
    """The kind of change. Kinds are ordered: more operators refuse the greater of two."""
    if pa.types.is_integer(declared) and pa.types.is_integer(widest):
        return "integer"
    if pa.types.is_null(declared):
        return "from null"
    return "real" if pa.types.is_floating(widest) else "wider"


def is_text(type_: pa.DataType) -> bool:
    return type_ in TEXTS


def epochs_of(table: pa.Table, kind: str, rng: random.Random) -> Epochs:
    """The table's rows in parts with different schemas.

    'declared': the source declares the widest schema. 'beyond': it declares the table's schema or a narrower one.
    'conflict': as 'beyond', and no type holds a column of one part together with that of the others.
    """
    types = {field.name: types_of(field, rng) for field in table.schema}
    parts = [piece for batch in table.to_batches(max_chunksize=200) for piece in pieces(batch, rng)]
    schemas = [epoch_schema(types, rng) for _ in range(rng.randint(1, 4))]
    base = pa.schema([(name, of[0]) for name, of in types.items()])
    if kind != "declared" and rng.random() < 0.5:
        base = table.schema
    chosen = [rng.choice(schemas) for _ in parts]
    widest = pa.schema([(field.name, field.type) for field in base])
    for schema in [table.schema] * (kind == "declared") + chosen:
        widest = pa.schema(widen_schemas(Schema(widest), Schema(schema)))
    batches, columns = [], []
    for part, schema in zip(parts, chosen, strict=True):
        batches.append(under(part, schema))
        columns.append(up_front(part, schema, widest, table.schema.names))
    empty = up_front(table.slice(0, 0), table.schema, widest, table.schema.names)
    made = Epochs(
        pa.schema([widest.field(name) for name in table.schema.names]) if kind == "declared" else base,
        widest,
        batches,
        pa.concat_tables([empty, *columns]),
    )
    # A null column may change to any type.
    numbers = [field.name for field in base if not is_text(field.type) and not pa.types.is_null(field.type)]
    if kind == "conflict" and numbers:
        wrong = pa.schema([(rng.choice(numbers), pa.string())])
        made.batches.insert(rng.randint(0, len(batches)), pa.record_batch([pa.array(["one"])], wrong))
        made.in_conflict = True
    return made


def types_of(field: pa.Field, rng: random.Random) -> list[pa.DataType]:
    """Some of the types that hold the column's values, the narrowest first."""
    if is_text(field.type):
        return rng.sample(TEXTS, rng.choice((1, 1, 2, 4)))
    if rng.random() < 0.5:
        return [field.type]
    chain = EXACT if rng.random() < 0.8 else INEXACT
    first = rng.randrange(len(chain) - 1)
    made = list(chain[first : rng.randint(first + 1, len(chain))])
    return [pa.null(), *made] if rng.random() < 0.15 else made


def epoch_schema(types: dict[str, list[pa.DataType]], rng: random.Random) -> pa.Schema:
    """The schema of one part: a type for each column, columns missing or added, in any order."""
    fields = [pa.field(name, rng.choice(of)) for name, of in types.items()]
    if rng.random() < 0.2:
        fields.remove(rng.choice(fields))
    if rng.random() < 0.2:
        fields.append(ADDED)
    if rng.random() < 0.3:
        rng.shuffle(fields)
    return pa.schema(fields)


def under(part: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The part's rows under a schema that may lack columns and values: they become null."""
    columns = []
    for field in schema:
        at = part.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.array([i % 7 for i in range(part.num_rows)], field.type))
        elif pa.types.is_null(field.type):
            columns.append(pa.nulls(part.num_rows))
        elif is_text(field.type):
            columns.append(in_layout(part.column(at), field.type))
        else:
            columns.append(part.column(at).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def in_layout(text: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return text.dictionary_encode().cast(type_)
    return pa.array(text.to_pylist(), type_)


def up_front(part: Any, schema: pa.Schema, widest: pa.Schema, names: Iterable[str]) -> pa.Table:
    """The part's rows as its schema holds them, cast to the widest types; text as string."""
    made = {}
    for name in names:
        to = pa.string() if is_text(widest.field(name).type) else widest.field(name).type
        at = schema.get_field_index(name)
        if at < 0 or pa.types.is_null(to) or pa.types.is_null(schema.field(at).type):
            made[name] = pa.nulls(part.num_rows, to)
        else:
            made[name] = part.column(name).cast(to)
    return pa.table(made)


# --- sources ---


class Queue:
    """The batches of one run. Each goes to the partition that reads next."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.left = iter(batches)
        self.lock = threading.Lock()

    def next(self) -> pa.RecordBatch | None:
        with self.lock:
            return next(self.left, None)


class ChangingSource(qcore.SourceOperator):
    """A polled source of the batches (G1)."""

    def __init__(self, epochs: Epochs, partitions: int, seed: int) -> None:
        self.epochs = epochs
        self.partitions = partitions
        self.seed = seed

    def output_schema(self, schema: None) -> pa.Schema:
        return self.epochs.declared

    def init_global_state(self, cx: Any) -> Queue:
        return Queue(self.epochs.batches)

    def init_local_state(self, cx: Any, global_state: Queue) -> random.Random:
        return random.Random(self.seed + cx.partition)

    def poll_pull(self, cx: Any, local: random.Random, global_state: Queue, partition: int) -> PollPull:
        if local.random() < 0.1:
            cx.waker().wake()
            return PollPull.PENDING
        batch = global_state.next()
        return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)


class MadeSources:
    """Makes sources for one driver: each returns all batches."""

    def __init__(self, epochs: Epochs, made: Callable[[MadeSources], Any], seed: int) -> None:
        self.epochs = epochs
        self.made = made
        self.seeds = itertools.count(seed)

    def __call__(self) -> Any:
        return self.made(self)


class IteratingSource(qcore.BatchIterator):
    """An iterator over the batches (D2)."""

    def __init__(self, of: MadeSources) -> None:
        self.of = of
        self.left = iter(of.epochs.batches)
        self.rng = random.Random(next(of.seeds))

    def output_schema(self, schema: Any) -> pa.Schema:
        return self.of.epochs.declared

    def next(self) -> Any:
        if self.rng.random() < 0.1:
            return short_wait(self.rng, "user")
        old, self.batch = self.schema, next(self.left, None)
        if self.batch is None:
            return IterOutcome.NONE
        return IterOutcome.OK if self.batch.schema.equals(old or pa.schema([])) else IterOutcome.OK_NEW_SCHEMA


class PushingSource(qcore.Operator):
    """An operator that returns the batches (V5)."""

    is_over = False

    def __init__(self, of: MadeSources) -> None:
        self.of = of
        self.left = iter(of.epochs.batches)
        self.rng = random.Random(next(of.seeds))

    def output_schema(self, schema: Any) -> pa.Schema:
        return self.of.epochs.declared

    def get_output(self) -> pa.RecordBatch | None:
        batch = next(self.left, None)
        self.is_over = batch is None
        return batch

    def is_blocked(self) -> qcore.Blocked | None:
        return short_wait(self.rng, "user") if self.rng.random() < 0.1 else None

    def is_finishing(self) -> bool:
        return self.is_over


def changing(epochs: Epochs, rng: random.Random) -> PlanBuilder:
    """The rows from a source in one of the three protocols."""
    made = rng.choice((ChangingSource, IteratingSource, PushingSource))
    partitions, seed = rng.randint(1, 3), rng.getrandbits(32)
    if made is ChangingSource:
        factory: Any = ChangingSource(epochs, partitions, seed)
    else:
        factory, partitions = MadeSources(epochs, made, seed), 1
    return PlanBuilder().source(factory, epochs.declared, partitions, on_schema_change="evolve")
