"""TPC-H in Spark's tasks: the answers are those of the engine in this process (SPEC S2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import qcore
from oracle import assert_same_rows
from qcore.spark.carriers import CARRIER_CONF
from qcore.spark.exchange import DIRECTORY_CONF

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

QUERIES = Path(__file__).parents[2] / "bench" / "tpch" / "queries"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
# By default small tables are joined and grouped in the driver process. With 1 byte everything is a stage of tasks.
SMALL = {"spark.qcore.broadcast.bytes": "1", "spark.qcore.driver.bytes": "1"}
# What CI runs of queries with even and with odd numbers.
CI_STAGES = (("few", "all by shuffle"), ("all", "few by shuffle"))
# What runs in every suite of tests.
EACH_TIME = {(3, "all"), (16, "all by shuffle"), (21, "all"), (5, "few by shuffle")}


def choose_marks(number: int, stages: str) -> list[pytest.MarkDecorator]:
    """CI runs each query by both carriers and with both sizes of stages; the other two pairs are left to the night."""
    if (number, stages) in EACH_TIME:
        return []
    return [pytest.mark.sweep if stages in CI_STAGES[number % 2] else pytest.mark.nightly]


@pytest.fixture(scope="module")
def session(tpch_dir: Path) -> qcore.Session:
    session = qcore.Session(threads=2)
    for name in TABLES:
        session.register(name, str(tpch_dir / f"{name}.parquet"))
    return session


@pytest.mark.parametrize(
    ("number", "stages"),
    [
        pytest.param(number, stages, marks=choose_marks(number, stages))
        for number in range(1, 23)
        for stages in ("all", "few", "all by shuffle", "few by shuffle")
    ],
)
def test_answers(spark: Any, session: qcore.Session, tmp_path: Path, conf: Any, number: int, stages: str) -> None:
    conf(DIRECTORY_CONF, str(tmp_path))
    if stages.endswith("by shuffle"):
        conf(CARRIER_CONF, "shuffle")
    if stages.startswith("all"):
        for name, value in SMALL.items():
            conf(name, value)
    text = (QUERIES / f"q{number:02}.sql").read_text()
    with session.sql(text, on=spark) as result:
        assert_same_rows(result, session.sql(text).to_arrow(), rel_tol=1e-9)
        ran = result.stats()["stages"]
        assert any(not stage["on_driver"] for stage in ran) or stages.startswith("few")
    assert list(tmp_path.iterdir()) == []
