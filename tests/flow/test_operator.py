"""The base class of operators: names, accounts, results and counters (SPEC V14)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.expression.tree import col
from qcore.lowering.compile import compile_projection
from qcore_ext.basic.limit import Limit, LimitState
from qcore_ext.basic.project import Project
from qcore_ext.flow.operator import Operator, Poll
from qcore_ext.ground.memory import Account, Reservation
from qcore_testing.operators import run_chain


def test_answers_are_distinct() -> None:
    assert {answer.name: answer.value for answer in Poll} == {
        "OUTPUT": 1, "NEEDS_INPUT": 2, "BLOCKED": 3, "FINISHED": 4, "YIELDED": 5,
    }  # fmt: skip


def test_an_operator_has_an_account_below_the_query_s() -> None:
    query = Account()
    operator = Operator("HashProbe", "7", query)
    assert (operator.name, operator.node_id) == ("HashProbe", "7")
    reservation = Reservation(operator.memory)
    reservation.add(1000)
    assert operator.memory.reserved_bytes == query.reserved_bytes == 1000
    assert operator.stats_snapshot()["reserved_bytes"] == 1000
    reservation.give_back()
    stats = operator.stats_snapshot()
    assert (stats["reserved_bytes"], stats["peak_bytes"]) == (0, 1000)


def test_the_schema_is_that_of_the_output() -> None:
    """It is None before bind."""
    memory = Account()
    project = Project("p", memory, lambda schema: compile_projection([("twice", col("a") * 2)], pa.schema(schema)))
    assert project.schema is None
    run_chain([project], [pa.record_batch({"a": [1]})])
    assert project.schema is None or pa.schema(project.schema).names == ["twice"]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_an_operator_that_finishes_early_gets_no_more_input(n: int) -> None:
    limit = Limit("l", Account(), LimitState(n))
    got = run_chain([limit], [pa.record_batch({"a": [i]}) for i in range(20)])
    assert [batch["a"].to_pylist() for batch in got] == [[i] for i in range(n)]
    assert limit.stats_snapshot()["input_batches"] <= n + 1
