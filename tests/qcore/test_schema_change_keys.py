"""Keys whose type widens in mid-stream: equal values of old and new types meet, and no others do (SPEC D6).

Both sides of joins change, each driver at a batch of its own, and wide batches hold values that narrow types have not.
The oracle is DuckDB over the same rows cast up front to the widest type.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, PollPull
from qcore.language import plan as p

DAY = datetime.datetime(2020, 1, 1)


def wholes(n: int, rng: random.Random) -> list[Any]:
    return [rng.choice((None, -1, 0, *range(1, 12))) for _ in range(n)]


def decimals(n: int, rng: random.Random) -> list[Any]:
    """Some of them whole."""
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


def nothing(n: int, rng: random.Random) -> list[Any]:
    return [None] * n


# By name: types as they come, each with what makes values of it; the last is the widest.
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
    """Rows (k, i) whose key is of one type after the other, in each partition from another batch on."""

    def __init__(self, name: str, partitions: int, seed: int, prefix: str = "", types: int = 9) -> None:
        rng = random.Random(f"{name} {seed}")
        kinds = KEYS[name][:types]
        self.names = (f"{prefix}k", f"{prefix}i")
        self.partitions = partitions
        self.batches = []
        for _ in range(partitions):
            # In any order: a narrow batch may follow a wide one.
            chosen = [rng.choice(kinds) for _ in range(rng.randint(1, 5))]
            self.batches.append([self.batch(*kind, rng) for kind in chosen])
        self.declared = pa.schema([(self.names[0], kinds[0][0]), (self.names[1], pa.int64())])
        self.widest = kinds[-1][0]

    def batch(self, type_: pa.DataType, values: Any, rng: random.Random) -> pa.RecordBatch:
        n = rng.choice((0, 1, 7, 40))
        given = values(n, rng)
        keys = pa.array(given, pa.string()).dictionary_encode().cast(type_) if pa.types.is_dictionary(type_) else None
        numbers = [rng.randrange(1 << 40) for _ in range(n)]
        return pa.record_batch(
            [pa.array(given, type_) if keys is None else keys, pa.array(numbers, pa.int64())], self.names
        )

    def output_schema(self, schema: None) -> pa.Schema:
        return self.declared

    def init_local_state(self, cx: Any, global_state: Any) -> Any:
        return iter(self.batches[cx.partition])

    def poll_pull(self, cx: Any, local: Any, global_state: Any, partition: int) -> PollPull:
        batch = next(local, None)
        return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)

    def up_front(self) -> pa.Table:
        type_ = pa.string() if pa.types.is_dictionary(self.widest) else self.widest
        keys, numbers = [], []
        for batch in (batch for part in self.batches for batch in part):
            column = batch.column(0)
            if pa.types.is_dictionary(column.type) or pa.types.is_string_view(column.type):
                column = pa.array(column.to_pylist(), pa.string())
            keys.append(pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column.cast(type_))
            numbers.append(batch.column(1))
        return pa.table([pa.chunked_array(keys, type_), pa.chunked_array(numbers, pa.int64())], self.names)


def rows_of(source: Widening) -> PlanBuilder:
    return PlanBuilder().source(source, on_schema_change="evolve")


def run(plan: PlanBuilder | p.PlanNode, drivers: int, expected: pa.Table) -> pa.Table:
    """What a task gives, each batch cast to the expected types: a driver that saw no wide key gives narrow ones."""
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


JOINS = {
    "inner": "select * from t join o on k = ok",
    "left": "select * from t left join o on k = ok",
    "right": "select * from t right join o on k = ok",
    "full": "select * from t full join o on k = ok",
    "left_semi": "select * from t where exists (select 1 from o where ok = k)",
    "left_anti": "select * from t where not exists (select 1 from o where ok = k)",
    "null_aware_anti": "select * from t where k not in (select ok from o)",
}
DRIVERS = (1, 2, 8)


@pytest.mark.parametrize("how", JOINS)
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_both_sides_of_a_join_widen(name: str, how: str) -> None:
    """Probe wider than the table, table wider than the probe, and both, each driver from a batch of its own."""
    for seed in range(6):
        drivers = DRIVERS[seed % 3]
        # One side may stop short of the widest type, or never change.
        n = len(KEYS[name])
        left = Widening(name, drivers, 2 * seed, types=n if seed % 2 else max(1, seed % 4))
        right = Widening(name, drivers, 2 * seed + 1, "o", types=n if seed % 3 else 1)
        plan = rows_of(left).hash_join(rows_of(right), left_on=["k"], right_on=["ok"], how=how)
        expected = ask(JOINS[how], t=left.up_front(), o=right.up_front())
        assert_same_rows(run(plan, drivers, expected), expected)


def test_bounds_of_keys_that_widened_leave_out_no_row_group(tmp_path: Path) -> None:
    """A decimal's bounds are other numbers than those of the integers that the probe's file holds."""
    path = tmp_path / "probe.parquet"
    pq.write_table(pa.table({"n": pa.array(range(100), pa.int32())}), path, row_group_size=10)
    wide = pa.record_batch({"k": pa.array([Decimal("5.00"), Decimal("93.00")], pa.decimal128(12, 2)), "i": [1, 2]})
    for first in ([], [wide]):
        source = Widening("integer to decimal", 1, 0, types=1)
        source.batches = [[*first, wide]]
        plan = PlanBuilder().scan("probe", source=str(path)).hash_join(rows_of(source), left_on=["n"], right_on=["k"])
        result = pa.concat_tables(map(pa.Table.from_batches, ([b] for b in qcore.Task(plan.build()).batches(60))))
        assert sorted(result["n"].to_pylist()) == sorted([5, 93] * (len(first) + 1))


@pytest.mark.parametrize("name", KEYS)
def test_equal_keys_meet_behind_an_exchange_by_hash(name: str) -> None:
    """Each driver counts a key's rows among its own: the counts are right only where equal keys came to one driver."""
    for seed in range(12):
        source = Widening(name, DRIVERS[seed % 3], 100 + seed)
        child = rows_of(source).build()
        schema = child.schema.append(pa.field("n", pa.int64()))
        calls = (p.WindowCall("n", "row_number", None, 1, p.WindowFrame("rows", None, 0)),)
        plan = p.Window("window", schema, child, ("k",), (p.SortKey("i"),), calls)
        expected = ask("select k, i, row_number() over (partition by k order by i) n from t", t=source.up_front())
        assert_same_rows(run(plan, 8, expected), expected)


