"""A source whose first column widens in mid-stream, and its rows cast to the widest type for the oracle (SPEC D6)."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import qcore
from qcore import PlanBuilder, PollPull
from qcore.plan import nodes as p

DAY = datetime.datetime(2020, 1, 1)


def wholes(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, -1, 0, *range(1, 12))) for _ in range(n)]


def decimals(n: int, rng: random.Random) -> list[Any]:
    """Decimals, some of which are integers."""
    return [rng.choice((None, Decimal(rng.randint(-2, 30)) / rng.choice((1, 1, 2, 4)))) for _ in range(n)]


def floats(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, float("nan"), -0.0, rng.randint(-1, 12), 0.1, 0.5, 1e300)) for _ in range(n)]


def narrow_floats(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, -0.0, rng.randint(-1, 12), 0.5, 0.1)) for _ in range(n)]


def large(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, 3, 300, 70_000, 1 << 40, -5)) for _ in range(n)]


def largest(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, 3, 300, (1 << 63) + 1, (1 << 64) + 3, -5)) for _ in range(n)]


def days(n: int, rng: random.Random) -> list[Any]:
    return [None if rng.random() < 0.1 else (DAY + datetime.timedelta(rng.randint(0, 5))).date() for _ in range(n)]


def times(n: int, rng: random.Random) -> list[Any]:
    steps = (0, 0, 43_200, 1_800)
    return [
        None if rng.random() < 0.1 else DAY + datetime.timedelta(rng.randint(0, 5), rng.choice(steps)) for _ in range(n)
    ]


def text(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, "a", "b", "a text of more than twelve bytes")) for _ in range(n)]


def small(n: int, rng: random.Random) -> list[Any]:
    """Values whose sums differ in any order of addition, without NaN."""
    return [rng.choice((None, 0, 1, 2, 5, 11)) for _ in range(n)]


def nothing(n: int, rng: random.Random) -> list[Any]:
    return [None] * n


# By name: the types in order, each with a function that makes its values. The last type is the widest.
KEYS: dict[str, list[tuple[pa.DataType, Any]]] = {
    "integers": [(pa.int16(), wholes), (pa.int32(), wholes), (pa.int64(), large)],
    "unsigned": [(pa.uint8(), lambda n, rng: [abs(v or 0) for v in wholes(n, rng)]), (pa.int64(), large)],
    "past 64 bits": [(pa.int32(), wholes), (pa.decimal128(20, 0), largest), (pa.decimal128(24, 2), largest)],
    "integer to decimal": [(pa.int32(), wholes), (pa.decimal128(12, 2), decimals), (pa.decimal128(24, 4), decimals)],
    "decimal to decimal": [(pa.decimal128(9, 2), decimals), (pa.decimal128(15, 4), decimals)],
    "float to double": [(pa.float32(), narrow_floats), (pa.float64(), floats)],
    "integer to double": [(pa.int16(), wholes), (pa.float32(), narrow_floats), (pa.float64(), floats)],
    "date to timestamp": [(pa.date32(), days), (pa.timestamp("s"), times), (pa.timestamp("us"), times)],
    "null to integer": [(pa.null(), nothing), (pa.int32(), wholes), (pa.int64(), large)],
    "null to decimal": [(pa.null(), nothing), (pa.int32(), wholes), (pa.decimal128(12, 2), decimals)],
    "null to double": [(pa.null(), nothing), (pa.int16(), wholes), (pa.float64(), floats)],
    "null to time": [(pa.null(), nothing), (pa.date32(), days), (pa.timestamp("us"), times)],
    "null to text": [(pa.null(), nothing), (pa.string(), text)],
    "text": [
        (pa.string(), text), (pa.large_string(), text), (pa.string_view(), text),
        (pa.dictionary(pa.int8(), pa.string()), text),
    ],
}  # fmt: skip


class Widening(qcore.SourceOperator):
    """Rows (k, i) whose key changes its type, in each partition from another batch on."""

    def __init__(
        self, name: str, partitions: int, seed: int, prefix: str = "", types: int = 9, values: str | None = None
    ) -> None:
        rng = random.Random(f"{name} {seed}")
        kinds = [(type_, small if values == "sums" else made) for type_, made in KEYS[name][:types]]
        if values == "sums":
            kinds = [(type_, nothing if pa.types.is_null(type_) else made) for type_, made in kinds]
        self.names = (f"{prefix}k", f"{prefix}i", f"{prefix}g")
        self.partitions = partitions
        self.batches = []
        for _ in range(partitions):
            # In any order: a narrow batch may follow a wide one.
            chosen = [rng.choice(kinds) for _ in range(rng.randint(1, 5))]
            self.batches.append([self.batch(*kind, rng) for kind in chosen])
        self.declared = pa.schema(
            [(self.names[0], kinds[0][0]), (self.names[1], pa.int64()), (self.names[2], pa.int8())]
        )
        self.widest = kinds[-1][0]

    def batch(self, type_: pa.DataType, values: Any, rng: random.Random) -> pa.RecordBatch:
        n = rng.choice((0, 1, 7, 40))
        given = values(n, rng)
        keys = pa.array(given, pa.string()).dictionary_encode().cast(type_) if pa.types.is_dictionary(type_) else None
        numbers = [rng.randrange(1 << 40) for _ in range(n)]
        groups = [rng.choice((None, 1, 2, 3)) for _ in range(n)]
        column = pa.array(given, type_) if keys is None else keys
        return pa.record_batch([column, pa.array(numbers, pa.int64()), pa.array(groups, pa.int8())], self.names)

    def output_schema(self, schema: None) -> pa.Schema:
        return self.declared

    def init_local_state(self, cx: Any, global_state: Any) -> Any:
        return iter(self.batches[cx.partition])

    def poll_pull(self, cx: Any, local: Any, global_state: Any, partition: int) -> PollPull:
        batch = next(local, None)
        return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)

    def up_front(self) -> pa.Table:
        type_ = pa.string() if pa.types.is_dictionary(self.widest) else self.widest
        keys = []
        batches = [batch for part in self.batches for batch in part]
        for batch in batches:
            column = batch.column(0)
            if pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type):
                column = pa.array(column.to_pylist(), pa.string())
            keys.append(pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_))
        others = (pa.chunked_array([batch.column(i) for batch in batches], self.declared.types[i]) for i in (1, 2))
        return pa.table([pa.chunked_array(keys, type_), *others], self.names)


def rows_of(source: Widening) -> PlanBuilder:
    return PlanBuilder().source(source, on_schema_change="evolve")


def run(plan: PlanBuilder | p.PlanNode, drivers: int, expected: pa.Table) -> pa.Table:
    """The rows of a task, cast to the expected types. A driver without wide keys returns narrow ones."""
    node = plan.build() if isinstance(plan, PlanBuilder) else plan
    tables = []
    for batch in qcore.Task(node, drivers=drivers, batch_rows=1000).batches(timeout=60):
        columns = []
        for field in expected.schema:
            column = batch.column(batch.schema.get_field_index(field.name))
            if pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type):
                column = pa.array(column.to_pylist(), field.type)
            if pa.types.is_null(column.type):
                column = pa.nulls(len(column), field.type)
            columns.append(column.cast(field.type))
        tables.append(pa.table(columns, schema=expected.schema))
    return pa.concat_tables([expected.slice(0, 0), *tables])


def ask(sql: str, **tables: pa.Table) -> pa.Table:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()
