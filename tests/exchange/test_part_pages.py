"""Pages of radix parts between LocalPartition and HashAggregation. SPEC V2, Q2, D6."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hash_model import hash_row

from oracle import assert_same_rows
from qcore import PlanBuilder
from qcore.config import Settings
from qcore.connectors.arrow import ArrowTable
from qcore.errors import PlanError
from qcore.plan import nodes as p
from qcore.session.result import Result
from qcore_ext.aggregate.aggregation import HashAggregation
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.local_exchange import LocalExchange
from qcore_ext.exchange.local_partition import LocalPartition
from qcore_ext.flow.batch_queue import BatchQueue
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import KEY_TYPES, TEXTS, plain, random_table


def partition(data: Any, keys: list[str], n: int, limit: int = 0, **options: int) -> list[list[pa.RecordBatch]]:
    """The batches of each of n queues. Pages begin with the first row, unless `options` say otherwise."""
    memory = Account(limit=limit)
    queues = [BatchQueue(1, batches_max=10_000, bytes_max=1 << 40) for _ in range(n)]
    given = {"paged_rows_min": 0, "page_rows": 2048, **options}
    run_chain([LocalPartition("1", memory, queues, "hash", keys, by_part=True, **given)], data)
    return [run_chain([LocalExchange("1", memory, queue, Schema(pa.schema([])))]) for queue in queues]


def part_of(row: tuple[Any, ...]) -> int:
    return (hash_row(row) >> 40) & 255


@pytest.mark.each_value
@pytest.mark.parametrize("type_", [*KEY_TYPES, pa.null(), pa.month_day_nano_interval()], ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3])
@pytest.mark.parametrize("n", [2, 3, 100, 256])
def test_rows_come_once_in_pages_of_their_part(type_: pa.DataType, null_share: float, n: int) -> None:
    """Each queue gets its parts, and within each part the rows in their order. Rows with text come as selections."""
    if pa.types.is_null(type_):
        table = pa.table({"j": pa.array(range(5000), pa.int64()), "x": pa.nulls(5000)})
    else:
        table = random_table(11, 5000, {"j": pa.int32(), "x": type_}, null_share, n_distinct={"j": 700}, extremes=True)
    keys = table["j"].to_pylist()
    values = plain(table)["x"].to_pylist()
    wanted: list[list[int]] = [[] for _ in range(256)]
    for id, key in enumerate(keys):
        wanted[part_of((key,))].append(id)
    table = table.append_column("id", pa.array(range(5000), pa.int64()))
    found: dict[int, list[int]] = {}
    for queue, batches in enumerate(partition(table, ["j"], n)):
        for batch in batches:
            ids = batch["id"].to_pylist()
            parts = [part_of((keys[id],)) for id in ids]
            assert {part * n // 256 for part in parts} == {queue}
            assert len(set(parts)) == 1 or type_ in (*TEXTS, pa.uuid())
            for id, part in zip(ids, parts, strict=True):
                found.setdefault(part, []).append(id)
            got = plain(pa.Table.from_batches([batch]).select(["x"]))
            assert_same_rows(got, pa.table({"x": pa.array([values[id] for id in ids], got["x"].type)}), ordered=True)
    assert [found.get(part, []) for part in range(256)] == wanted


@pytest.mark.parametrize(
    "types", [[pa.uint8()], [pa.int64()], [pa.decimal128(38, 10)], [pa.int16(), pa.decimal128(12, 2)]], ids=str
)
def test_equal_keys_are_in_pages_of_one_part(types: list[pa.DataType]) -> None:
    """The part is bits 40 to 47 of the hash, also of several keys."""
    table = random_table(12, 4000, types, 0.1, extremes=True)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    keys = table.column_names
    given = partition(table.append_column("id", pa.array(range(4000), pa.int64())), keys, 5)
    for queue, batches in enumerate(given):
        for batch in batches:
            (part,) = {part_of(rows[id]) for id in batch["id"].to_pylist()}
            assert part * 5 // 256 == queue
    assert sorted(id for part in given for batch in part for id in batch["id"].to_pylist()) == list(range(4000))


def test_pages_become_full_within_vectors() -> None:
    """A hundredth of the rows has the same key. Its part is full when the others have more than a quarter."""
    n_rows = 320_000
    rng = np.random.default_rng(4)
    k = np.where(rng.random(n_rows) < 0.01, 7, rng.integers(0, 1 << 60, n_rows))
    x = pa.array(rng.integers(0, 100, n_rows), mask=rng.random(n_rows) < 0.1)
    table = pa.table({"k": k, "x": x, "flag": pa.array(k % 2 == 0), "id": range(n_rows)})
    given = partition(table.to_batches(max_chunksize=50_000), ["k"], 3)
    sizes = [batch.num_rows for part in given for batch in part]
    assert max(sizes) <= 2048
    assert len(sizes) == 3 * 256
    got = pa.Table.from_batches([batch for part in given for batch in part])
    assert got.sort_by("id").columns == table.columns


def test_skewed_rows_come_as_selections() -> None:
    """If one key has most rows, the pages of the other parts would have few."""
    n_rows = 100_000
    rng = np.random.default_rng(5)
    table = pa.table({"k": np.where(rng.random(n_rows) < 0.9, 7, np.arange(n_rows)), "id": range(n_rows)})
    given = partition(table.to_batches(max_chunksize=5000), ["k"], 2)
    assert sum(map(len, given)) < 2 * 256 + 2 * 20
    assert_same_rows(pa.Table.from_batches([batch for part in given for batch in part]), table)


def test_few_rows_and_little_memory_make_no_pages() -> None:
    table = pa.table({"k": range(50_000), "id": range(50_000)})
    batches = table.to_batches(max_chunksize=10_000)
    for options in ({"paged_rows_min": 50_000}, {"limit": 8 << 20}):
        given = partition(batches, ["k"], 2, **options)
        assert [len(part) for part in given] == [5, 5]
        assert_same_rows(pa.Table.from_batches([batch for part in given for batch in part]), table)


def test_bad_arguments_are_refused() -> None:
    queues = [BatchQueue(1) for _ in range(257)]
    with pytest.raises(PlanError, match="round_robin local partition into 2 queues cannot be by part"):
        LocalPartition("1", Account(), queues[:2], "round_robin", by_part=True)
    with pytest.raises(PlanError, match="hash local partition into 257 queues cannot be by part"):
        LocalPartition("1", Account(), queues, "hash", ["k"], by_part=True)
    with pytest.raises(PlanError, match="a page has at least 2048 rows, not 2047"):
        LocalPartition("1", Account(), queues[:2], "hash", ["k"], by_part=True, page_rows=2047)


def group(
    producers: list[list[pa.RecordBatch]], declared: pa.Schema, output: pa.Schema, n: int, **options: int
) -> tuple[pa.Table, int]:
    """The rows of all producers grouped by k, with count and sum of x; and the number of rows that came in pages."""
    memory = Account()
    queues = [BatchQueue(len(producers), batches_max=10_000, bytes_max=1 << 40) for _ in range(n)]
    given = {"paged_rows_min": 0, "page_rows": 2048, **options}
    sinks = [
        LocalPartition("1", memory, queues, "hash", ["k"], Schema(declared), by_part=True, **given) for _ in producers
    ]
    for sink, batches in zip(sinks, producers, strict=True):
        run_chain([sink], batches)
    out: list[pa.RecordBatch] = []
    n_paged = 0
    for queue in queues:
        calls = [("count", -1, -1, False), ("sum", 1, -1, False)]
        groups = HashAggregation(
            "2", memory, None, 1, calls, "single", Schema(output), input_schema=Schema(declared), radix_groups_min=1000
        )
        out += run_chain([LocalExchange("1", memory, queue, Schema(declared)), groups])
        n_paged += groups.stats_snapshot()["groups"]["paged"]
    return pa.Table.from_batches(out), n_paged


OUTPUT = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.int64())])


@pytest.mark.parametrize("paged_rows_min", [0, 30_000, 1 << 40])
@pytest.mark.parametrize("n_keys", [300, 40_000])
def test_groups_of_pages_and_of_other_rows_are_one(paged_rows_min: int, n_keys: int) -> None:
    """Rows before the first page, pages, and a table that is not partitioned yet when the first page comes."""
    n_rows = 100_000
    rng = np.random.default_rng(6)
    table = pa.table({
        "k": pa.array(rng.integers(0, n_keys, n_rows) * 1_000_003, mask=rng.random(n_rows) < 0.01),
        "x": pa.array(rng.integers(-100, 100, n_rows), mask=rng.random(n_rows) < 0.1),
    })  # fmt: skip
    batches = table.to_batches(max_chunksize=10_000)
    got, n_paged = group([batches], table.schema, OUTPUT, 3, paged_rows_min=paged_rows_min)
    wanted = table.group_by("k").aggregate([([], "count_all"), ("x", "sum")]).rename_columns(OUTPUT.names)
    assert_same_rows(got, wanted)
    assert n_paged == {0: n_rows, 30_000: n_rows - 30_000, 1 << 40: 0}[paged_rows_min]


@pytest.mark.parametrize(
    ("types", "n_paged"), [(["narrow wide narrow wide", "narrow"], 40_000), (["wide", "narrow"], 0)], ids=str
)
def test_wider_keys_meet_those_of_pages(types: list[str], n_paged: int) -> None:
    """Some rows have integers, others floats. Equal keys of both types have hashes of different parts.

    Rows that are widened after the exchange, and rows that were wider before it, have no part.
    """
    numbers = pa.array(np.arange(40_000) % 9000, pa.int32())
    narrow = pa.record_batch({"k": numbers, "x": np.ones(40_000, np.int64)})
    batches = {"narrow": narrow, "wide": narrow.set_column(0, "k", numbers.cast(pa.float64()))}
    producers = [[batches[name] for name in given.split()] for given in types]
    output = pa.schema([("k", pa.int32()), ("n", pa.int64()), ("s", pa.int64())])
    got, found_paged = group(producers, narrow.schema, output, 3)
    counts = pa.table({"k": numbers.cast(pa.float64())}).group_by("k").aggregate([([], "count_all")])
    n = pa.compute.multiply(counts["count_all"], sum(map(len, producers)))
    assert_same_rows(got, pa.table({"k": counts["k"], "n": n, "s": n}))
    assert found_paged == n_paged


@pytest.mark.parametrize("threads", [2, 5])
def test_a_query_passes_pages_through_queues(threads: int) -> None:
    """Queues are full of pages for a while. With five drivers some have too few rows for pages."""
    n_rows = 700_000
    rng = np.random.default_rng(7)
    table = pa.table({
        "k": pa.array(rng.integers(0, 300_000, n_rows) * 1_000_000_007, mask=rng.random(n_rows) < 0.01),
        "x": pa.array(rng.integers(-(2**47), 2**47, n_rows), mask=rng.random(n_rows) < 0.1),
        "d": pa.array(rng.integers(0, 10**6, n_rows)).cast(pa.decimal128(38, 0)),
    })  # fmt: skip
    calls = {"n": ("count",), "t": ("sum", "x"), "m": ("min", "d")}
    plan = PlanBuilder({"t": ArrowTable(table)}).scan("t").aggregate(["k"], calls).build()
    assert isinstance(plan, p.Aggregate)
    result = Result(replace(plan, partition_keys=(0,)), Settings(threads=threads))
    got = result.to_arrow().sort_by("k")
    wanted = table.group_by("k").aggregate([([], "count_all"), ("x", "sum"), ("d", "min")])
    wanted = wanted.sort_by("k").rename_columns(got.column_names)
    assert got.columns == wanted.cast(got.schema).columns
    operators = [operator for pipeline in result.stats()["pipelines"] for operator in pipeline["operators"]]
    (paged,) = [operator["groups"]["paged"] for operator in operators if "groups" in operator]
    assert paged >= n_rows - threads * 2 * 131_072 and (paged > 0 or threads == 5)