@pytest.mark.parametrize("name", KEYS)
def test_equal_keys_come_to_one_partition_of_the_output(name: str) -> None:
    """PartitionedOutput: pages of a consumer hold all rows of their keys."""
    for seed in range(6):
        source = Widening(name, DRIVERS[seed % 3], 200 + seed)
        task = qcore.Task(rows_of(source).partitioned_output("k", 5).build(), drivers=DRIVERS[seed % 3])
        task.start()
        buffers = task.output_buffers()
        seen: dict[Any, int] = {}
        n_rows = 0
        for partition in range(5):
            for page in pages_of(buffers, partition):
                n_rows += page.num_rows
                for key in page.column(0).to_pylist():
                    assert seen.setdefault(normal(key), partition) == partition, f"{key!r} is in two partitions"
        task.wait(timeout=60)
        assert n_rows == source.up_front().num_rows


def pages_of(buffers: qcore.OutputBuffers, partition: int) -> Iterator[pa.RecordBatch]:
    """All pages of a partition."""
    sequence, complete = 0, False
    while not complete:
        pages = buffers.fetch(partition, sequence, timeout=60)
        yield from map(pa.record_batch, pages.batches)
        sequence, complete = pages.next_sequence, pages.complete
        buffers.acknowledge(partition, sequence)


def normal(key: Any) -> Any:
    """One Python value for equal keys."""
    if isinstance(key, float) and key != key:
        return "NaN"
    if isinstance(key, datetime.date) and not isinstance(key, datetime.datetime):
        return datetime.datetime(key.year, key.month, key.day)
    return key
