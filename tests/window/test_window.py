"""Window functions against DuckDB. SPEC Q2."""

from __future__ import annotations

import datetime
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.plan.nodes import SortKey, Values, Window, WindowCall, WindowFrame
from qcore.session.task import Task
from qcore_ext.ground.fault import Faults

QUERIES = [
    "select id, row_number() over (partition by a order by id) from t",
    "select id, rank() over w, dense_rank() over w, percent_rank() over w, cume_dist() over w from t "
    "window w as (partition by a order by b)",
    "select id, ntile(4) over (partition by a order by id), ntile(100) over (order by id) from t",
    "select id, lag(b) over w, lead(b, 2) over w, lag(s, 3, 'none') over w, lead(b, 1, -1) over (order by id desc), "
    "lag(b, -1, b) over w from t window w as (partition by a order by id)",
    "select id, first_value(b) over w, last_value(s) over w, nth_value(b, 3) over w, "
    "last_value(b) over (partition by a order by id rows between 1 following and 3 following) from t "
    "window w as (partition by a order by id)",
    "select id, sum(b) over w, count(*) over w, avg(b) over w, min(s) over w, max(b) over (), sum(v2) over w from t "
    "window w as (partition by a)",
    "select id, sum(b) over (partition by a order by id), count(b) over (order by id), avg(b) over (order by a), "
    "max(s) over (partition by a order by b), sum(v2) over (order by id) from t",
    "select id, sum(b) over (partition by a order by id rows between 3 preceding and 2 following), "
    "min(s) over (order by id rows between 40 preceding and 20 preceding), "
    "max(b) over (order by id rows between 2 following and 500 following), "
    "count(*) over (partition by a order by id rows between current row and unbounded following), "
    "avg(b) over (partition by a order by id rows between 100 preceding and current row) from t",
    "select id, sum(id) over (partition by a order by id rows between 1 following and 3 following), "
    "min(id) over (order by id rows between 9 preceding and 7 preceding), "
    "count(id) over (order by id rows between 9 preceding and 7 preceding) from t",
    "select id, sum(b) over (partition by a order by b range between 3 preceding and 1 following), "
    "count(*) over (order by b desc range between 2 preceding and current row), "
    "count(*) over (order by b range between 1 following and 4 following), "
    "min(s) over (partition by a order by b nulls first range between unbounded preceding and 2 following) from t",
    "select id, stddev_samp(b) over (partition by a order by id rows between 5 preceding and current row), "
    "var_pop(b) over (partition by a), bool_and(b > 3) over (partition by a order by id rows 2 preceding) from t",
    "select id, sum(b * 2) over (partition by a + 1 order by b * 3, id), "
    "row_number() over (partition by s, a order by v desc nulls first, id) from t",
    # Each value once a frame: frames that grow, that move, that are the whole partition.
    "select id, count(distinct b) over (partition by a order by id), sum(distinct b) over (partition by a), "
    "count(distinct s) over (order by id rows between 2 preceding and 2 following), count(distinct 1) over (), "
    "avg(distinct b) over (partition by a order by id rows between 30 preceding and 3 preceding), "
    "count(distinct v) over (partition by a order by b), max(distinct s) over (order by id) from t",
    "select id, sum(b) filter (where v > 0) over w, count(*) filter (where b > 9 or a is null) over w, "
    "count(distinct s) filter (where b > 9) over w, min(s) over w from t window w as (partition by a order by b, id)",
    "select id, first_value(b ignore nulls) over (order by id rows between 3 preceding and 1 following), "
    "last_value(s ignore nulls) over (order by id rows between 1 following and 5 following), "
    "nth_value(b, 3 ignore nulls) over (order by id) from t",
    "select id, lag(b ignore nulls) over (order by id), lead(s, 2 ignore nulls) over (partition by a order by id), "
    "lag(b, 3, -1 ignore nulls) over (partition by a order by id) from t",
    "select id, sum(b) over (order by b groups between 2 preceding and 1 following), "
    "count(*) over (partition by a order by b, s groups between current row and unbounded following) from t",
    "select id, count(*) over (order by d range between interval '3' day preceding and interval '1' day following), "
    "sum(b) over (partition by a order by d desc range between interval '1 week' preceding and current row), "
    "count(*) over (order by ts range between interval '90' minute preceding and interval '2 hours' following), "
    "count(*) over (order by v2 range between 1.25 preceding and 3 following), "
    "sum(b) over (order by v2 range 2 preceding), "
    "max(b) over (order by ts range interval '10 seconds' preceding) from t",
    "select id, corr(v, b) over (partition by a), covar_pop(b, id) over (partition by a order by id), "
    "regr_count(b, v) over (order by id rows between 9 preceding and 2 preceding), "
    "bit_xor(b) over (partition by a order by id rows between 20 preceding and 2 following) from t",
    "select a, sum(sum(b)) over (order by a) from t group by a",
    "select count(*) from (select row_number() over () as r from t) where r <= 10",
    "select * from (select id, row_number() over (partition by a order by id) as r from t) where r < 3",
    "select v, count(*) over (partition by v), rank() over (order by v) from t",
]


