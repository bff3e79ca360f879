"""Groups of rows that come in the order of their key: whole groups at once, and ends that are merged."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle import assert_same_rows
from qcore import ExecutionError, MemoryLimitError, Session
from qcore_ext.aggregate.aggregation import HashAggregation, partial_schema
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain

N = 80_000
KEY_TYPES: dict[pa.DataType, int] = {
    pa.int8(): -128, pa.int16(): -32768, pa.int32(): -(2**31), pa.int64(): -(2**63), pa.uint8(): 0, pa.uint16(): 0,
    pa.uint32(): 0, pa.uint64(): 2**64 - N, pa.date32(): -5, pa.timestamp("us"): -(2**40), pa.timestamp("ns"): 2**60,
}  # fmt: skip


# Types of keys that the row groups of files are asked for.
NARROW = [type for type in KEY_TYPES if pa.types.is_integer(type) and type != pa.uint64()]


def lengths_of_groups(rng: np.random.Generator, longest: int) -> np.ndarray:
    """The lengths of groups of N rows: most short, a few long."""
    is_long = rng.random(N) < min(0.1, 6 / longest)
    lengths = np.where(is_long, rng.integers(1, longest, N), rng.integers(1, 5, N))
    return lengths[: int(np.searchsorted(np.cumsum(lengths), N)) + 1]


@functools.cache
def ordered_table(type: pa.DataType, chunk_rows: int, longest: int = 3000, seed: int = 1) -> pa.Table:
    """Keys in order, from the lowest given value on, with gaps; numbers with nulls, a text and a flag."""
    rng = np.random.default_rng(seed)
    lengths = lengths_of_groups(rng, longest)
    steps = rng.integers(1, 3, len(lengths)) if not pa.types.is_integer(type) or type.bit_width >= 32 else 1
    groups = np.cumsum(np.broadcast_to(steps, len(lengths)))
    if pa.types.is_integer(type) and type.bit_width < 32:
        groups = groups * 2**type.bit_width // (int(groups[-1]) + 1)
    keys = np.repeat(groups, lengths)[:N]
    if type == pa.uint64():
        keys = np.minimum(keys, N - 1)
    stored = pa.int32() if pa.types.is_date32(type) else pa.int64() if pa.types.is_timestamp(type) else type
    k = pa.array([int(key) + KEY_TYPES[type] for key in keys], stored).view(type)
    table = pa.table({
        "k": k,
        "x": pa.array(rng.integers(-1000, 1000, N), mask=rng.random(N) < 0.1),
        "f": rng.random(N),
        "s": [f"a text of many bytes {i % 977}" if i % 7 else None for i in range(N)],
        "b": rng.random(N) < 0.3,
        "i": pa.array(range(N), pa.int32()),
    })  # fmt: skip
    return pa.concat_tables([table.slice(at, chunk_rows) for at in range(0, N, chunk_rows)])


CALLS = (
    "count(*) as n, count(x) as c, sum(x) as t, min(s) as low, max(s) as high, avg(x) as mean, stddev(f) as dev, "
    "sum(x) filter (where b) as part, bool_or(b) as any_b"
)


def check_query(sql: str, table: pa.Table, threads: int, in_order: bool | None = True, path: str | None = None) -> int:
    """Compare with DuckDB's rows. Returns how many groups were runs. A `path` is that of files with the table."""
    session = Session(threads=threads)
    result = session.sql(sql, {"t": table if path is None else path})
    got = result.to_arrow()
    operators = [one for pipeline in result.stats()["pipelines"] for one in pipeline["operators"]]
    n_runs = sum(one["groups"]["runs"] for one in operators if one.get("groups"))
    assert in_order is None or (n_runs > 0) == (in_order and got.num_rows > 0)
    with duckdb.connect() as oracle:
        oracle.register("t", table)
        assert_same_rows(got, oracle.sql(sql).to_arrow_table())
    return int(n_runs)


