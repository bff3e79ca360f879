"""Queries can be stopped in the middle of long loops (SPEC V7, D9).

The test counts looks and measures no time. A loop whose length depends on the rows looks every CHECK_ROWS steps whether
its query is stopped. Every look passes the fault site `stop`, which stops the query there.
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from reading import read_in_thread

from oracle import assert_same_rows
from qcore import Cancelled, Session, Timeout
from qcore_ext.ground.fault import Faults
from sweeps import every

pytestmark = pytest.mark.timeout(300)

CHECK_ROWS = 65_536
N_ROWS = 2 * CHECK_ROWS + 1000
N_FEW = 100


@functools.cache
def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(5)
    k = rng.integers(0, N_ROWS, N_ROWS)
    text = np.char.add("the text of key ", k.astype("U8"))
    t = pa.table(
        {
            "k": k,
            "v": rng.integers(0, 50, N_ROWS),
            "z": np.zeros(N_ROWS, np.int64),
            "f": rng.random(N_ROWS),
            "m": pa.array(rng.random(N_ROWS), mask=rng.random(N_ROWS) < 0.5),
            "s": text,
        }
    )
    return {"t": t, "few": t.slice(0, N_FEW)}


@dataclass(frozen=True)
class Case:
    """A plan with long loops.

    `steps`: the number of rows of loops that run without a new batch. Each CHECK_ROWS of them look once.
    """

    sql: str
    steps: int


OVER = "over (order by k {})"
CASES = {
    # A sort has at least seven passes: prefixes, entries, counting digits, moving digits (two bytes of keys or more),
    # merging runs, combining the columns.
    "order by": Case("select k from t order by k, v", 7 * N_ROWS),
    "order by text": Case("select s from t order by s", 7 * N_ROWS),
    "order by equal keys": Case("select k from t order by z, v", 7 * N_ROWS),
    "top-n": Case("select k, s from t order by f limit 100000", 5 * N_ROWS),
    "group by": Case("select k, count(*), sum(v) from t group by k", N_ROWS),
    "group by text": Case("select s, min(f) from t group by s", N_ROWS),
    "distinct": Case("select count(distinct s), count(distinct k) from t", 2 * N_ROWS),
    "distinct by group": Case("select v, count(distinct s) from t group by v", N_ROWS),
    # Values are kept, sorted by group, counted by group, and concatenated.
    "median": Case("select v, median(f) from t group by v", 7 * N_ROWS),
    "string_agg": Case("select string_agg(s, ',') from t", 8 * N_ROWS),
    "array_agg": Case("select v, array_agg(s order by k) from t group by v", 8 * N_ROWS),
    "array_agg of many groups": Case("select k, array_agg(m) from t group by k", 8 * N_ROWS),
    # Keys are measured, inserted into the index, and probed.
    "join": Case("select count(*) from t a join t b on a.k = b.k", 2 * N_ROWS),
    "join on text": Case("select count(*) from t a join t b on a.s = b.s", 2 * N_ROWS),
    "join on wide keys": Case("select count(*) from t a join t b on a.k * 1000003 = b.k * 1000003", 2 * N_ROWS),
    "full join": Case("select count(*) from t a full join t b on a.k = b.k + 1", 2 * N_ROWS),
    "nested loop without a pair": Case("select count(*) from t a join few b on a.f > b.f + 2", N_ROWS * N_FEW),
    "join without a pair": Case("select count(*) from t a join few b on a.z = b.z and a.f > b.f + 2", N_ROWS * N_FEW),
    "left join without a pair": Case(
        "select count(*) from few a left join t b on a.z = b.z and a.f > b.f + 2", N_ROWS * N_FEW
    ),
    "semi join of one key": Case("select count(*) from t a where exists (select 1 from t b where a.z = b.z)", N_ROWS),
    # The sort (six passes), the begins (one) and ends (two) of partitions and peers, and the passes of the call.
    "ranks": Case(
        "select rank() over (order by v), ntile(7) over (order by v), cume_dist() over (order by v) from t", 12 * N_ROWS
    ),
    "other rows": Case(f"select lag(s, 3) {OVER.format('')}, last_value(m) {OVER.format('')} from t", 12 * N_ROWS),
    "other rows but nulls": Case(
        "select lead(m) ignore nulls over (order by k), last_value(m) ignore nulls over (order by k) from t",
        13 * N_ROWS,
    ),
    "rows": Case(f"select avg(f) {OVER.format('rows between 30 preceding and 2 following')} from t", 13 * N_ROWS),
    "range": Case(f"select sum(v) {OVER.format('range between 9 preceding and 9 following')} from t", 15 * N_ROWS),
    "range of reals": Case(
        "select sum(v) over (order by f range between 1 preceding and 1 following) from t", 15 * N_ROWS
    ),
    "groups": Case(f"select min(s) {OVER.format('groups between 9 preceding and 1 following')} from t", 15 * N_ROWS),
    "distinct frames": Case("select count(distinct v) over (order by k) from t", 14 * N_ROWS),
    "distinct frames of one value": Case(
        "select count(distinct z) over (order by k rows between 500 preceding and current row) from t", 500 * N_ROWS
    ),
    "quantiles of frames": Case("select quantile_disc(f, 0.5) over (order by k rows 30 preceding) from t", 14 * N_ROWS),
    "text of frames": Case("select string_agg(s, ',') over (order by k, f rows 3 preceding) from t", 14 * N_ROWS),
    "mode of frames": Case("select mode(v) over (order by k rows 30 preceding) from t", 40 * N_ROWS),
    "union": Case("select k, v from t union select v, k from t", N_ROWS),
    "except": Case("select s from t except select s from t where k < 1000", N_ROWS),
    "expressions": Case("select sum(length(replace(upper(s), 'KEY', 'word'))) from t where s like '%key%1%'", N_ROWS),
    "recursion": Case(
        "with recursive r(a) as (select k from t union select (a + 1) % 1000 from r) select count(*) from r", N_ROWS
    ),
}


def run(name: str, site: str | None = None, nth: int = 1) -> tuple[Faults, int | None]:
    """The number of looks, and the number of rows; None if the query was stopped."""
    faults = Faults(site, nth)
    result = Session(threads=2).sql(CASES[name].sql, tables())
    with faults:
        try:
            return faults, sum(batch.num_rows for batch in result)
        except Cancelled:
            assert faults.fired
            return faults, None


@pytest.mark.parametrize("name", every(4, CASES))
def test_v7_long_loops_look_whether_they_are_stopped(name: str) -> None:
    """V7, D9: the number of looks grows with the work. The query can end at each look, and leaves nothing."""
    counted, n_rows = run(name)
    looks = counted.passes["stop"]
    assert n_rows is not None
    assert looks * CHECK_ROWS >= CASES[name].steps, looks
    for nth in sorted({1, 2, *(looks * part // 7 for part in range(1, 7))} & set(range(1, looks + 1))):
        faults, came = run(name, "stop", nth)
        # Another driver may have completed the result by then, so the last looks need not stop the query.
        assert came is None or came == n_rows
        assert came is None or not faults.fired or nth > looks // 2
    assert run(name)[1] == n_rows


LONG = pa.table({"x": ["the quick brown fox " * 500 + str(i) for i in range(2000)]})


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from texts where regexp_matches(x, 'fox.*7$')",
        "select max(length(regexp_replace(x, '[aeiou]', '', 'g'))) from texts",
    ],
)
def test_v7_functions_get_long_texts_piece_by_piece(sql: str) -> None:
    """V7: a call of another library cannot be stopped, so it gets at most four megabytes at a time."""
    with Faults() as faults:
        whole = Session(threads=2).sql(sql, {"texts": LONG}).to_arrow()
    looks = faults.passes["stop"]
    assert looks >= LONG.nbytes // (4 << 20)
    with Faults("stop", looks // 2) as faults, pytest.raises(Cancelled):
        Session(threads=2).sql(sql, {"texts": LONG}).to_arrow()
    with duckdb.connect() as oracle:
        oracle.register("texts", LONG)
        assert_same_rows(whole, oracle.sql(sql).arrow())


# It would run for hours.
ENDLESS = "with recursive r(i, a) as (select 1, 0 union all select i + 1, ({}) from r where i < 3) select sum(a) from r"
PAIRS = "select count(*) from t a join t b on a.f > b.f + 2 join t c on a.f > c.f + 2 or b.f > c.f + 2"


def start(sql: str, **settings: Any) -> tuple[Any, threading.Thread, list[BaseException]]:
    result = Session(threads=2, **settings).sql(sql, tables())
    return result, *read_in_thread(result)


def test_v7_cancel_stops_a_round_of_a_recursion() -> None:
    """V7, D9: a round is a query, which is in a call that returns nothing for hours."""
    with Faults() as faults:
        result, thread, failed = start(ENDLESS.format(PAIRS))
        while faults.passes["stop"] <= 100 and thread.is_alive():
            time.sleep(0.01)
        result.cancel()
        thread.join(120)
        assert not thread.is_alive()
    assert isinstance(failed[0], Cancelled)


def test_v7_a_timeout_stops_a_round_of_a_recursion() -> None:
    """V7."""
    _, thread, failed = start(ENDLESS.format(PAIRS), timeout=0.5)
    thread.join(120)
    assert not thread.is_alive()
    assert isinstance(failed[0], Timeout)
