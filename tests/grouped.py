"""HashAggregation over a table, and the same groups in plain Python. Used by tests of the units of aggregation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oracle import assert_same_rows
from qcore.expression.scalars import array_of
from qcore_ext.aggregate.aggregation import HashAggregation, partial_schema
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain


@dataclass(frozen=True)
class Call:
    """One call: `oracle` computes its result from a group's arguments (tuples if there are several), nulls included."""

    function: str
    argument: int | tuple[int, ...]
    type: pa.DataType
    oracle: Callable[[list[Any]], Any]
    filter: int = -1
    distinct: bool = False
    more: tuple[Any, ...] = ()

    def as_tuple(self) -> tuple[Any, ...]:
        return (self.function, self.argument, self.filter, self.distinct, *([self.more] if self.more else []))

    def expected(self, rows: list[tuple[Any, ...]]) -> Any:
        """The result for one group of rows."""
        if self.filter >= 0:
            rows = [row for row in rows if row[self.filter]]
        if isinstance(self.argument, tuple):
            return self.oracle([tuple(row[at] for at in self.argument) for row in rows])
        return self.oracle([row[self.argument] for row in rows] if self.argument >= 0 else rows)


def present(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def hashable(value: Any) -> Any:
    """A hashable key. Keys of one group are equal: all NaNs are one value."""
    return "NaN" if isinstance(value, float) and value != value else value


def groups_of(table: pa.Table, n_keys: int) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Rows by key, in the order in which keys first occur. Without keys there is one group."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {} if n_keys else {(): []}
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        groups.setdefault(tuple(map(hashable, row[:n_keys])), []).append(row)
    return groups


def run_calls(
    table: pa.Table, n_keys: int, calls: list[Call], step: str = "single", memory_limit: int = 0, **options: int
) -> pa.Table:
    """Keys and results. Step 'both' computes partial states of both halves of the table, then final results."""
    source = table.schema
    fields = [source.field(i) for i in range(n_keys)]
    schema = pa.schema([*fields, *(pa.field(f"a{i}", call.type) for i, call in enumerate(calls))])
    tuples = [call.as_tuple() for call in calls]

    def run(step: str, data: object, output: pa.Schema, given: pa.Schema) -> list[pa.RecordBatch]:
        operator = HashAggregation(
            "agg", Account(limit=memory_limit), None, n_keys, tuples, step, Schema(output), **options
        )
        return run_chain([operator], data, given)

    if step == "both":
        middle = pa.schema(partial_schema(Schema(source), n_keys, tuples, Schema(schema)))
        half = table.num_rows // 16 * 8
        states = [run("partial", part, middle, source) for part in (table.slice(0, half), table.slice(half))]
        return pa.Table.from_batches(run("final", [*states[0], *states[1]], schema, middle), schema)
    return pa.Table.from_batches(run(step, table, schema, source), schema)


def check(
    table: pa.Table,
    n_keys: int,
    calls: list[Call],
    steps: Iterable[str] = ("single", "both"),
    ordered: bool = True,
    **options: int,
) -> None:
    """Fail unless each step returns the right groups, if `ordered` in the order in which their keys first occur."""
    rows = [
        (*members[0][:n_keys], *(call.expected(members) for call in calls))
        if members
        else tuple(call.expected(members) for call in calls)
        for members in groups_of(table, n_keys).values()
    ]
    for step in steps:
        got = run_calls(table, n_keys, calls, step, **options)
        columns = [array_of([row[i] for row in rows], field.type) for i, field in enumerate(got.schema)]
        assert_same_rows(got, pa.Table.from_arrays(columns, schema=got.schema), ordered=ordered)


def check_sums(keys: pa.Array, memory: Account | None = None, **options: int) -> None:
    """Sums of numbers and counts by one key, compared with pyarrow's."""
    table = pa.table({"k": keys, "x": pa.array(range(-1000, len(keys) - 1000), pa.int64())})
    schema = pa.schema([table.schema.field("k"), ("s", pa.int64()), ("n", pa.int64())])
    calls = [("sum", 1, -1, False), ("count", -1, -1, False)]
    operator = HashAggregation("agg", memory or Account(), None, 1, calls, "single", Schema(schema), **options)
    got = pa.Table.from_batches(run_chain([operator], table), schema)
    assert_same_rows(got, table.group_by("k").aggregate([("x", "sum"), ([], "count_all")]))


def check_second_start(keys_of: Callable[[np.ndarray], pa.Array]) -> None:
    """Counts of a partial step that returns its groups when it has too many, and then meets the same keys again."""
    rng = np.random.default_rng(35)
    few = rng.permutation(np.tile(np.arange(2000), 64))[: 60 * 2048]
    more = np.arange(3000, 3000 + 2048)  # with these there are too many groups for another batch
    table = pa.table({"k": keys_of(np.concatenate([few, more, few[::-1], more, few]))})
    schema = pa.schema([table.schema.field("k"), ("n", pa.int64())])
    calls = [("count", -1, -1, False)]
    operator = HashAggregation("agg", Account(), None, 1, calls, "partial", Schema(schema), partial_groups_max=4096)
    got = pa.Table.from_batches(run_chain([operator], table.to_batches(max_chunksize=2048)), schema)
    assert len(got) > len(more) + 2000
    assert_same_rows(got.group_by("k").aggregate([("n", "sum")]), table.group_by("k").aggregate([([], "count_all")]))