def table(n_rows: int) -> pa.Table:
    rng = random.Random(n_rows)

    def column(type_: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if rng.random() < 0.15 else value() for _ in range(n_rows)], type_)

    return pa.table(
        {
            "id": pa.array(range(n_rows), pa.int64()),
            "a": column(pa.int64(), lambda: rng.randint(0, 5)),
            "b": column(pa.int32(), lambda: rng.randint(0, 30)),
            "s": column(pa.string(), lambda: rng.choice(["x", "yy", "a string too long to be inline"])),
            "v": column(pa.float64(), lambda: rng.choice([float("nan"), 1.5, -0.0, 0.0, rng.uniform(-9, 9)])),
            "d": column(pa.date32(), lambda: datetime.date(2024, 2, 20) + datetime.timedelta(days=rng.randint(0, 30))),
            "ts": column(
                pa.timestamp("us"),
                lambda: datetime.datetime(2024, 2, 29) + datetime.timedelta(minutes=rng.randint(0, 999)),
            ),
            "v2": column(pa.decimal128(12, 2), lambda: rng.randint(-10_000, 10_000)),
        }
    )


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [0, 1, 7, 2049, 5000])
@pytest.mark.parametrize("query", QUERIES)
def test_as_duckdb(query: str, n_rows: int, duck: duckdb.DuckDBPyConnection) -> None:
    t = table(n_rows)
    duck.register("t", t)
    expected = duck.sql(query).to_arrow_table()
    for threads in (1, 2, 4):
        assert_same_rows(qcore.sql(query, {"t": t}, threads=threads).to_arrow(), expected, abs_tol=1e-7)


@pytest.mark.parametrize(("start", "end"), [(-2, 1), (None, -1), (1, None), (3, 1), (0, 0)])
def test_groups_frames(start: int | None, end: int | None, duck: duckdb.DuckDBPyConnection) -> None:
    """Substrait has no GROUPS frames, so the plan is built by hand."""
    t = table(2500)
    duck.register("t", t)
    if start == 3:
        expected = duck.sql("select id, null::bigint from t").to_arrow_table()
    else:
        ends = [
            f"unbounded {name}" if at is None else f"{abs(at)} {'preceding' if at < 0 else 'following'}"
            for at, name in ((start, "preceding"), (end, "following"))
        ]
        frame = f"groups between {ends[0]} and {ends[1]}"
        expected = duck.sql(f"select id, sum(id) over (partition by a order by b {frame}) from t").to_arrow_table()
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int32())])
    values = Values("t", schema, t.select(["id", "a", "b"]))
    window = Window(
        "w", schema.append(pa.field("x", pa.int64())), values, ("a",), (SortKey("b"),),
        (WindowCall("x", "sum", "id", 1, WindowFrame("groups", start, end)),),
    )  # fmt: skip
    task = Task(window, drivers=2)
    got = pa.Table.from_batches(list(task.batches()), window.schema)
    assert_same_rows(got.select(["id", "x"]), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sum(b) over (order by s range between interval '1 hour' preceding and current row)", "over string"),
    ],
)
def test_unsupported_calls_are_refused(call: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(f"select {call} from t", {"t": table(3)})


def test_d9_any_structure_may_fail() -> None:
    """If one allocation fails, the others are freed. conftest.py counts what is left."""
    rows = pa.table({"k": [1, 1, 2], "v": [1, 2, 3]})
    call = WindowCall("s", "sum", "v")
    plan = Window(
        "w", rows.schema.append(pa.field("s", pa.int64())), Values("v", rows.schema, rows), ("k",), (), (call,)
    )

    def passes(nth: int) -> int:
        with Faults("struct", nth) as faults:
            try:
                list(Task(plan, drivers=1).batches(timeout=60))
            except qcore.QcoreError:
                assert faults.fired
        return faults.passes["struct"]

    for nth in range(1, passes(1 << 40) + 1):
        passes(nth)
