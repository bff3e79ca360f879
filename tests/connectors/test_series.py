"""range() and generate_series() as tables: read as they are made, within limits of memory and time. SPEC V13, P4."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.builder.plan_builder import PlanBuilder
from qcore.connectors.arrow import ArrowSplit
from qcore.connectors.series import SPLIT_ROWS, SPLITS_MAX, SeriesSplit, SeriesTable
from qcore.optimizer import optimize
from qcore.plan import nodes as p

MEMORY = 64 << 20


@pytest.mark.parametrize(
    "query",
    [
        "select * from range(5)",
        "select * from range(2, 9, 3) r",
        "select * from generate_series(2, 8, 3) s(v)",
        "select * from generate_series(5, -5, -5) s(v)",
        "select * from range(5, 5) r(v)",
        "select * from range(5, 1) r(v)",
        "select * from range(9223372036854775805, 9223372036854775807) r(v)",
        "select * from range(-9223372036854775807, 9223372036854775807, 9223372036854775807) r(v)",
        "select count(*) as n, sum(v) as s from range(10 * 1000) r(v)",
        "select count(*) as n, sum(a.v * b.v) as s from range(300) a(v), range(400) b(v) where a.v < b.v",
        "select count(*) as n, min(a.range) as x, max(b.range) as y from range(100) a, range(5) b",
        "select a.v, b.v as w from range(3) a(v) left join range(2, 5) b(v) on a.v = b.v",
        "select a.v, w from range(3) a(v) cross join unnest([7, 8]) u(w)",
        "select a.v, w from range(3) a(v) left join unnest([7, 8]) u(w) on true",
        "select v, w from range(3) a(v), lateral (select unnest(range(a.v)) as w) u",
        "select a.v, w from range(4) a(v), unnest(range(a.v)) u(w)",
        "select t.k, r.v from (values (1), (2)) t(k), range(2) r(v), generate_series(3, 4) s(w)",
        "select unnest(range(3)) as v, 5 as five",
        "select v, w from (select unnest(range(3)) as v) x, unnest(generate_series(1, 2)) y(w) where v <> w",
    ],
)
def test_as_duckdb(query: str) -> None:
    """Q2: for any bounds, alone and joined with other tables."""
    assert_same_rows(qcore.sql(query, threads=2).to_arrow(), duckdb.sql(query).to_arrow_table())


def test_numbers_of_the_elements() -> None:
    """Q2: WITH ORDINALITY gives the position of each value."""
    found = qcore.sql("select * from unnest(range(10, 13)) with ordinality u(v, n)").to_arrow()
    assert found.to_pydict() == {"v": [10, 11, 12], "n": [1, 2, 3]}


def test_a_series_is_a_scan() -> None:
    """P4: also in plans built in Python. A series whose bounds are columns, or whose step is 0, is a list."""
    builder = PlanBuilder({}).values(pa.table({"one": [1]}))
    plan = optimize(builder.project({"l": "range(1, 10, 2)"}).unnest("l").build())
    (scan,) = plan.walk()
    assert isinstance(scan, p.Scan) and scan.source == SeriesTable(range(1, 10, 2))
    for kept in ("range(one)", "range(1, 10, 0)"):
        kinds = [type(node) for node in optimize(builder.project({"l": kept}).unnest("l").build()).walk()]
        assert p.Unnest in kinds and p.Scan not in kinds


def test_row_count_bounds_and_splits_of_a_series() -> None:
    """V3, P3: a series knows its row count and bounds, and its splits name sections of it."""
    table = SeriesTable(range(10, 10 - 3 * SPLIT_ROWS, -1))
    known = table.statistics()
    assert (known.row_count, known.columns["value"].min, known.columns["value"].max) == (
        3 * SPLIT_ROWS, 11 - 3 * SPLIT_ROWS, 10,
    )  # fmt: skip
    assert len(list(table.splits(("value",), None, 4))) == 3
    read = pa.RecordBatchReader.from_stream(table.open(SeriesSplit(5, 10), ("number", "value"), None, 4)).read_all()
    assert read.to_pydict() == {"number": list(range(6, 16)), "value": list(range(5, -5, -1))}
    with pytest.raises(qcore.ExecutionError, match="but the series has"):
        table.open(SeriesSplit(5, 1 << 40), ("value",), None, 4)
    with pytest.raises(qcore.ExecutionError, match="add SeriesSplits"):
        table.open(ArrowSplit(0, 1), ("value",), None, 4)
    assert SeriesTable(range(0)).statistics().row_count == 0


def test_long_series_stream() -> None:
    """V13: 400 MB of values, and 100 million pairs of two series, are read within a limit of 64 MB."""
    session = qcore.Session(threads=2, memory_limit=MEMORY)
    assert session.sql("select count(*) as n from range(50000000) r(v)").to_arrow()["n"].to_pylist() == [50_000_000]
    pairs = session.sql("select count(*) as n from range(10000) a(v), range(10000) b(v)").to_arrow()
    assert pairs["n"].to_pylist() == [100_000_000]


@pytest.mark.parametrize(
    "query",
    [
        "select * from range(1000000) a, range(1000000) b",
        "select count(*) from range(1000000) a(v), range(1000000) b(v) where a.v + 1 <> b.v",
        "select count(*) from range(10000000000000) a",
        "select sum(v) from (select unnest(range(1000000)) as v) a, unnest(generate_series(1, 1000000)) b(w)",
    ],
)
def test_the_timeout_holds(query: str) -> None:
    """H1: a series that would take days ends with the session's timeout and takes little memory."""
    session = qcore.Session(threads=2, memory_limit=MEMORY, timeout=0.5)
    with pytest.raises(qcore.Timeout, match="longer than its timeout"):
        for _ in session.sql(query):
            pass


