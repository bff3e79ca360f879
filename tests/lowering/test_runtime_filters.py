"""Keys of a join's build side reduce the row groups that the probe side reads. Rows do not change (SPEC V10, V15)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dropped_rows import scan_figures

import qcore
from oracle import assert_same_rows

GROUP_ROWS = 1000
N_ROWS = 20 * GROUP_ROWS
FIRST_DAY = datetime.date(2000, 1, 1)

# Query over facts (in order of k and day) and few (keys 7100 to 7200, and a null), and whether row groups are left out.
QUERIES = {
    "inner": ("select * from facts join few on k = f", True),
    "inner by day": ("select * from facts join few on day = f_day", True),
    "inner by a computed key": ("select * from facts join few on k + 1 = f", False),
    "inner, filtered": ("select * from facts join few on k = f where v > 3", True),
    "two keys": ("select * from facts join few on k = f and day = f_day", True),
    "semi": ("select * from facts where k in (select f from few)", True),
    "anti": ("select * from facts where not exists (select 1 from few where f = k)", False),
    "left": ("select * from facts left join few on k = f", False),
    "right": ("select * from facts right join few on k = f", True),
    "full": ("select * from facts full join few on k = f", False),
    "join above a join": ("select * from facts join names on v = n join few on k = f", True),
    "join above a left join": ("select * from facts left join names on v = n join few on k = f", True),
    "join above a limit": (
        "select count(*) from (select * from facts order by v, k limit 9000) join few on k = f",
        False,
    ),
    "join above a window": (
        "select * from (select k, sum(v) over (partition by v order by k) as s from facts) join few on k = f",
        False,
    ),
    "nothing matches": ("select * from facts join few on k = f where f > 8000", True),
}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    numbers = pa.array(range(N_ROWS), pa.int64())
    days = pa.array([FIRST_DAY + datetime.timedelta(days=i // 10) for i in range(N_ROWS)])
    facts = pa.table({"k": numbers, "day": days, "v": pa.array([i * 7 % 10 for i in range(N_ROWS)])})
    pq.write_table(facts, tmp_path / "facts.parquet", row_group_size=GROUP_ROWS)
    keys = [*range(7100, 7201), None, 7150]
    few = pa.table({
        "f": pa.array(keys, pa.int64()),
        "f_day": pa.array([None if key is None else FIRST_DAY + datetime.timedelta(days=key // 10) for key in keys]),
    })  # fmt: skip
    names = pa.table({"n": pa.array(range(5), pa.int64()), "name": ["a", "b", "c", "d", "e"]})
    return {"facts": str(tmp_path / "facts.parquet"), "few": few, "names": names}


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_fewer_row_groups_and_the_same_rows(
    name: str, threads: int, tables: dict[str, Any], duck: duckdb.DuckDBPyConnection
) -> None:
    text, prunes = QUERIES[name]
    result = qcore.sql(text, tables, threads=threads, timeout=30)
    rows = result.to_arrow()
    duck.execute(f"create view facts as from read_parquet('{tables['facts']}')")
    duck.register("few", tables["few"])
    duck.register("names", tables["names"])
    assert_same_rows(rows, duck.sql(text).to_arrow_table())
    groups = scan_figures(result)["row_groups"]
    assert (groups <= 2) == prunes, groups


# --- filters of keys below another join ---

# By name: what stands below the join with `few`, and the number of inputs that are filtered below a semi join. None:
# the joins of the query itself also filter each other.
BELOW = {
    "exists": ("select * from facts where exists (select 1 from other where w = k and x <> v)", 2),
    "exists by another key": ("select * from facts where exists (select 1 from other where x = v)", 1),
    "not exists": ("select * from facts where not exists (select 1 from other where w = k and x > v)", 2),
    "not in": ("select * from facts where k not in (select w from other where x > 4)", 1),
    "mark": ("select * from facts where v > 8 or exists (select 1 from other where w = k and x = v)", 2),
    "left join": ("select facts.*, x from facts left join other on w = k and x > v", 2),
    "left join of unequal keys": ("select facts.*, x from facts left join other on w < k and w > k - 3", 1),
    "an inner join above it": (
        "select s.*, name from (select * from facts where exists (select 1 from other where w = k)) s, names "
        "where n = v",
        None,
    ),
    "an inner join below it": (
        "select * from (select w as k, day, v from facts join other on k = w) where exists (select 1 from other "
        "where w = k and x <> v)",
        2,
    ),
    "an equal key of an inner join": (
        "select s.k, s.day, s.v from (select facts.*, w from facts join other on k = w) s where exists (select 1 "
        "from other as o where o.w = s.w and o.x <> s.v)",
        2,
    ),
    "two of them": (
        "select * from facts where exists (select 1 from other where w = k) and not exists (select 1 from names "
        "where n = v)",
        None,
    ),
    "a computed key": ("select k + 0 as k, day, v from facts where exists (select 1 from other where w = k)", 0),
    "right join": ("select * from other right join facts on w = k", None),
    "full join": ("select facts.* from facts full join other on w = k", 0),
    "limit": ("select * from (select * from facts order by v, k limit 9000)", 0),
    "inner join alone": ("select facts.*, x from facts join other on w = k", 0),
}
ABOVE = {
    "inner": "select s.*, f_day from ({}) s join few on s.k = f",
    "inner with a condition": "select s.*, f_day from ({}) s join few on s.k = f and f_day <> s.day",
    "semi": "select * from ({}) s where k in (select f from few)",
    "right": "select s.v, f from ({}) s right join few on s.k = f",
    "two keys": "select s.*, f from ({}) s join few on s.k = f and s.day = f_day",
    "anti": "select * from ({}) s where not exists (select 1 from few where f = k)",
    "left": "select s.*, f from ({}) s left join few on s.k = f",
    "full": "select s.*, f from ({}) s full join few on s.k = f",
}


@pytest.fixture(scope="module")
def joined() -> dict[str, pa.Table]:
    n_rows = 12_000
    keys = [None if i % 50 == 0 else i // 2 for i in range(n_rows)]
    days = pa.array([FIRST_DAY + datetime.timedelta(days=i % 7) for i in range(n_rows)])
    facts = pa.table({"k": pa.array(keys, pa.int64()), "day": days, "v": [i * 7 % 10 for i in range(n_rows)]})
    other = pa.table({
        "w": pa.array([None if i % 90 == 3 else i * 5 % 7000 for i in range(9000)], pa.int64()),
        "x": pa.array([None if i % 70 == 1 else i % 6 for i in range(9000)], pa.int64()),
    })  # fmt: skip
    few = [*range(0, 6000, 300), None, 300, 999_999]
    return {
        "facts": facts,
        "other": other,
        "few": pa.table({"f": pa.array(few, pa.int64()), "f_day": pa.array([FIRST_DAY] * len(few))}),
        "names": pa.table({"n": pa.array(range(5), pa.int64()), "name": ["a", "b", "c", "d", "e"]}),
    }


def key_filters(result: Any) -> list[dict[str, int]]:
    operators = [one for pipeline in result.stats()["pipelines"] for one in pipeline["operators"]]
    return [one["key_filter"] for one in operators if "key_filter" in one]


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("below", BELOW)
def test_rows_whose_key_no_build_row_has_are_dropped_below_a_join(
    below: str, above: str, threads: int, joined: dict[str, pa.Table], duck: duckdb.DuckDBPyConnection
) -> None:
    rows, n_filters = BELOW[below]
    text = ABOVE[above].format(rows)
    result = qcore.sql(text, joined, threads=threads, timeout=30)
    actual = result.to_arrow()
    for name, table in joined.items():
        duck.register(name, table)
    assert_same_rows(actual, duck.sql(text).to_arrow_table())
    found = key_filters(result)
    if n_filters == 0:
        assert not found
    elif n_filters is not None and above in ("semi", "anti", "left", "full"):
        assert len(found) == (n_filters if above == "semi" else 0)
        assert all(one["matched"] * 4 < one["looked_up"] for one in found)
    if found:
        assert "its keys dropped" in result.explain(analyze=True)


def test_a_filter_that_keeps_most_rows_is_given_up(duck: duckdb.DuckDBPyConnection) -> None:
    n_rows = 400_000
    tables = {
        "facts": pa.table({"k": pa.array(range(n_rows), pa.int64())}),
        "other": pa.table({"w": pa.array(range(0, n_rows, 2), pa.int64())}),
        "most": pa.table({"m": pa.array([i for i in range(n_rows) if i % 5], pa.int64())}),
    }
    text = "select k, w from facts left join other on k = w where k % 7 <> 3 and k in (select m from most)"
    result = qcore.sql(text, tables, threads=1)
    actual = result.to_arrow()
    for name, table in tables.items():
        duck.register(name, table)
    assert_same_rows(actual, duck.sql(text).to_arrow_table())
    found = key_filters(result)
    assert found
    assert all(65_536 <= one["looked_up"] < n_rows // 2 for one in found)
