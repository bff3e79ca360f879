"""The running query as an iterator of outcomes (SPEC D2, D7, D8)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import qcore
from operator_plans import CASES, LEFT, RIGHT, random_rows
from qcore import IterOutcome, PlanBuilder, Task

pytestmark = pytest.mark.timeout(120)
# More batches than the result's queue holds.
TABLE = pa.table({"a": pa.array(range(20_000), pa.int64())})
CLOSED: list[str] = []


class Closing(qcore.Operator):
    """An operator that returns its input and records when it is closed."""

    held: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held = batch

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given

    def close(self) -> None:
        CLOSED.append("closed")


class Failing(Closing):
    def add_input(self, batch: pa.RecordBatch) -> None:
        if batch.column(0)[0].as_py() > 300:
            raise OSError("the disk is gone")
        super().add_input(batch)


def task(operator: type, drivers: int = 2) -> Task:
    CLOSED.clear()
    return Task(PlanBuilder().values(TABLE).operator(operator, id="user").build(), drivers=drivers, batch_rows=128)


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_d2_every_operator_as_an_iterator(name: str, drivers: int) -> None:
    """D2, D7: the first outcome with rows is OK_NEW_SCHEMA, then OK, then NONE for ever; schema and batch beside it."""
    rng = random.Random(3)
    left, right = random_rows(LEFT, 300, rng), random_rows(RIGHT, 60, rng)
    case = CASES[name]
    plan = case.build(PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)).build()
    it = Task(plan, drivers=drivers, batch_rows=64).iterator()
    batches: list[Any] = []
    assert it.schema.names == plan.schema.names
    while (outcome := it.next()) is not IterOutcome.NONE:
        assert outcome is (IterOutcome.OK if batches else IterOutcome.OK_NEW_SCHEMA)
        assert it.batch.schema == it.schema
        batches.append(it.batch)
    assert it.batch is None
    assert [it.next() for _ in range(3)] == [IterOutcome.NONE] * 3
    it.close()
    assert it.next() is IterOutcome.NONE
    case.check(batches, it.schema, case.expected(left, right))


@pytest.mark.parametrize("steps", [0, 1, 3, 300])
def test_d8_closed_at_any_step_it_closes_every_operator_once(steps: int) -> None:
    """D8, D7: also before the first next(). Afterwards the outcome is NONE."""
    of = task(Closing)
    it = of.iterator()
    for _ in range(steps):
        it.next()
    it.close()
    assert of.state == ("finished" if steps == 300 else "cancelled")
    assert len(CLOSED) == min(steps, 1)  # never opened: there is nothing to close
    assert it.batch is None
    it.close()
    assert it.next() is IterOutcome.NONE
    assert len(CLOSED) == min(steps, 1)


def test_d2_stop_stays_and_names_the_operator() -> None:
    """D2, D9: every further outcome is STOP with the error, also after close()."""
    it = task(Failing).iterator()
    while (outcome := it.next()) in (IterOutcome.OK_NEW_SCHEMA, IterOutcome.OK):
        pass
    for _ in range(2):
        assert outcome is IterOutcome.STOP and it.batch is None
        assert isinstance(it.error, qcore.ExecutionError)
        assert str(it.error) == "Failing (node user) failed: OSError: the disk is gone"
        assert CLOSED == ["closed"]
        it.close()
        outcome = it.next()


def test_d2_a_source_that_cannot_list_its_splits_is_a_stop() -> None:
    """D2, D9: any error before the first row, of any class, is a STOP."""

    class Gone:
        schema = TABLE.schema

        def splits(self, *arguments: Any) -> Any:
            raise ConnectionError("the catalogue is gone")

    plan = PlanBuilder().scan("t", schema=TABLE.schema).build()
    it = Task(replace(plan, source=Gone())).iterator()
    assert it.next() is IterOutcome.STOP
    assert "the catalogue is gone" in str(it.error)
    it.close()
