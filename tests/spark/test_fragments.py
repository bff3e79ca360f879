"""Plans divided into stages and run one after another, without Spark, return the rows of the plan (SPEC S2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process_stages import StagesRun

import qcore
from oracle import assert_same_rows
from qcore import PlanBuilder, agg, col
from qcore.errors import PlanError
from qcore.plan import nodes as p
from qcore.spark.fragments import Limits, StagedEstimator, estimated_rows, next_stages, with_output
from qcore.spark.page_files import PagesTable
from qcore.spark.stage_parts import table_of_keys
from qcore.spark.stage_stats import describe
from qcore.writing.page_file import Page, PageFile
from random_tables import random_table
from sweeps import every

# No part counts as small. Every join is partitioned, and only the rest runs in this process.
APART = Limits(3, 0, 0)
TYPES = {
    "k": pa.int32(),
    "s": pa.string(),
    "d": pa.decimal128(12, 2),
    "f": pa.float64(),
    "i": pa.int64(),
    "t": pa.date32(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of five files with repeated keys."""
    path = tmp_path_factory.mktemp("tables")
    (path / "l").mkdir()
    for number in range(5):
        rows = random_table(number, 700 * number, TYPES, 0.1)
        keys = pa.array([None if n % 41 == 0 else n * 7 % 23 for n in range(rows.num_rows)], pa.int32())
        pq.write_table(rows.set_column(0, "k", keys), path / "l" / f"{number}.parquet", row_group_size=300)
    pq.write_table(pa.table({"k": pa.array(range(0, 30, 2), pa.int32()), "n": [f"name {n}" for n in range(15)]}),
                   path / "r.parquet")  # fmt: skip
    return path


@pytest.fixture
def session(folder: Path) -> qcore.Session:
    session = qcore.Session(threads=2)
    session.register("l", str(folder / "l"))
    session.register("r", str(folder / "r.parquet"))
    return session


@pytest.fixture
def oracle(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"create view l as select * from read_parquet('{folder}/l/*.parquet')")
        connection.execute(f"create view r as select * from read_parquet('{folder}/r.parquet')")
        yield connection


QUERIES = {
    "filter and project": "select k + 1 as k1, s from l where i > 0 and k < 12",
    "no rows": "select k, s from l where k > 1000",
    "totals": "select count(*) n, count(s) c, sum(i) i, sum(d) d, avg(d) a, avg(i) b, min(s) m, max(t) t from l",
    "totals of no rows": "select count(*) n, sum(i) i, avg(f) a, min(s) m from l where k > 1000",
    "groups": "select k, count(*) n, sum(d) d, avg(f) f, min(t) t, max(s) s from l group by k",
    "moments": "select k, stddev(f) a, var_pop(f) b, stddev_pop(i % 100) c from l group by k",
    "groups by expressions": "select k % 5 m, upper(s) u, count(*) n, count(d) c from l group by all",
    "distinct rows": "select distinct k, t from l",
    "distinct arguments": "select k, count(distinct s) a, sum(distinct i) b, count(*) n from l group by k",
    "one distinct total": "select count(distinct s) a, count(distinct k) b from l",
    "median": "select k, median(f) m from l group by k",
    "a median of all": "select median(f) m, max(i) x from l",
    "filtered calls": "select k, sum(i) filter (where f > 0) a, count(*) filter (where s is null) b from l group by k",
    "having": "select k, sum(i) a from l group by k having count(*) > 100",
    "groups of groups": "select n, count(*) c from (select k, count(*) n from l group by k) group by n",
    "top": "select i, s from l where i is not null order by i desc, s limit 7",
    "top after some": "select i from l order by i nulls first limit 5 offset 4",
    "all in order": "select k, i from l where k = 3 order by i, k",
    "top of groups": "select k, sum(i) a from l group by k order by a desc nulls last, k limit 3",
    "grouping sets": "select k, s, count(*) n, sum(d) d from l group by rollup (k, s)",
    "grouping sets of no rows": "select k, count(*) n from l where k > 1000 group by grouping sets ((k), ())",
    "constants": "select 1 a, 'x' b",
}


@pytest.mark.each_value
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("n_tasks", "n_partitions"), [(1, 1), (2, 3), (5, 7)])
def test_s2_queries_over_one_table(
    name: str,
    n_tasks: int,
    n_partitions: int,
    session: qcore.Session,
    oracle: duckdb.DuckDBPyConnection,
    tmp_path: Path,
) -> None:
    """S2: with 1, 2 and 5 tasks and 1, 3 and 7 partitions the answers are those of local qcore and of DuckDB."""
    result = session.sql(QUERIES[name])
    run = StagesRun(str(tmp_path), Limits(n_partitions, 0, 0), n_tasks)
    actual = run.rows(result.plan)
    assert_same_rows(actual, result.to_arrow(), ordered="order by" in QUERIES[name])
    assert_same_rows(actual, oracle.sql(QUERIES[name]).to_arrow_table(), rel_tol=1e-7)
    assert list(tmp_path.iterdir()) == [], "the folder is removed"


