"""Frames with exclusions and intervals, and aggregates that need all values, against DuckDB. SPEC Q2."""

from __future__ import annotations

import datetime
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from sweeps import every

EXCLUSIONS = ["no others", "current row", "group", "ties"]
FRAMES = [
    "rows between 2 preceding and 2 following",
    "rows between unbounded preceding and current row",
    "rows between 1 following and 40 following",
    "groups between 1 preceding and 1 following",
    "groups between current row and unbounded following",
    "range between 3 preceding and 1 following",
]
# Aggregates whose result does not depend on the order of peers.
CALLS = (
    "sum(x) over w, count(*) over w, count(x) over w, min(s) over w, max(f) over w, avg(x) over w, "
    "count(distinct x) over w, sum(distinct x) over w, bool_or(b) over w, stddev_pop(x) over w, "
    "max(x) filter (where b) over w, count(distinct s) filter (where b) over w, median(x) over w, "
    "quantile_disc(s, 0.7) over w, quantile_cont(f, 0.25) over w, median(distinct x) over w, mode(x order by x) over w"
)
# The other aggregates, in a total order.
ORDERED_CALLS = (
    "first_value(x) over w, last_value(s) over w, nth_value(id, 3) over w, first_value(x ignore nulls) over w, "
    "last_value(x ignore nulls) over w, nth_value(s, 2 ignore nulls) over w, string_agg(s, ', ') over w, "
    "string_agg(s, '') over w, array_agg(x) over w, string_agg(s, ',' order by id desc) over w, "
    "array_agg(x order by id desc) over w, mode(x order by id) over w, array_agg(x) filter (where b) over w, "
    "first_value(x order by x desc nulls last, id) over w, last_value(s order by s nulls first, id) over w, "
    "arg_min(s, id) over w, arg_max(x, id) filter (where b) over w"
)


