"""Plans as text (SPEC G7)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from qcore.builder.aggregate_steps import agg
from qcore.builder.plan_builder import PlanBuilder
from qcore.expression.tree import col
from qcore.session.explain import describe, explain_plan

T = pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.int64())])


def builder() -> PlanBuilder:
    return PlanBuilder().scan("t", schema=T)


def test_tree_is_aligned_and_names_every_node() -> None:
    other = PlanBuilder().scan("u", schema=pa.schema([("z", pa.int64())])).filter(col("z") > 1)
    plan = builder().hash_join(other, "x", "z").aggregate(["k"], {"s": ("sum", "y")}).build()
    assert explain_plan(plan, lambda node: 1_234_567).splitlines() == [
        "plan                         id  estimated rows",
        "Aggregate by [k] s = sum(y)   2       1,234,567",
        "└─ HashJoin inner x = z       1       1,234,567",
        "   ├─ Scan t [k, x, y]        t       1,234,567",
        "   └─ Filter z > 1            0       1,234,567",
        "      └─ Scan u [z]           u       1,234,567",
    ]


def test_nodes_say_what_they_do() -> None:
    assert describe(builder().order_by(["x desc nulls first", "k"]).build()) == "OrderBy by x desc nulls first, k"
    assert describe(builder().top_n("x", 10, offset=2).build()) == "TopN 10 after 2 by x"
    assert describe(builder().limit(None, offset=5).build()) == "Limit all after 5"
    assert describe(builder().project({"a": col("x") + 1, "k": "k"}).build()) == "Project a = x + 1, k"
    counted = builder().aggregate([], {"n": ("count",), "d": agg("count", "x", distinct=True, filter=col("y") > 1)})
    assert describe(counted.build()) == "Aggregate n = count(*), d = count(distinct x) filter y > 1"
    assert describe(builder().local_partition(["k"]).build()) == "LocalPartition hash by [k]"
    assert describe(builder().local_partition(kind="gather").build()) == "LocalPartition gather"
    assert describe(builder().callback(print).build()) == "CallbackSink print"
    crossed = builder().nested_loop_join(PlanBuilder().values(pa.table({"v": [1, 2]})), col("x") < col("v"), how="left")
    assert describe(crossed.build()) == "NestedLoopJoin left x < v"
    assert describe(crossed.build().children[1]) == "Values 2 rows [v]"


def test_long_lines_are_cut() -> None:
    wide = pa.schema([(f"column_number_{i}", pa.int64()) for i in range(50)])
    text = describe(PlanBuilder().scan("t", schema=wide).build())
    assert len(text) < 120 and text.endswith("…")


def operator(node: str, rows: int, millis: float, blocked: float = 0) -> dict[str, object]:
    call = {"calls": 1, "wall_nanos": int(millis * 1e6), "cpu_nanos": 0}
    idle = {"calls": 0, "wall_nanos": 0, "cpu_nanos": 0}
    return {
        "name": "x", "node_id": node, "output_rows": rows, "input_rows": 0, "add_input": call, "get_output": idle,
        "finish": idle, "is_blocked": idle, "blocked_wall_nanos": {"join build": int(blocked * 1e6)},
    }  # fmt: skip


def test_stats_stand_beside_the_plan() -> None:
    plan = builder().filter(col("x") > 1).build()
    stats = {
        "pipelines": [
            {"operators": [operator("t", 5000, 1.5), operator("0", 100, 0.25, blocked=3), operator("result", 0, 0)]},
        ]
    }
    assert explain_plan(plan, stats=stats).splitlines() == [
        "plan                 id   rows    ms  blocked ms  pipelines",
        "Filter x > 1          0    100  0.25        3.00  0",
        "└─ Scan t [k, x, y]   t  5,000  1.50        0.00  0",
    ]


def test_pipelines_are_marked_as_they_will_run():
    """The numbers of a plan that has not run are those that it shows once it has (SPEC G7, Q1)."""
    session = qcore.Session(threads=2)
    session.register("t", pa.table({"i": range(100), "s": ["a"] * 100}))
    session.register("u", pa.table({"x": range(10)}))
    result = session.sql("select s, count(*) as n from t join u on i = x group by s order by n limit 3")

    def pipeline_columns(text):
        header, *lines = text.splitlines()
        column = slice(header.index("pipelines"), header.index("  how") if "  how" in header else None)
        return [line[column].rstrip() for line in lines if not line.startswith("plan cache")]

    before = pipeline_columns(result.explain())
    assert before == pipeline_columns(result.explain(analyze=True))
    assert before[0] and len(set(before)) > 2


def tell_choice(sql: str, table: str, **tables: Any) -> str:
    """The last column of EXPLAIN ANALYZE for the first node whose line has `table`."""
    session = qcore.Session(threads=2)
    for name, rows in tables.items():
        session.register(name, rows)
    header, *lines = session.sql(sql).explain(analyze=True).splitlines()
    column = header.index("how")
    assert header.endswith("  how")
    return next(line[column:] for line in lines if table in line)


def numbers(*columns: Iterable[int]) -> pa.Table:
    return pa.table({name: pa.array(list(values), pa.int64()) for name, values in zip("kv", columns, strict=False)})


SPARSE = [number * 7_777_777_777 for number in range(1_000)]
JOIN = "select sum(t.v) as s from t join b on t.k = b.k"


@pytest.mark.parametrize(
    ("keys", "index"),
    [
        (range(1_000), "ranks, as a bitmap over the range of keys is no larger than slots"),
        (SPARSE, "slots of codes, as the keys together fit 64 bits and their range is wide"),
        ([str(key) for key in range(1_000)], "slots of hashes, as the keys do not fit a code"),
    ],
    ids=["dense", "sparse", "text"],
)
def test_a_join_names_its_index_and_the_rows_that_matched(keys: Any, index: str) -> None:
    """H1: the index with the reason for it, and the probe rows that were looked up and found."""
    keys = list(keys)
    build = pa.table({"k": keys[:500], "w": range(500)})
    probe = pa.table({"k": keys * 5, "v": range(5_000)})
    assert tell_choice(JOIN, "HashJoin", t=probe, b=build) == f"{index}; 2,500 of 5,000 rows matched"
    assert tell_choice("select v from t where k in (select k from b)", "HashJoin", t=probe, b=build).endswith(
        "2,500 of 5,000 rows matched"
    )
    assert tell_choice("select v from t where k not in (select k from b)", "HashJoin", t=probe, b=build).endswith(
        "2,500 of 5,000 rows matched"
    )


def test_a_join_without_keys_or_build_rows_says_so() -> None:
    """H1."""
    some = numbers([1, 2, 3], [4, 5, 6])
    crossed = tell_choice("select t.v from t join b on t.k < b.k", "NestedLoopJoin", t=some, b=some)
    assert crossed == "every build row, as there are no keys; 3 of 3 rows matched"
    nulls = pa.table({"k": pa.array([None, None], pa.int64()), "v": [1, 2]})
    kept = tell_choice("select t.v, b.v as w from t left join b on t.k = b.k", "HashJoin", t=some, b=nulls)
    assert kept == "no build row has a key; 0 of 3 rows matched"


def test_a_join_tells_how_many_rows_were_looked_up_by_a_perfect_hash() -> None:
    """P3: each driver makes it once many rows have met a small table."""
    build = pa.table({"k": SPARSE[:500], "w": range(500)})
    told = tell_choice(JOIN, "HashJoin", t=pa.table({"k": SPARSE[:500] * 200, "v": range(100_000)}), b=build)
    hashed = told.rpartition("; ")[2].removesuffix(" were looked up by a perfect hash of the keys")
    assert 40_000 < int(hashed.replace(",", "")) < 90_000


def test_a_join_tells_for_how_many_rows_its_filter_was_asked() -> None:
    """P3: few rows match, so that the bits in front of the slots save their lines; where most match it is given up."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**62, 400_000)
    build = pa.table({"k": keys[:50_000], "w": range(50_000)})
    few = tell_choice(JOIN, "HashJoin", t=pa.table({"k": rng.permutation(keys), "v": keys & 7}), b=build)
    n_filtered = int(few.rpartition("; ")[2].removesuffix(" were first asked of a filter of bits").replace(",", ""))
    assert 350_000 < n_filtered <= 400_000
    most = tell_choice(JOIN, "HashJoin", t=pa.table({"k": np.tile(keys[:50_000], 8), "v": keys & 7}), b=build)
    assert most.endswith("; 400,000 of 400,000 rows matched")