def test_a_limit_gives_as_many_rows(session: qcore.Session, tmp_path: Path) -> None:
    for text, n_rows in (("select k from l limit 5", 5), ("select k from l limit 10 offset 6995", 5)):
        assert StagesRun(str(tmp_path), APART).rows(session.sql(text).plan).num_rows == n_rows
    assert session.sql("select count(*) from l").to_arrow()[0][0].as_py() == 7000


def test_aggregates_run_in_two_steps(session: qcore.Session, tmp_path: Path) -> None:
    """The stage has the partial step, the rest of the plan the final one."""
    plan = session.sql("select k, avg(d) a from l group by k").plan
    (stage,) = next_stages(plan, APART)
    partial = stage.plan.child
    assert (stage.n_partitions, stage.keys, stage.n_tasks) == (3, ("k",), None)
    assert stage.reads == {partial.children[0].id: "share"}
    assert isinstance(partial, p.AggregateStep)
    assert partial.step == "partial"
    assert partial.schema.names[0] == "k"
    assert len(partial.schema) == 1 + 3, "sum, rows and nulls"
    run = StagesRun(str(tmp_path), APART)
    run.rows(plan)
    rows = [table.n_rows for _, table in run.stages]
    assert rows[0] <= 24 * 2, "24 groups in each of two tasks"
    assert run.stages[1][0].reads == {f"{stage.replaces}.states": "partition"}


def test_steps_can_be_explained_and_optimized(session: qcore.Session) -> None:
    plan = session.sql("select k, avg(d) a from l where f > 0 group by k").plan
    (stage,) = next_stages(plan, APART)
    result = session.execute(stage.plan.child)
    assert "AggregateStep partial by [k] a = avg(d)" in result.explain()
    assert result.to_arrow().schema.names == stage.plan.schema.names
    above = stage.above.with_children(result.plan)
    final = session.execute(above)
    assert "AggregateStep final by [k] a = avg(d)" in final.explain()
    assert_same_rows(final.to_arrow(), session.execute(plan).to_arrow())


def test_small_rests_need_no_task(session: qcore.Session, tmp_path: Path) -> None:
    """A part that reads few bytes from stages runs in this process."""
    run = StagesRun(str(tmp_path), Limits(3))
    run.rows(session.sql("select n, count(*) c from (select k, count(*) n from l group by k) group by n").plan)
    assert len(run.stages) == 1


def test_rows_of_this_process_are_written_once(tmp_path: Path) -> None:
    table = random_table(1, 3000, TYPES, 0.1)
    session = qcore.Session(threads=2)
    session.register("m", table)
    result = session.sql("select k, count(*) n from m where i > 0 group by k")
    run = StagesRun(str(tmp_path), APART, 3)
    assert_same_rows(run.rows(result.plan), result.to_arrow())
    first, _ = run.stages[0]
    assert (first.on_driver, first.n_tasks) == (True, 1)
    assert sum(stage.on_driver for stage, _ in run.stages) == 1


def test_aggregates_over_nested_values(tmp_path: Path) -> None:
    """Keys that are lists cannot be hashed, so all rows are sent to one task."""
    path = str(tmp_path / "n.parquet")
    pq.write_table(pa.table({"x": [[1, 2], [3], None, [1, 2]] * 50, "v": range(200)}), path)
    plans = [
        PlanBuilder().scan("n", source=path).aggregate(["x"], {"n": ("count",), "v": ("sum", "v")}),
        PlanBuilder().scan("n", source=path).aggregate([], {"a": ("min", "x")}),
        PlanBuilder().scan("n", source=path).aggregate([], {"a": agg("count", "x", distinct=True)}),
        PlanBuilder().scan("n", source=path).filter(col("v") > 3).unnest(["x"]).aggregate(["x"], {"n": ("count",)}),
    ]
    session = qcore.Session(threads=2)
    session.register("n", path)
    for builder in plans:
        result = session.execute(builder.build())
        assert_same_rows(StagesRun(str(tmp_path), APART).rows(result.plan), result.to_arrow())


def test_nodes_of_this_process_only_are_refused(session: qcore.Session) -> None:
    plan = session.sql("select k, random() r from l").plan
    with pytest.raises(PlanError, match=r"UserOperator \(node .*\) cannot run in Spark's tasks: .*without on="):
        next_stages(plan)


# The rows of `few` that a join returns decide whether unmatched rows of `many` may be left out of the exchange.
FILTERED = {
    "select many.k, v, w from many join few on many.k = few.k": True,
    "select k, v from many where k in (select k from few where w >= 0)": True,
    "select many.k, v, w from few left join many on many.k = few.k": True,
    "select many.k, v, w from many left join few on many.k = few.k": False,
    "select many.k, v, w from many full join few on many.k = few.k": False,
    "select k, v from many where k not in (select k from few)": False,
    "select k, v from many where not exists (select 1 from few where few.k = many.k)": False,
}


