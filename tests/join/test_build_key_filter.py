"""Keys of joins that a scan asks before it reads other columns, against DuckDB (SPEC P1, V15)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dropped_rows import scan_figures

import qcore
from oracle import assert_same_rows

N_ROWS = 40_000
# By key: its columns, and its type on the build side.
KEYS = {
    "int": (("k",), pa.int64()),
    "wide range": (("w",), pa.int64()),
    "text": (("s",), pa.string()),
    "long text": (("t",), pa.string()),
    "date": (("day",), pa.date32()),
    "decimal": (("d",), pa.decimal128(12, 2)),
    "two": (("k", "s"), None),
    "int of 32 bits": (("k",), pa.int32()),
    "another scale": (("d",), pa.decimal128(12, 4)),
}
# By query: whether rows without a key are dropped.
QUERIES = {
    "inner": ("select facts.*, x from facts join few on {}", True),
    "semi": ("select * from facts where exists (select 1 from few where {})", True),
    "anti": ("select * from facts where not exists (select 1 from few where {})", False),
    "left": ("select facts.*, x from facts left join few on {}", False),
    "right": ("select facts.v, x from facts right join few on {}", True),
    "full": ("select facts.v, x from facts full join few on {}", False),
    "with a condition": ("select facts.*, x from facts join few on {} and x > v", True),
    "behind a filter": ("select facts.*, x from facts join few on {} where v % 3 = 1", True),
    "behind a left join": (
        "select facts.*, x, n from facts left join names on v = n join few on {}",
        True,
    ),
    "behind a limit": ("select f.*, x from (select * from facts order by v, k limit 9000) as f join few on {}", False),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table | str]:
    rng = np.random.default_rng(5)
    k = rng.integers(0, 2000, N_ROWS)
    null = rng.random(N_ROWS) < 0.05

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if missing else value for value, missing in zip(values, null, strict=True)], type_)

    numbers = k.tolist()
    facts = pa.table({
        "v": pa.array(np.arange(N_ROWS) % 17, pa.int64()),
        "k": column(numbers, pa.int64()),
        "w": column([n * 2_000_000_011 for n in numbers], pa.int64()),
        "s": column([f"s{n}" for n in numbers], pa.string()),
        "t": column([f"a long text {n}" for n in numbers], pa.string()),
        "day": column(numbers, pa.int32()).cast(pa.date32()),
        "d": column([Decimal(n) for n in numbers], pa.decimal128(12, 2)),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("keys") / "facts.parquet"
    pq.write_table(facts, path, row_group_size=11_000)
    return {"facts": str(path), "whole": facts, "names": pa.table({"n": pa.array(range(5), pa.int64())})}


def build_side(facts: pa.Table, columns: tuple[str, ...], type_: pa.DataType | None, n: int) -> pa.Table:
    some = facts.select(columns).slice(100, n).append_column("x", pa.array(range(n), pa.int64()))
    if type_ is not None:
        some = some.set_column(0, columns[0], some[columns[0]].cast(type_))
    return some


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n_build", [0, 1, 40])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("key", KEYS)
def test_rows_without_a_build_key(
    key: str, query: str, n_build: int, threads: int, tables: dict[str, pa.Table], duck: duckdb.DuckDBPyConnection
) -> None:
    columns, type_ = KEYS[key]
    few = build_side(tables["whole"], columns, type_, n_build)
    text, drops = QUERIES[query]
    side = "f" if " as f " in text else "facts"
    text = text.format(" and ".join(f"{side}.{name} = few.{name}" for name in columns))
    result = qcore.sql(text, {"facts": tables["facts"], "names": tables["names"], "few": few}, threads=threads)
    actual = result.to_arrow()
    duck.execute(f"create view facts as from read_parquet('{tables['facts']}')")
    duck.register("few", few)
    duck.register("names", tables["names"])
    assert_same_rows(actual, duck.sql(text).to_arrow_table())
    if n_build == 40:
        # The probe side's decimals are cast to the build side's scale. Integers of 32 bits are cast on the build side.
        drops = drops and key != "another scale"
        assert (scan_figures(result)["rows_cut"] > 0.9 * N_ROWS) == drops, scan_figures(result)


def test_a_key_that_most_rows_have_is_not_asked_for_long(tmp_path: Path, duck: duckdb.DuckDBPyConnection) -> None:
    n_rows = 200_000
    facts = pa.table({"k": pa.array(np.arange(n_rows) % 1000), "v": pa.array(np.arange(n_rows))})
    pq.write_table(facts, tmp_path / "facts.parquet")
    most = pa.table({"k": pa.array([k for k in range(1000) if k % 4]), "x": pa.array(range(750))})
    text = "select sum(v + x) as s, count(*) as n from facts join most using (k)"
    result = qcore.sql(text, {"facts": str(tmp_path / "facts.parquet"), "most": most}, threads=1)
    actual = result.to_arrow()
    duck.register("facts", facts)
    duck.register("most", most)
    assert_same_rows(actual, duck.sql(text).to_arrow_table())
    assert scan_figures(result)["rows_cut"] == 0