GROUP = "select k, sum(v) as s from t group by k"


def test_an_aggregation_names_what_found_its_groups() -> None:
    """P2: an array for dense keys, a table for few sparse keys, parts for many; rows of unique keys are passed on."""
    rng = np.random.default_rng(1)
    dense = tell_choice(GROUP, "Aggregate", t=numbers(rng.integers(0, 50, 20_000), range(20_000)))
    assert dense.startswith("groups: ") and "by an array over the range of keys" in dense
    sparse = tell_choice(GROUP, "Aggregate", t=numbers(rng.choice(SPARSE, 20_000), range(20_000)))
    assert "by a hash table" in sparse and "array" not in sparse
    keys = rng.integers(0, 2**62, 400_000)
    many = tell_choice(GROUP, "Aggregate", t=pa.table({"k": np.tile(keys, 5), "v": np.tile(keys, 5) & 7}))
    assert "by hash tables of 256 parts, as there are many" in many
    keys = rng.integers(0, 2**62, 1_000_000)
    assert tell_choice(GROUP, "Aggregate", t=numbers(keys, keys & 7)).endswith(" rows came in pages of one part")


def test_a_scan_tells_how_much_of_its_files_it_read(tmp_path: Path) -> None:
    """P1, P3: row groups and bytes that statistics and keys of joins left out."""
    path = str(tmp_path / "t.parquet")
    rows = pa.table({"k": range(100_000), "v": range(100_000), "other": range(100_000)})
    pq.write_table(rows, path, row_group_size=10_000, use_dictionary=False, compression="none")
    whole = tell_choice("select sum(v) as s from t where k >= 0", "Scan", t=path)
    assert whole == "10 of 10 row groups, 1.6 of 1.6 MB"
    assert (
        tell_choice("select sum(v) as s from t where k < 25000", "Scan", t=path) == "3 of 10 row groups, 0.5 of 1.6 MB"
    )
    build = numbers(range(41_000, 42_000))
    joined = tell_choice("select sum(v) as s from t join b on t.k = b.k where t.k < 50000", "Scan t ", t=path, b=build)
    assert joined == (
        "1 of 10 row groups, 0.2 of 1.6 MB; keys of joins and the filter left out 40,000 rows when splits were opened, "
        "dropped 9,000 rows before other columns were read"
    )
    pages = {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 1000, "compression": "none"}
    pq.write_table(rows, path, row_group_size=50_000, **pages)
    behind = tell_choice("select sum(v) as s from t where k in (30500, 70001)", "Scan t ", t=path)
    assert behind == (
        "2 of 2 row groups, 1.6 of 1.6 MB; keys of joins and the filter dropped 99,998 rows before other columns were "
        "read, skipped 50 pages"
    )


def test_a_scan_read_by_pyarrow_tells_it_too(tmp_path: Path) -> None:
    """P1: nested columns are read by pyarrow, whole or in batches."""
    path = str(tmp_path / "t.parquet")
    rows = pa.table({"k": range(4_000), "l": [[i] for i in range(4_000)]})
    pq.write_table(rows, path, row_group_size=1_000, compression="none")
    assert tell_choice("select l from t where k < 1500", "Scan", t=path).startswith("2 of 4 row groups, 0.0 of 0.")
