"""Each fault site of the engine fails, in a plan for each operator (SPEC D9).

The error surfaces once, nothing is left (conftest.py looks after each test), nothing hangs, and the next query runs.
"""

from __future__ import annotations

import random
from functools import cache

import pyarrow as pa
import pytest

from operator_plans import CASES, LEFT, RIGHT, random_rows
from qcore import Cancelled, PlanBuilder, QcoreError
from qcore.session.task import Task
from qcore_ext.ground.fault import SITES, Faults
from sweeps import every

pytestmark = pytest.mark.timeout(120)

# Passes of each site that fail: the first ones, which set things up, and some later ones.
FIRST = 2
LATER = 1


@cache
def sources() -> tuple[pa.Table, pa.Table]:
    rng = random.Random(11)
    return random_rows(LEFT, 400, rng), random_rows(RIGHT, 80, rng)


@cache
def expected(name: str) -> pa.Table:
    return CASES[name].expected(*sources())


def run(name: str, drivers: int, site: str | None = None, nth: int = 1) -> Faults:
    """Run the plan of a case with a fault. The task raises the injected error once."""
    case = CASES[name]
    left, right = sources()
    plan = case.build(PlanBuilder().scan("l", source=left), PlanBuilder().scan("r", source=right)).build()
    task = Task(plan, drivers=drivers, batch_rows=100)
    faults = Faults(site, nth)
    got: list[pa.RecordBatch] = []
    failure: QcoreError | None = None
    with faults:
        try:
            got += task.batches(timeout=60)
        except QcoreError as error:
            failure = error
    if failure is not None:
        assert faults.fired, failure
        if site == "stop":
            assert isinstance(failure, Cancelled)
        else:
            assert str(failure).count("injected fault") == 1, failure
    else:
        # The fault was not reached, or reached after the query had all rows. Then the answer must be right.
        case.check(got, task.schema, expected(name))
    return faults


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", every(3, CASES))
def test_any_site_may_fail(name: str, drivers: int) -> None:
    """D9, D8."""
    passes = run(name, drivers).passes
    rng = random.Random(drivers)
    for site in SITES:
        later = range(FIRST + 1, passes[site] + 1)
        tried = [*range(1, min(FIRST, passes[site]) + 1), *rng.sample(later, min(LATER, len(later)))]
        for nth in tried:
            run(name, drivers, site, nth)
    run(name, drivers)


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", every(3, CASES))
def test_d9_any_structure_may_fail_while_a_run_is_made(name: str, drivers: int) -> None:
    """D9: operators that were created in part are freed too. conftest.py checks that."""
    case = CASES[name]

    def passes(nth: int) -> int:
        left, right = (PlanBuilder().scan(side, source=rows) for side, rows in zip("lr", sources(), strict=True))
        plan = case.build(left, right).build()
        with Faults("struct", nth) as faults:
            try:
                task = Task(plan, drivers=drivers, batch_rows=100)
                task.start()
            except QcoreError:
                return faults.passes["struct"]
            # Structures created after this belong to running drivers.
            made = faults.passes["struct"]
            task.cancel()
        return made

    for nth in range(1, passes(1 << 40) + 1):
        passes(nth)


def test_one_at_a_time() -> None:
    with Faults("struct", 1 << 40), pytest.raises(RuntimeError, match="armed already"):
        Faults("reserve").__enter__()


@pytest.mark.each_value
@pytest.mark.parametrize("drivers", [1, 3])
@pytest.mark.parametrize("name", [name for name in CASES if "subplan" in name])
def test_d9_any_wait_for_a_spool_may_fail(name: str, drivers: int) -> None:
    """D9: an error below the spool's lock is raised after the lock is released, because raising needs the GIL."""
    for nth in range(1, run(name, drivers).passes["wait"] + 1):
        run(name, drivers, "wait", nth)
