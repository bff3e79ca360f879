"""Bad input ends in an error with its cause and remedy. Everything is freed, and the next query runs (SPEC D9)."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from qcore import FileSplit, PlanBuilder, Task

THREADS = 2
GOOD = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})


@pytest.fixture(autouse=True)
def next_query_runs() -> Iterator[None]:
    yield
    assert qcore.sql("select sum(a) as s from t", {"t": GOOD}, threads=THREADS).to_arrow().to_pylist() == [{"s": 6}]


def run(text: str, **tables: object) -> pa.Table:
    return qcore.sql(text, tables, threads=THREADS, timeout=30).to_arrow()


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(qcore.PlanError, match=r"gone\.parquet"):
        run("select * from t", t=str(tmp_path / "gone.parquet"))


def test_corrupt_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 this is no parquet file PAR1")
    with pytest.raises(qcore.QcoreError, match=r"broken\.parquet"):
        run("select * from t", t=str(path))


def test_file_damaged_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"a": list(range(100_000))}), path, row_group_size=10_000, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = b"\xff" * 2000
    path.write_bytes(content)
    with pytest.raises(qcore.ExecutionError, match=r"damaged\.parquet"):
        run("select sum(a) from t", t=str(path))


def test_section_past_the_end(tmp_path: Path) -> None:
    path = str(tmp_path / "small.parquet")
    pq.write_table(GOOD, path)
    scan = PlanBuilder().scan("t", columns=["a"], schema=GOOD.schema, id="t")
    task = Task(scan.build(), drivers=THREADS)
    task.add_split("t", FileSplit(path, start=10_000_000, length=5))
    task.no_more_splits("t")
    with pytest.raises(qcore.QcoreError, match=r"small\.parquet.*10000000|10,000,000"):
        list(task.batches())
    assert task.state == "failed"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select b from t", "b"),
        ("select a from elsewhere", "elsewhere"),
        ("select nosuch(a) from t", "nosuch"),
        ("selec a from t", "selec"),
    ],
)
def test_unknown_names(text: str, names: str) -> None:
    with pytest.raises(qcore.PlanError, match=names):
        run(text, t=GOOD)


def test_join_keys_that_cannot_meet() -> None:
    left = PlanBuilder().values(pa.table({"a": [1]}))
    right = PlanBuilder().values(pa.table({"s": [b"x"]}))
    with pytest.raises(qcore.PlanError, match=r"(?s)a.*s|s.*a") as caught:
        left.hash_join(right, left_on=["a"], right_on=["s"], how="inner").build()
    assert "int64" in str(caught.value)
    assert "binary" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select 1 // (a - a) as q from t", "zero"),
        ("select 1 % (a - a) as q from t", "zero"),
        ("select (a * 4611686018427387904) as q from t", "overflow|out of range"),
        ("select d * d * d as q from t", "overflow|digits|out of range"),
        ("select cast(s as int) as q from t", "cast|'x'"),
    ],
)
def test_values_that_cannot_be_had(text: str, reason: str) -> None:
    wide = decimal.Decimal("9" * 18)
    table = GOOD.append_column("d", pa.array([wide, wide, wide], pa.decimal128(18, 0)))
    with pytest.raises(qcore.ExecutionError, match=f"(?i){reason}") as caught:
        run(text, t=table)
    assert caught.value.operator
    assert caught.value.node_id is not None


def test_floats_follow_ieee() -> None:
    table = pa.table({"f": [1.0, 0.0, -1.0]})
    assert [str(v) for v in run("select f / 0.0e0 as q from t", t=table)["q"].to_pylist()] == ["inf", "nan", "-inf"]


def test_a_masked_row_does_not_raise() -> None:
    table = pa.table({"a": [4, 0, 2], "b": [8, 1, 6]})
    assert run("select b // a as q from t where a <> 0 order by q", t=table)["q"].to_pylist() == [2, 3]
    text = "select case when a = 0 then -1 else b // a end as q from t order by q"
    assert run(text, t=table)["q"].to_pylist() == [-1, 2, 3]


def test_a_stream_that_raises_in_the_middle() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1, 2]})
        raise RuntimeError("the cable was pulled")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    with pytest.raises(qcore.ExecutionError, match="the cable was pulled"):
        run("select sum(a) from t", t=reader)


def test_the_memory_limit_names_itself() -> None:
    table = pa.table({"k": list(range(200_000))})
    session = qcore.Session(threads=2, memory_limit=1 << 20)
    with pytest.raises(qcore.MemoryLimitError, match="memory_limit"):
        session.sql("select k, count(*) from t group by k", {"t": table}).to_arrow()