@pytest.mark.parametrize(
    "query",
    [
        "select a.v, array_agg(b.v) from range(100000) a(v), range(100000) b(v) group by a.v",
        "select * from range(100000) a(v), range(100000) b(v) order by a.v + b.v",
        "select * from range(3) a(v), range(100000000) b(v), range(100000000) c(v) where a.v + b.v > c.v",
    ],
)
def test_the_memory_limit_holds(query: str) -> None:
    """G6: the limit covers the rows that operators keep of a series, and of pairs of two."""
    with pytest.raises(qcore.MemoryLimitError, match="goes past the memory limit"):
        for _ in qcore.sql(query, threads=2, memory_limit=MEMORY, timeout=60):
            pass


def test_lists_as_long_as_a_column_says() -> None:
    """G6, V13: a function gets fewer rows at a time if its lists are long. Limits are checked between these calls."""
    lists = "(select v * 0 + 100000 as n from range(100000) a(v)) t, unnest(range(t.n)) u(w)"
    with pytest.raises(qcore.Timeout, match="longer than its timeout"):
        qcore.sql(f"select count(*) from {lists}", threads=2, timeout=0.5).to_arrow()
    with pytest.raises(qcore.MemoryLimitError, match="goes past the memory limit"):
        qcore.sql(f"select count(*) from {lists}", threads=2, memory_limit=MEMORY, timeout=60).to_arrow()
    with pytest.raises(qcore.ExecutionError, match="a list of more than 16777216 elements; use FROM range"):
        qcore.sql("select length(range(n)) from (values (1000000000)) t(n)").to_arrow()
    few = "select count(*) as c, sum(w) as s from (select v from range(3000) a(v)) t, unnest(range(t.v % 5)) u(w)"
    assert_same_rows(qcore.sql(few, threads=2).to_arrow(), duckdb.sql(few).to_arrow_table())


def test_a_constant_list_is_not_repeated() -> None:
    """V13: 100,000 rows share one constant list of 100,000 numbers. Copies would take 80 GB."""
    query = "select count(l) as n, count(*) as m from (select range(100000) as l, v from range(100000) a(v)) t"
    found = qcore.sql(query, threads=2, memory_limit=MEMORY).to_arrow()
    assert found.to_pylist() == [{"n": 100_000, "m": 100_000}]
    rows = qcore.sql("select [1, null, 3] as l, {'a': [1]} as s, v from range(3000) a(v) where v % 2 = 1").to_arrow()
    assert rows["l"].to_pylist() == [[1, None, 3]] * 1500 and rows["s"].to_pylist() == [{"a": [1]}] * 1500


def test_a_long_series_has_few_splits() -> None:
    """Splits are listed before the first is read, so their number is bounded, and they cover the series."""
    values = range(10**13)
    splits = list(SeriesTable(values).splits(("value",), None, 2))
    assert len(splits) <= SPLITS_MAX
    assert [split.start for split in splits[1:]] == [split.start + split.length for split in splits[:-1]]
    assert splits[0].start == 0 and splits[-1].start + splits[-1].length == len(values)