@pytest.mark.parametrize("query", every(3, FILTERED))
def test_rows_without_a_match_are_not_exchanged(query: str, tmp_path: Path) -> None:
    """S2: a filter of the build keys drops such rows if the join does not return them."""
    tables = {
        "many": pa.table({"k": list(range(50_000)), "v": [i / 4 for i in range(50_000)]}),
        "few": pa.table({"k": list(range(0, 60_000, 100)), "w": list(range(600))}),
    }
    session = qcore.Session(threads=2)
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=10_000)
            session.register(name, str(tmp_path / f"{name}.parquet"))
            connection.execute(f"create view {name} as from read_parquet('{tmp_path / name}.parquet')")
        run = StagesRun(str(tmp_path), APART)
        assert_same_rows(run.rows(session.sql(query).plan), connection.sql(query).to_arrow_table())
    exchanged = [table.n_rows for stage, table in run.stages if "many" in describe(stage) and stage.keys]
    assert (min(exchanged, default=50_000) < 2000) == FILTERED[query], exchanged


@pytest.mark.parametrize(("step", "is_hashed"), [(1, False), (100, True)])
def test_keys_are_hashed_if_rows_may_have_no_match(step: int, is_hashed: bool, tmp_path: Path) -> None:
    tables = {
        "many": pa.table({"k": [i % 20_000 for i in range(50_000)], "v": [i / 4 for i in range(50_000)]}),
        "few": pa.table({"k": list(range(0, 20_000, step)), "w": list(range(0, 20_000, step))}),
    }
    session = qcore.Session(threads=2)
    for name, rows in tables.items():
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=10_000)
        session.register(name, str(tmp_path / f"{name}.parquet"))
    run = StagesRun(str(tmp_path), APART)
    text = "select v, w from many join few on many.k = few.k"
    assert_same_rows(run.rows(session.sql(text).plan), session.sql(text).to_arrow())
    assert any(file.hashes is not None for _, table in run.stages for file in table.files) == is_hashed


def test_the_filter_of_a_join_above_a_join(tmp_path: Path) -> None:
    """As in TPC-H Q21: the keys of the first join's build side also decide which rows the second one needs."""
    rows = pa.table({"k": [i // 4 for i in range(40_000)], "v": [i % 7 for i in range(40_000)]})
    few = pa.table({"k": list(range(0, 9_000, 100)), "v": [i % 7 for i in range(90)]})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=10_000)
    pq.write_table(few, tmp_path / "few.parquet")
    text = """
        select few.k, few.v from few
        where exists (select 1 from rows where rows.k = few.k and rows.v <> few.v)
        and not exists (select 1 from rows where rows.k = few.k and rows.v <> few.v and rows.v > 5)
    """
    session = qcore.Session(threads=2)
    with duckdb.connect() as connection:
        for name in ("rows", "few"):
            session.register(name, str(tmp_path / f"{name}.parquet"))
            connection.execute(f"create view {name} as from read_parquet('{tmp_path / name}.parquet')")
        run = StagesRun(str(tmp_path), APART)
        assert_same_rows(run.rows(session.sql(text).plan), connection.sql(text).to_arrow_table())
    exchanged = [table.n_rows for stage, table in run.stages if describe(stage).startswith("rows")]
    assert len(exchanged) == 2
    assert max(exchanged) < 2000


@pytest.mark.parametrize("kind", ["left_anti", "right_anti"])
def test_the_table_of_keys_is_one_of_the_returned_side(kind: str) -> None:
    """The other side of the join may have columns of the same names, and its table has other keys."""
    schema = pa.schema([("k", pa.int64())])
    tables = {side: PagesTable(schema, [], 2, ("k",)) for side in ("left", "right")}
    left, right = (p.Scan(side, schema, side, source, ("k",)) for side, source in tables.items())
    join = p.HashJoin("j", schema, left, right, kind, ("k",), ("k",))
    filtered = p.Filter("f", schema, join, col("k") > 0)
    renamed = p.Project("n", pa.schema([("n", pa.int64())]), filtered, (col("k"),))
    assert table_of_keys(renamed, ["n"]) is tables[kind.removesuffix("_anti")]
    added = p.Project("n", renamed.schema, filtered, (col("k") + 1,))
    assert table_of_keys(added, ["n"]) is None


def test_estimates_above_stages(folder: Path, session: qcore.Session) -> None:
    """The rows of a join change in proportion to those that the stage below it wrote."""
    plan = session.sql("select s, n from l join r on l.k = r.k where n > 'name 3'").plan
    planned = estimated_rows(plan)
    stages = next_stages(plan, APART)
    joins = [node for node in plan.walk() if isinstance(node, p.HashJoin)]
    (side,) = (stage for stage in stages if [scan.table for scan in stage.scans.values()] == ["r"])
    for factor in (1, 3):
        n_rows = int(planned[side.replaces] * factor)
        page = Page(0, 0, 64, n_rows, 0)
        table = PagesTable(side.plan.schema, [PageFile("p", (page,), 64)], side.n_partitions, side.keys)
        above = with_output(plan, side, table)
        estimator = StagedEstimator(planned)
        (join,) = (node for node in above.walk() if isinstance(node, p.HashJoin))
        assert estimator.rows(join) == pytest.approx(planned[joins[0].id] * n_rows / planned[side.replaces])