def table(n_rows: int) -> pa.Table:
    rng = random.Random(n_rows + 1)

    def column(type_: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if rng.random() < 0.15 else value() for _ in range(n_rows)], type_)

    start = datetime.datetime(2023, 12, 20)
    return pa.table(
        {
            "id": pa.array(rng.sample(range(n_rows), n_rows), pa.int64()),
            "p": column(pa.int64(), lambda: rng.randrange(max(n_rows // 60, 2))),
            "g": column(pa.int32(), lambda: rng.randrange(15)),
            "x": column(pa.int64(), lambda: rng.randrange(-9, 9)),
            "f": column(pa.float64(), lambda: rng.choice([0.5, -1.25, 3.0, 1e300])),
            "s": column(pa.string(), lambda: rng.choice(["", "a", "bb", "a string too long to be inline"])),
            "b": column(pa.bool_(), lambda: rng.random() < 0.5),
            "d": column(pa.date32(), lambda: start.date() + datetime.timedelta(days=rng.randrange(150))),
            "ts": column(pa.timestamp("us"), lambda: start + datetime.timedelta(hours=rng.randrange(3000))),
            "tm": column(pa.time64("us"), lambda: datetime.time(rng.randrange(24), rng.choice([0, 30]))),
            "m": column(pa.decimal128(9, 2), lambda: rng.randrange(-300, 300)),
        }
    )


def check(query: str, n_rows: int, duck: duckdb.DuckDBPyConnection) -> None:
    t = table(n_rows)
    duck.register("t", t)
    expected = duck.sql(query).to_arrow_table()
    for threads in (1,) if n_rows == 1 else (3,):
        assert_same_rows(qcore.sql(query, {"t": t}, threads=threads).to_arrow(), expected, abs_tol=1e-9)


@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [1, 130])
@pytest.mark.parametrize("exclusion", EXCLUSIONS)
@pytest.mark.parametrize("frame", FRAMES)
def test_exclude(frame: str, exclusion: str, n_rows: int, duck: duckdb.DuckDBPyConnection) -> None:
    order = "g, id" if frame.startswith("rows") else "g"
    window = f"partition by p order by {order} {frame} exclude {exclusion}"
    check(f"select id, {CALLS} from t window w as ({window})", n_rows, duck)
    order = "id" if frame.startswith("range") else "g, id"
    window = f"partition by p order by {order} {frame} exclude {exclusion}"
    check(f"select id, {ORDERED_CALLS} from t window w as ({window})", n_rows, duck)


@pytest.mark.parametrize("exclusion", every(2, EXCLUSIONS))
def test_exclude_of_large_partitions(exclusion: str, duck: duckdb.DuckDBPyConnection) -> None:
    """The frames span several levels of the tree of states and have holes."""
    frame = f"order by g rows between unbounded preceding and unbounded following exclude {exclusion}"
    calls = "sum(x) over w, min(s) over w, count(distinct x) over w, median(x) over w, mode(x order by x) over w"
    check(f"select id, {calls} from t window w as ({frame})", 1100, duck)
    frame = f"order by id rows between 700 preceding and 300 following exclude {exclusion}"
    calls = "avg(x) over w, quantile_disc(x, 0.9) over w, last_value(x) over w"
    check(f"select id, {calls} from t window w as ({frame})", 1100, duck)


@pytest.mark.parametrize(
    "window",
    [
        "order by d range between interval 1 month preceding and current row",
        "order by d desc range between interval '1 month' preceding and interval '10 days' following",
        "partition by p order by ts range between interval '1' month preceding and interval '2 months' following",
        "order by ts desc nulls first range between interval '1 year' preceding and interval '1 month' preceding",
        "order by ts range between interval (1) month following and unbounded following",
        "order by d range between interval '1 day 12 hours' preceding and interval '36' hour following",
        "order by d range between 7 preceding and 2 following",
        "order by tm range between interval 2 hours preceding and interval '30 minutes' following",
        "order by ts range interval '90.5 minutes' preceding",
        "order by f range between 1.5 preceding and 0.25 following",
        "order by x range between 1.5 preceding and 0.5 preceding",
        "order by m desc range between 0.25 preceding and 1.125 following exclude ties",
        "order by ts range between interval '1 month' preceding and interval '1 month' following exclude group",
    ],
)
def test_range_by_distances(window: str, duck: duckdb.DuckDBPyConnection) -> None:
    for n_rows in (1, 300):
        calls = f"count(*) over ({window}), sum(x) over ({window}), count(distinct x) over ({window})"
        check(f"select id, {calls} from t", n_rows, duck)


def test_a_month_before_may_be_later_of_an_earlier_time(duck: duckdb.DuckDBPyConnection) -> None:
    """One month before the 30th and the 31st of March is the same day, so bounds do not ascend with the times."""
    times = pa.array(["2024-02-29 09:30:00", "2024-03-30 10:00:00", "2024-03-31 09:00:00", None]).cast(
        pa.timestamp("s")
    )
    t = pa.table({"ts": times})
    duck.register("ends", t)
    for order in ("", "desc"):
        query = f"select ts, count(*) over (order by ts {order} range interval '1 month' preceding) from ends"
        assert_same_rows(qcore.sql(query, {"ends": t}).to_arrow(), duck.sql(query).to_arrow_table())


@pytest.mark.parametrize("n_rows", [0, 1, 200])
def test_values_kept_over_frames(n_rows: int, duck: duckdb.DuckDBPyConnection) -> None:
    """Frames that are whole partitions, grow, move, or are empty."""
    for window in (
        "",
        "partition by p",
        "partition by p order by id",
        "order by id rows between 20 preceding and 3 following",
        "partition by p order by id rows between current row and unbounded following",
        "order by id rows between 9 following and 12 following",
    ):
        whole = "order by" not in window
        calls = CALLS if whole else f"{CALLS}, {ORDERED_CALLS}, string_agg(distinct s, ',' order by s) over w"
        check(f"select id, {calls} from t window w as ({window})", n_rows, duck)


def test_mode_gives_the_first_of_equals(duck: duckdb.DuckDBPyConnection) -> None:
    t = pa.table({"i": range(7), "x": [3, 1, 1, 3, 2, 3, 2]})
    duck.register("u", t)
    for frame in (
        "rows 2 preceding",
        "",
        "rows between unbounded preceding and unbounded following exclude current row",
    ):
        query = f"select i, mode(x) over (order by i {frame}) from u"
        assert_same_rows(qcore.sql(query, {"u": t}).to_arrow(), duck.sql(query).to_arrow_table())


def test_lists_of_windows_pass_through_other_windows(duck: duckdb.DuckDBPyConnection) -> None:
    """A list that one window computes passes through another, and its elements can be read."""
    query = (
        "select id, len(l), l[1], sum(id) over (partition by g order by id) from "
        "(select id, g, array_agg(x order by id) over (partition by p order by id) as l from t)"
    )
    check(query, 300, duck)
    check(
        "select id, array_agg(s) over (order by id rows 2 preceding), sum(x) over (partition by g order by id) from t",
        300,
        duck,
    )


def test_many_rows_in_an_order_of_their_own(duck: duckdb.DuckDBPyConnection) -> None:
    """Frames of so many rows are ordered by marks, not by a sort."""
    n = 4500
    rng = random.Random(9)
    t = pa.table({"id": range(n), "x": [rng.randrange(2000) for _ in range(n)], "s": [str(i % 7) for i in range(n)]})
    duck.register("many", t)
    calls = "mode(x order by s, id desc) {0} as a, string_agg(s, ',' order by x desc, id) {0} as b"
    window = calls.format("over (order by id > 4200 range unbounded preceding)")
    # DuckDB sorts each frame again, so the oracle computes only the two frames that exist.
    frames = f"select id from many join (select {calls.format('')} from many{{}}) q on id {{}} 4200"
    expected = " union all ".join(
        frames.replace("select id", "select id, a, b", 1).format(*parts)
        for parts in ((" where id <= 4200", "<="), ("", ">"))
    )
    got = qcore.sql(f"select id, {window} from many", {"many": t}).to_arrow()
    assert_same_rows(got, duck.sql(expected).to_arrow_table())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sum(x) over (order by id rows 1 preceding exclude rows)", r"syntax error at .*: Unknown option ROWS"),
        ("quantile_disc(x, x) over ()", "the fraction of quantile_disc: it must be a constant, not x"),
        ("quantile_cont(x, 1.5) over ()", "a number from 0 to 1"),
        ("string_agg(s, s) over ()", "separator of string_agg"),
        ("first_value(x) filter (where b) over (order by id)", "the window function first_value cannot have a FILTER"),
        ("sum(x) over (order by tm range interval '1 month' preceding)", "by months or days over time64"),
        ("sum(x) over (order by s range interval '1 month' preceding)", "over string"),
        ("array_agg([x]) over (order by id)", "array_agg of list"),
    ],
)
def test_unsupported_input(call: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        qcore.sql(f"select {call} from t", {"t": table(3)})


def test_months_of_instants_are_refused() -> None:
    t = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))})
    with pytest.raises(qcore.PlanError, match=r"by months over timestamp\[us, tz=UTC\]"):
        qcore.sql("select count(*) over (order by at range interval '1 month' preceding) from t", {"t": t})
