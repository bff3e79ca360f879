"""TPC-DS in Spark's tasks: the answers are those of the engine in this process (SPEC S2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import qcore
from answers_of import Answer, assert_answers
from qcore.spark.exchange import DIRECTORY_CONF
from sweeps import every

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

SCALE = 0.1
# By default small tables are joined and grouped in the driver process. With 1 byte everything is a stage of tasks.
SMALL = {"spark.qcore.broadcast.bytes": "1", "spark.qcore.driver.bytes": "1"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("stages", "query"),
    [
        *every(110, [("all", f"q{number:02}") for number in range(1, 100)]),
        *(
            pytest.param("few", f"q{number:02}", marks=pytest.mark.nightly if number % 3 != 2 else pytest.mark.sweep)
            for number in range(1, 100)
        ),
    ],
)
def test_answers(
    spark: Any, tpcds_at: Callable[[float], Any], tmp_path: Path, conf: Any, stages: str, query: str
) -> None:
    """S2: all joins and groups run in tasks, or small parts run in this process."""
    suite = tpcds_at(SCALE)
    conf(DIRECTORY_CONF, str(tmp_path))
    if stages == "all":
        for name, value in SMALL.items():
            conf(name, value)
    session = qcore.Session(threads=2, timeout=100)
    with duckdb.connect() as connection:
        for name, path in suite.tables.items():
            session.register(name, path)
            connection.execute(f"create view {name} as from read_parquet('{path}')")
        with session.sql(suite.queries[query], on=spark) as result:
            assert_answers(result.to_arrow(), Answer.of(connection, suite.queries[query]))
            ran = result.stats()["stages"]
    assert any(not stage["on_driver"] for stage in ran) or stages == "few"
    assert list(tmp_path.iterdir()) == []
