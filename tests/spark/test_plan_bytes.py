"""Plans are sent to other processes as bytes, or are errors that name the part that cannot be sent (SPEC S2)."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcore
from qcore.connectors.arrow import StreamTable
from qcore.connectors.files import FileTable
from qcore.errors import PlanError
from qcore.plan import nodes as p
from qcore.spark import plan_bytes
from qcore.spark.plan_bytes import header_of, plan_from_bytes, plan_to_bytes

ROWS = pa.table({"k": ["a", "b", "a"], "x": [1, 2, 3]})


@pytest.fixture
def plan(tmp_path: Path) -> p.PlanNode:
    path = tmp_path / "t.parquet"
    pq.write_table(ROWS, path)
    session = qcore.Session(threads=1)
    session.register("t", FileTable(str(path)))
    return session.sql("select k, sum(x) as s from t where x < 10 group by k").plan


def test_a_plan_runs_in_another_process(plan: p.PlanNode, tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(plan_to_bytes(plan, "qcore", "Europe/Paris"))
    program = f"""
import qcore
from qcore.spark.plan_bytes import plan_from_bytes
plan = plan_from_bytes(open({str(tmp_path / "plan")!r}, "rb").read())
rows = [row for batch in qcore.Task(plan).batches() for row in batch.to_pylist()]
print(sorted(map(str, (tuple(row.values()) for row in rows))))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "[\"('a', 4)\", \"('b', 2)\"]", run.stderr


def test_uuids_are_carried(tmp_path: Path) -> None:
    rows = pa.table({"u": pa.array([uuid.UUID(int=7), None], pa.uuid())})
    pq.write_table(rows, tmp_path / "u.parquet")
    session = qcore.Session(threads=1)
    session.register("t", FileTable(str(tmp_path / "u.parquet")))
    plan = session.sql("select u, [u] as l from t where u = '00000000-0000-0000-0000-000000000007'").plan
    (batch,) = qcore.Task(plan_from_bytes(plan_to_bytes(plan)), drivers=1).batches()
    assert batch.to_pylist() == [{"u": uuid.UUID(int=7), "l": [uuid.UUID(int=7)]}]


def test_the_header(plan: p.PlanNode) -> None:
    header = header_of(plan_to_bytes(plan, "spark", "Europe/Paris"))
    assert (header.qcore, header.pyarrow) == (qcore.__version__, pa.__version__)
    assert (header.dialect, header.time_zone) == ("spark", "Europe/Paris")


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("qcore", "0.0.7", r"made by qcore 0\.0\.7, but this process has qcore \d.*: install the same version here"),
        ("pyarrow", "2.0.0", "made by pyarrow 2, but this process has pyarrow"),
        ("python", "2.7.1", r"made by Python 2\.7, but this process has Python 3"),
    ],
)
def test_other_versions_are_refused(
    plan: p.PlanNode, monkeypatch: pytest.MonkeyPatch, name: str, version: str, message: str
) -> None:
    here = plan_bytes.PlanHeader.of_process()
    other = replace(here, **{name: version})
    with monkeypatch.context() as patched:
        patched.setattr(plan_bytes.PlanHeader, "of_process", staticmethod(lambda *_: other))
        data = plan_to_bytes(plan)
    with pytest.raises(PlanError, match=message):
        plan_from_bytes(data)


def test_damaged_bytes_are_refused(plan: p.PlanNode) -> None:
    data = plan_to_bytes(plan)
    for damaged in (b"", b"PAR1" + data, data[:-1], data + b"x", data[:30], data[:-5] + bytes(5)):
        with pytest.raises(PlanError, match=r"not a plan of qcore|are damaged|header of the plan is damaged"):
            plan_from_bytes(damaged)
    with pytest.raises(PlanError, match="the plan is in format 9, and this version of qcore"):
        plan_from_bytes(data[:8] + (9).to_bytes(4, "little") + data[12:])


class Doubled(qcore.StatelessOperator):
    def execute(self, batch: Any) -> Any:
        return batch


def test_parts_that_cannot_be_pickled_are_named(plan: p.PlanNode) -> None:
    values = qcore.PlanBuilder().values(ROWS)
    with pytest.raises(PlanError, match=r"UserOperator \(node \d+\) cannot run in Spark's tasks: an operator written"):
        plan_to_bytes(values.operator(Doubled()).build())
    with pytest.raises(PlanError, match=r"CallbackSink \(node \d+\) cannot run in Spark's tasks: a callback"):
        plan_to_bytes(p.CallbackSink("7", ROWS.schema, plan, callback=print))
    memory = qcore.Session()
    memory.register("m", ROWS)
    with pytest.raises(PlanError, match=r"the table 'm' \(Scan, node \d+\) cannot be sent .* memory of this process"):
        plan_to_bytes(memory.sql("select k from m where x > 1").plan)
    stream = p.Scan("3", ROWS.schema, "s", StreamTable(ROWS.to_reader()), ("k", "x"))
    with pytest.raises(PlanError, match=r"the table 's' \(Scan, node 3\) .* it is a stream of this process"):
        plan_to_bytes(stream)


def test_a_part_that_cannot_be_pickled_is_named(plan: p.PlanNode) -> None:
    class Table:
        schema = ROWS.schema
        lock = threading.Lock()

    scan = p.Scan("5", ROWS.schema, "t", Table(), ("k", "x"))
    with pytest.raises(PlanError, match=r"Scan \(node 5\) cannot be sent .* the table 't', a .*Table, cannot be"):
        plan_to_bytes(p.Limit("6", ROWS.schema, scan, 1))


def test_a_module_that_is_absent_is_named(plan: p.PlanNode, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("of_this_program")
    exec("class Table: pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "of_this_program", module)
    module.Table.__module__ = "of_this_program"
    data = plan_to_bytes(p.Scan("5", ROWS.schema, "t", module.Table(), ("k", "x")))
    monkeypatch.delitem(sys.modules, "of_this_program")
    with pytest.raises(PlanError, match=r"cannot be read in this process: ModuleNotFoundError: .*of_this_program"):
        plan_from_bytes(data)


def test_a_deep_plan() -> None:
    built = qcore.PlanBuilder().values(ROWS)
    for _ in range(300):
        built = built.filter(qcore.col("x") > 0)
    assert sum(1 for _ in plan_from_bytes(plan_to_bytes(built.build())).walk()) == 301
