"""Keys of a join's build side reduce the row groups that the probe side reads. Rows do not change (SPEC V10, V15)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
    operators = [one for pipeline in result.stats()["pipelines"] for one in pipeline["operators"]]
    most = max(one["output_rows"] for one in operators if one["name"] == "TableScan")
    assert (most <= 2 * GROUP_ROWS) == prunes, most
