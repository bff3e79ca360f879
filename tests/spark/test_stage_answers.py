"""Whole queries by stages, without Spark: joins of every kind, random plans, TPC-H and TPC-DS (SPEC S2)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process_stages import StagesRun

import qcore
from answers_of import Answer, assert_answers
from operator_plans import LEFT, random_rows
from oracle import assert_same_rows
from qcore import PlanBuilder, col
from qcore.spark.fragments import Limits
from random_plans import ROWS_MAX, Growing
from random_tables import random_table
from sweeps import every

# All joins that can be are partitioned; the default; all build sides that can be are read by every task.
CUTS = {"apart": Limits(3, 0, 0), "default": Limits(3), "broadcast": Limits(3, 1 << 62, 0)}
KINDS = ("inner", "left", "right", "full", "left_semi", "right_semi", "left_anti", "right_anti")
BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables with unique and repeated keys, keys that one side lacks, and nulls."""
    folder = tmp_path_factory.mktemp("sides")
    for name, n_rows in (("l", 3000), ("r", 900)):
        types = {"k": pa.int32(), "s": pa.string(), "v": pa.int64(), "f": pa.float64()}
        rows = random_table(n_rows, n_rows, types, 0.1, n_distinct={"k": 400, "s": 30})
        pq.write_table(rows, folder / f"{name}.parquet", row_group_size=200)
    return folder


def session_over(folder: Path, threads: int = 2) -> qcore.Session:
    session = qcore.Session(threads=threads, timeout=60)
    for path in sorted(folder.glob("*.parquet")):
        session.register(path.stem, str(path))
    return session


@pytest.mark.each_value
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("build", ["left", "right"])
@pytest.mark.parametrize("kind", every(2, KINDS))
def test_joins_of_every_kind(kind: str, build: str, cut: str, sides: Path, tmp_path: Path) -> None:
    """Hash joins by one and two keys, with a condition, and nested-loop joins."""
    session = session_over(sides)
    left = PlanBuilder().scan("l", source=str(sides / "l.parquet"))
    right = PlanBuilder().scan("r", source=str(sides / "r.parquet"))
    few, some = left.filter(col("v") % 40 == 0), right.filter(col("v") % 20 == 0)
    plans = [
        left.hash_join(right, ["k"], ["k"], how=kind, suffix="_r"),
        left.hash_join(right, ["k", "s"], ["k", "s"], how=kind, suffix="_r"),
        left.hash_join(right, ["s"], ["s"], how=kind, suffix="_r", condition=col("v") > col("v_r")),
        few.nested_loop_join(some, col("v") > col("v_r"), how=kind, suffix="_r"),
    ]
    for builder in plans:
        plan = session.execute(builder.build()).plan
        flipped = with_build(plan, build)
        run = StagesRun(str(tmp_path), CUTS[cut], 2)
        assert_same_rows(run.rows(flipped), session.execute(builder.build()).to_arrow())


def with_build(node: Any, build: str) -> Any:
    """The plan whose joins all have this build side."""
    if hasattr(node, "build"):
        return node.with_fields(build=build)
    return node.with_children(*(with_build(child, build) for child in node.children)) if node.children else node


QUERIES = {
    "not in": "select k, v from l where k not in (select k from r where v % 3 = 0 and k is not null)",
    "not in with nulls": "select count(*) n from l where k not in (select k from r)",
    "in as a value": "select b, count(*) n from (select k in (select k from r) b from l) group by b",
    "exists as a value": "select v, exists (select 1 from r where r.k = l.k and r.v > l.v) b from l",
    "a scalar subquery": "select k, v from l where v > (select avg(v) from r)",
    "a correlated one": "select l.k, l.v from l where l.v > (select avg(r.v) from r where r.k = l.k)",
    "one that gives no row": "select k, (select v from r where v is null and v = 1) x from l",
    "unions": "select k, v from l union all select k, v from r union all select 1, 2",
    "distinct unions": "select k from l union select k from r",
    "intersection": "select k from l intersect select k from r",
    "difference": "select k from l except all select k from r",
    "a union of groups": "select k, count(*) n from l group by k union all select k, v from r union all "
    "(select k, v from l order by v, k, s, f limit 3)",
    "windows": "select k, v, sum(v) over (partition by k order by v, s, f rows unbounded preceding) x, "
    "count(*) over (partition by k) n from l",
    "a window over all": "select k, v, row_number() over (order by v, k, s, f) n from l",
    "windows over groups": "select k, count(*) n, rank() over (order by count(*) desc) x from l group by k",
    "the best two": "select k, v from (select *, row_number() over (partition by k order by v desc, s, f) n from l) "
    "where n <= 2",
    "a shared subplan": "with g as (select k, sum(v) x, count(*) n from l group by k) "
    "select a.k, a.x, b.n from g a join g b on a.k = b.k where a.x > (select avg(x) from g)",
    "shared rows": "with g as (select k, v from l where v > 0) select k from g where v % 2 = 0 union all "
    "select k from g where v % 3 = 0",
    "grouping sets of a join": "select l.k, r.s, grouping(l.k) g, count(*) n, sum(r.v) x from l join r on l.k = r.k "
    "group by cube (l.k, r.s)",
    "recursion": "with recursive t as (select min(v) a, 0 d from r union all "
    "select a + 1, d + 1 from t where d < (select count(*) from r where v % 100 = 0)) select * from t",
    "recursion over a table": "with recursive t(k, d) as (select k, 0 from r where v % 50 = 0 union "
    "select l.k, t.d + 1 from t join l on l.v = t.k where t.d < 3) select * from t",
    "joins of groups": "select a.k, n, m from (select k, count(*) n from l group by k) a "
    "full join (select k, count(*) m from r group by k) b on a.k = b.k",
    "groups of joins": "select l.k, count(distinct r.s) a, max(r.v) b from l left join r on l.k = r.k group by l.k",
    "cross joins": "select count(*) n, sum(a.v + b.v) x from l a, r b where a.v % 50 = 0",
    "a series": "select x, count(l.k) n from generate_series(1, 50) g(x) left join l on l.k = x group by x",
    "values": "select a, count(*) n from (values (1, 'x'), (2, 'y'), (null, 'z')) t(a, b) "
    "left join l on l.k = a group by a",
}