@pytest.mark.parametrize("type", [type for type in KEY_TYPES if type.bit_width > 16], ids=str)
def test_keys_of_each_type(type: pa.DataType) -> None:
    check_query(f"select k, {CALLS} from t group by k", ordered_table(type, 40_000), threads=2)


@pytest.mark.parametrize("type", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16()], ids=str)
def test_narrow_keys(type: pa.DataType) -> None:
    """A type of 8 bits may have too few values for the optimizer. The operator takes it as any other."""
    check_partial(ordered_table(type, N).select(["k", "x"]).slice(0, 20_000).to_batches(max_chunksize=4096))
    in_order = True if type.bit_width == 16 else None
    check_query(f"select k, {CALLS} from t group by k", ordered_table(type, 40_000), 2, in_order)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("chunk_rows", [N, 16_384, 700])
@pytest.mark.parametrize("longest", [5, 3000, 60_000])
def test_groups_over_the_ends_of_batches(threads: int, chunk_rows: int, longest: int) -> None:
    """Groups of one row, of several batches and of several splits."""
    table = ordered_table(pa.int64(), chunk_rows, longest, seed=longest)
    check_query(f"select k, {CALLS} from t group by k", table, threads)


@pytest.mark.parametrize(
    "where",
    ["i % 3 = 0", "x > 990", "i between 40000 and 41000", "i = 70000", "i < 0", "i % 4096 in (0, 1)", "x is null"],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_a_filter_drops_do_not_matter(where: str, threads: int) -> None:
    table = ordered_table(pa.int64(), 10_000, longest=40)
    check_query(f"select k, {CALLS} from t where {where} group by k", table, threads)
    check_query(f"select y, count(*) as n from (select k as y, x from t where {where}) group by y", table, threads)


def test_a_condition_on_groups() -> None:
    table = ordered_table(pa.int32(), 33_000, longest=50)
    check_query("select k, sum(f) as t from t group by k having count(*) > 20", table, threads=2)
    check_query("select count(*) as n from (select k, sum(x) from t group by k having sum(x) > 500)", table, threads=2)


def test_one_row_for_each_group() -> None:
    """More groups than a driver keeps, several times in a batch."""
    table = pa.table({"k": range(300_000), "x": [i % 13 for i in range(300_000)]})
    check_query("select k, sum(x) as t from t group by k", table, threads=2)
    check_query("select distinct k from t", table, threads=2)


def test_the_statistics_name_the_groups() -> None:
    table = pa.table({"k": np.arange(200_000) // 3})
    result = Session(threads=2).sql("select k, count(*) from t group by k", {"t": table})
    result.to_arrow()
    text = result.explain(analyze=True)
    assert "as runs of equal keys" in text and "whole before the exchange" in text
    operators = [one for pipeline in result.stats()["pipelines"] for one in pipeline["operators"]]
    partial, final = (one["groups"] for one in operators if one["name"] == "HashAggregation")
    assert partial["runs"] > final["whole"] > 60_000
    assert partial["table"] == partial["array"] == partial["passed"] == 0
    assert final["whole"] + final["array"] + final["table"] == 66_667


def test_a_table_whose_memory_is_changed_is_an_error() -> None:
    """The order was found when the query was planned."""
    keys = np.arange(400_000) // 2
    table = pa.table({"k": keys})
    session = Session(threads=2)
    session.register("t", table)
    assert session.sql("select k, count(*) from t group by k").to_arrow().num_rows == 200_000
    keys[1000:2000] = keys[1000:2000][::-1].copy()
    with pytest.raises(ExecutionError, match="do not change the memory of a table that is in use"):
        session.sql("select k, count(*) from t group by k").to_arrow()


# --- row groups of files ---


def write_groups(folder: Path, table: pa.Table, group_rows: int, n_files: int = 1) -> str:
    """Write a table as Parquet files in a folder. The files' names are not in the order of their rows."""
    n = -(-table.num_rows // n_files // group_rows) * group_rows
    for i in range(n_files):
        pq.write_table(table.slice(i * n, n), folder / f"{(i * 7 + 3) % 10}.parquet", row_group_size=group_rows)
    return str(folder)


@pytest.mark.parametrize("type", [type for type in KEY_TYPES if type in NARROW], ids=str)
def test_row_groups_with_keys_of_each_type(type: pa.DataType, tmp_path: Path) -> None:
    table = ordered_table(type, N)
    path = write_groups(tmp_path, table, 9000)
    in_order = True if type.bit_width > 8 else None
    assert check_query(f"select k, {CALLS} from t group by k", table, 2, in_order, path) > 1000 or in_order is None


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("group_rows", "n_files"), [(1000, 1), (7000, 4), (N, 1)])
@pytest.mark.parametrize("longest", [5, 3000, 60_000])
def test_groups_over_the_ends_of_row_groups(
    threads: int, group_rows: int, n_files: int, longest: int, tmp_path: Path
) -> None:
    """Row groups share the keys at their bounds; some have one key."""
    table = ordered_table(pa.int64(), N, longest, seed=longest)
    path = write_groups(tmp_path, table, group_rows, n_files)
    check_query(f"select k, {CALLS} from t group by k", table, threads, path=path)
    check_query("select k, sum(x) as t from t where i % 5 = 0 and i > 7000 group by k", table, threads, path=path)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rest", [0, 1, 2])
def test_row_groups_that_are_not_in_order(threads: int, rest: int, tmp_path: Path) -> None:
    """Two of three are. Their ranges are as before, so the order of rows is seen only when they are read.

    How many groups are runs depends on the first row group that a driver reads.
    """
    group_rows = 4000
    table = ordered_table(pa.int64(), N, longest=40)
    rng = np.random.default_rng(rest)
    rows = np.arange(N)
    for group in range(0, N, group_rows):
        if group // group_rows % 3 == rest:
            rows[group : group + group_rows] = rng.permutation(rows[group : group + group_rows])
    path = write_groups(tmp_path, table.take(rows), group_rows)
    check_query(f"select k, {CALLS} from t group by k", table, threads, None, path)


def test_one_late_row_of_a_row_group(tmp_path: Path) -> None:
    """Its key has a run in the same row group, which is not returned before the row group has ended."""
    table = pa.table({"k": np.arange(N) // 2, "x": np.arange(N)})
    rows = np.concatenate([np.arange(1, N // 2), [0], np.arange(N // 2, N)])
    for moved in (rows, rows[::-1]):
        path = write_groups(tmp_path, table.take(moved), N // 2)
        check_query("select k, sum(x) as t, count(*) as n from t group by k", table, 1, False, path)
        check_query("select k, sum(x) as t, count(*) as n from t group by k", table, 2, None, path)


def test_a_row_group_that_begins_again_after_its_groups_were_returned(tmp_path: Path) -> None:
    """The first row group has as many groups as a driver keeps, so that the first vector of the second is returned."""
    first, second = np.arange(20_000), np.arange(20_000, 40_000)
    keys = np.concatenate([first, second[:2048], second, 40_000 + np.arange(30_000)])
    table = pa.table({"k": keys, "x": np.arange(len(keys))})
    with pq.ParquetWriter(tmp_path / "0.parquet", table.schema) as writer:
        for rows in np.split(np.arange(len(keys)), [20_000, 42_048]):
            writer.write_table(table.take(rows))
    check_query("select k, sum(x) as t from t group by k", table, 1, True, str(tmp_path))


def test_files_that_change_between_planning_and_running(tmp_path: Path) -> None:
    """The run asks for the bounds of the row groups again: those of the plan would make each group twice."""
    table = pa.table({"k": np.arange(N), "x": np.arange(N)})
    path = write_groups(tmp_path, table, N)
    sql = "select k, sum(x) as t, count(*) as n from t group by k"
    results = [Session(threads=2).sql(sql, {"t": path}) for _ in range(3)]
    twice = pa.concat_tables([table, table])
    write_groups(tmp_path, twice, N)
    for result in results:
        assert "rows in order" in result.explain()
        assert_same_rows(result.to_arrow(), twice.group_by("k").aggregate([("x", "sum"), ([], "count_all")]))


@pytest.mark.parametrize(("limit", "all_whole"), [("40MB", False), ("400MB", True)])
def test_d3_a_part_of_the_table_is_held_if_there_is_memory(limit: str, all_whole: bool, tmp_path: Path) -> None:
    """Otherwise its groups are returned before it has ended, and are merged."""
    table = pa.table({"k": np.arange(300_000), "x": np.arange(300_000)})
    path = write_groups(tmp_path, table, 300_000)
    session = Session(threads=1, memory_limit=limit)
    result = session.sql(
        "select count(*) as n, sum(t) as t from (select k, sum(x) as t from t group by k)", {"t": path}
    )
    assert result.to_arrow().to_pylist() == [{"n": 300_000, "t": 300_000 * 299_999 // 2}]
    operators = [one for pipeline in result.stats()["pipelines"] for one in pipeline["operators"]]
    n_whole = max(one["groups"]["whole"] for one in operators if one.get("groups"))
    assert (n_whole == 299_998) == all_whole


@pytest.mark.each_value
@pytest.mark.parametrize("seed", range(24))
def test_random_row_groups(seed: int, tmp_path: Path) -> None:
    """Row groups of any lengths, in any order of files, some of them not in order, some with one key."""
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.integers(-(10**6), 10**6, N)) // int(rng.integers(1, 60))
    keys[1000 : 1000 + int(rng.integers(1, 30_000))] = keys[1000]
    keys = np.sort(keys)
    table = pa.table({"k": keys, "x": rng.integers(0, 100, N)})
    cuts = np.unique(np.concatenate([[0, N], rng.integers(0, N, int(rng.integers(2, 30)))]))
    groups = [np.arange(a, b) for a, b in itertools.pairwise(cuts)]
    groups = [rng.permutation(rows) if rng.random() < 0.1 else rows for rows in groups]
    rng.shuffle(groups) if seed % 2 else None
    halves = [groups[: len(groups) // 2], groups[len(groups) // 2 :]] if seed % 3 == 0 else [groups]
    for i, half in enumerate(halves):
        with pq.ParquetWriter(tmp_path / f"{i}.parquet", table.schema) as writer:
            for rows in half:
                writer.write_table(table.take(rows))
    sql = "select k, sum(x) as t, count(*) as n, min(x) as m from t group by k"
    session = Session(threads=int(rng.integers(1, 4)))
    got = session.sql(sql, {"t": str(tmp_path)}).to_arrow()
    with duckdb.connect() as oracle:
        oracle.register("t", table)
        assert_same_rows(got, oracle.sql(sql).to_arrow_table())


# --- the operator ---

SUMS = [("sum", 1, -1, False), ("count", -1, -1, False)]


def partial_groups(
    batches: list[pa.RecordBatch], memory: Account | None = None, fences: Sequence[int] = ()
) -> pa.Table:
    """The groups that the partial step returns: the sum of the second column, and the number of rows."""
    source = batches[0].schema
    sums = pa.schema([source.field(0), ("t", pa.int64()), ("n", pa.int64())])
    middle = pa.schema(partial_schema(Schema(source), 1, SUMS, Schema(sums)))
    operator = HashAggregation(
        "agg", memory or Account(), None, 1, SUMS, "partial", Schema(middle), ordered=True, fences=fences
    )
    made = run_chain([operator], batches)
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in made], promote_options="permissive")


def check_partial(batches: list[pa.RecordBatch], fences: Sequence[int] = ()) -> pa.Table:
    """Fail unless the states of the groups add up to what pyarrow finds."""
    got = partial_groups(batches, fences=fences)
    table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")
    names = got.column_names
    merged = got.group_by(names[0]).aggregate([(names[1], "sum"), (names[-1], "sum")])
    wanted = table.group_by("k").aggregate([("x", "sum"), ([], "count_all")])
    assert_same_rows(merged, wanted)
    return got


def batch_of(keys: Any, type: pa.DataType | None = None) -> pa.RecordBatch:
    k = pa.array(keys, type or pa.int64())
    return pa.record_batch({"k": k, "x": pa.array(range(len(k)), pa.int64())})


def test_only_ends_come_more_than_once() -> None:
    """A key that two batches share may come twice; all others once."""
    got = check_partial([batch_of([1, 1, 2, 3, 3]), batch_of([3, 3, 3]), batch_of([3, 4, 5]), batch_of([7, 8, 9, 9])])
    assert sorted(got["k"].to_pylist()) == [1, 2, 3, 4, 5, 7, 8, 9]
    # A driver may get later rows of the table first.
    got = check_partial([batch_of([7, 8, 9]), batch_of([3, 4, 7]), batch_of([]), batch_of([9, 9])])
    assert sorted(got["k"].to_pylist()) == [3, 4, 7, 7, 8, 9, 9]


def test_parts_between_fences_go_over_batches() -> None:
    parts = [[1, 1, 2, 3, 5], [5, 6, 9], [9, 9, 9], [9, 12], [20, 21, 30], [-7, -7, -5]]
    keys = [key for part in parts for key in part]
    fences = [-7, -5, 1, 5, 9, 12, 20, 30]
    for rows in (1, 2, 3, len(keys)):
        got = check_partial([batch_of(keys[at : at + rows]) for at in range(0, len(keys), rows)], fences)
        assert sorted(got["k"].to_pylist()) == sorted(set(keys))


@pytest.mark.parametrize(
    "late", [[4, 3], [6, 3, 3, 2], [9, 8], [None], [40], [-40], [5, 4]], ids=lambda late: str(late)
)
def test_rows_that_are_not_in_order_between_fences_are_grouped_as_others(late: list[int | None]) -> None:
    """Also nulls and keys outside of all fences, which the table has said are not there."""
    batches = [batch_of([1, 2, 3, 6, 7]), batch_of(late), batch_of([7, 7, 9, 11, 2]), batch_of([1, 20])]
    check_partial(batches, [1, 9, 11, 20])


def test_more_runs_than_a_part_may_keep() -> None:
    got = check_partial([batch_of(range(at, at + 100_000)) for at in range(0, 700_000, 100_000)], [0, 10**6])
    assert got.num_rows == 700_000


@pytest.mark.parametrize("keys", [[1, 2, 1], [*range(5000), 4999, 4998], [*[5] * 2048, 4], [0, None, 1], [None, None]])
def test_keys_that_descend_or_are_null_are_an_error(keys: list[int | None]) -> None:
    with pytest.raises(ExecutionError, match="node agg are not in the order of their key"):
        partial_groups([batch_of([-1, 0]), batch_of(keys)])


def test_d6_wider_keys_and_values_end_the_runs() -> None:
    """The groups so far become groups of a table."""
    narrow = [batch_of([1, 1, 2, 3], pa.int32()), batch_of([3, 4, 5], pa.int32())]
    got = check_partial([*narrow, batch_of([5, 6, 2**40]), batch_of([2**40, 7, 1])])
    assert sorted(got["k"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7, 2**40]


def test_other_keys_are_grouped_as_ever() -> None:
    text = pa.record_batch({"k": ["b", "a", "b"], "x": pa.array([1, 2, 3], pa.int64())})
    real = pa.record_batch({"k": [2.0, 1.0, 2.0], "x": pa.array([1, 2, 3], pa.int64())})
    flag = pa.record_batch({"k": [True, False, True], "x": pa.array([1, 2, 3], pa.int64())})
    wide = pa.record_batch({"k": pa.array([2, 1, 2], pa.decimal128(38)), "x": pa.array([1, 2, 3], pa.int64())})
    for batch in (text, real, flag, wide):
        assert check_partial([batch]).num_rows == 2


def test_d3_too_little_memory_is_an_error() -> None:
    with pytest.raises(MemoryLimitError):
        partial_groups([batch_of(range(200_000))], Account(limit=300_000))