@pytest.mark.each_value
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", QUERIES)
def test_s2_queries_over_two_tables(name: str, cut: str, sides: Path, tmp_path: Path) -> None:
    """S2: the answers are those of local qcore and of DuckDB."""
    result = session_over(sides).sql(QUERIES[name])
    actual = StagesRun(str(tmp_path), CUTS[cut], 3).rows(result.plan)
    assert_same_rows(actual, result.to_arrow())
    with duckdb.connect() as connection:
        for side in ("l", "r"):
            connection.execute(f"create view {side} as from read_parquet('{sides}/{side}.parquet')")
        assert_same_rows(actual, connection.sql(QUERIES[name]).to_arrow_table())
    assert list(tmp_path.iterdir()) == []


class GrowingOnTables(Growing):
    """Random plans without operators written in Python, which run in one process only."""

    def user(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.distinct()


@pytest.mark.parametrize("start", every(4, range(0, 120, 10)))
def test_random_plans(start: int, tmp_path: Path) -> None:
    """Random plans over files and rows of this process, divided in several ways."""
    for seed in range(start, start + 10):
        rng = random.Random(seed)
        rows = random_rows(LEFT, rng.randint(0, ROWS_MAX), rng)
        path = str(tmp_path / f"{seed}.parquet")
        pq.write_table(rows, path, row_group_size=rng.randint(1, 20))
        session = qcore.Session(threads=2)
        session.register("l", path)
        session.register("m", rows)
        has_memory = rng.random() < 0.2

        def source(rng: random.Random = rng, has_memory: bool = has_memory) -> PlanBuilder:
            return PlanBuilder().scan("m" if has_memory and rng.random() < 0.5 else "l", schema=LEFT)

        result = session.execute(GrowingOnTables(rng, source).plan(rng.choice((1, 2, 3))).build())
        limits = rng.choice([*CUTS.values(), Limits(1, 0, 0), Limits(2, rng.choice((300, 3000)), 0)])
        run = StagesRun(str(tmp_path), limits, rng.choice((1, 2, 5)), threads=rng.choice((1, 2)), order=rng)
        assert_same_rows(run.rows(result.plan), result.to_arrow())


@pytest.mark.each_value
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, cut: str, tpch_dir: Path, tmp_path: Path) -> None:
    """S2: the rows are those of DuckDB, with partitioned joins, joins by size, and build sides read by every task."""
    text = (BENCH / "tpch" / "queries" / f"q{number:02}.sql").read_text()
    actual = StagesRun(str(tmp_path), CUTS[cut], 2).rows(session_over(tpch_dir).sql(text).plan)
    with duckdb.connect() as connection:
        for path in tpch_dir.glob("*.parquet"):
            connection.execute(f"create view {path.stem} as from read_parquet('{path}')")
        assert_same_rows(actual, connection.sql(text).to_arrow_table())


@pytest.mark.parametrize("query", every(25, [f"q{number:02}" for number in range(1, 100)]))
def test_tpcds(query: str, tpcds_at: Callable[[float], Any], tmp_path: Path) -> None:
    """S2: the rows are those of DuckDB, however the plan is divided."""
    tpcds = tpcds_at(0.01)
    session = qcore.Session(threads=2, timeout=60)
    with duckdb.connect() as connection:
        for name, path in tpcds.tables.items():
            session.register(name, path)
            connection.execute(f"create view {name} as from read_parquet('{path}')")
        answer = Answer.of(connection, tpcds.queries[query])
        plan = session.sql(tpcds.queries[query]).plan
        for limits in CUTS.values():
            order = random.Random(query)
            assert_answers(StagesRun(str(tmp_path), limits, 2, order=order).rows(plan), answer)
