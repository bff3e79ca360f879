"""The run of one seed, and the checks of it."""

from __future__ import annotations

import contextlib
import random
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa

import qcore
import qcore.session.task
from conftest import held_by_engine, settles
from driver_fuzz.disturbance import Disturbance, check_log, lowering_with, ringing
from driver_fuzz.endings import Ending, consume, unify_batches
from driver_fuzz.epochs import Epochs, changing, epochs_of
from driver_fuzz.refusals import refusers
from driver_fuzz.scenario import RANDOM_PLAN, Scenario, scenario
from driver_fuzz.user_operators import Injected, Iterated, Polled, Pushed, Raising, pieces
from operator_plans import CASES, LEFT, RIGHT, Case, random_rows
from polling import run_polled
from qcore import IterOutcome, PlanBuilder
from qcore_ext.data.schema import Schema
from qcore_ext.execution.scheduler import Scheduler
from random_plans import random_plan

# A run takes milliseconds. One that takes this long hangs.
HANG_SECONDS = 60.0

_schedulers: dict[int, Scheduler] = {}


def scheduler_with(threads: int) -> Scheduler:
    """A scheduler with this number of threads, which all runs share."""
    if threads not in _schedulers or not _schedulers[threads].usable:
        _schedulers[threads] = Scheduler(threads)
    return _schedulers[threads]


def shut_down() -> None:
    """End the threads."""
    for scheduler in _schedulers.values():
        scheduler.shutdown()


def run(seed: int) -> str:
    """Run one seed. Returns the end of the query. Raises AssertionError for a fault."""
    return run_scenario(scenario(seed))


def check_nothing_is_left() -> None:
    """Fail if objects are left. It reads all objects of Python, which takes longer than most runs."""
    assert settles(held_by_engine), f"left behind: {held_by_engine()}"


class Query:
    """The plan of a scenario over its tables, and the expected answer."""

    def __init__(self, plan: Scenario, epochs: str) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed + 1)
        self.injected = Injected(f"seed {plan.seed}")
        self.raising = Raising(plan.step, self.injected) if plan.fault == "error in Python" else None
        self.tables = {
            "l": random_rows(LEFT, plan.n_left, self.rng),
            "r": random_rows(RIGHT, plan.n_right, self.rng),
        }
        self.epochs: dict[str, Epochs] = {}
        if epochs:
            self.epochs["l"] = epochs_of(self.tables["l"], epochs, self.rng)
            if self.rng.random() < 0.5:
                self.epochs["r"] = epochs_of(self.tables["r"], epochs, self.rng)
        builder, self.case = self.build_plan()
        self.schema: pa.Schema = pa.schema(Schema(builder.build().schema))
        self.ending = Ending(plan, self.rng)
        self.node = self.ending.put(builder).build()
        if plan.sink:
            # The rows of several drivers reach a sink in no order.
            self.case = replace(self.case, ordered=False)
        self.refusers = refusers(self.node)
        self.is_certain = not any(epochs.in_conflict for epochs in self.epochs.values())

    def build_plan(self) -> tuple[PlanBuilder, Case]:
        if self.plan.name == RANDOM_PLAN:
            return random_plan(self.plan.seed, lambda: self.read("l"))
        case = CASES[self.plan.name]
        return case.build(self.read("l"), self.read("r")), case

    def read(self, name: str) -> PlanBuilder:
        """A table's rows, cut at random, from one of several kinds of sources."""
        rng = self.rng
        seed = rng.getrandbits(32)
        if name in self.epochs:
            builder = changing(self.epochs[name], rng)
        else:
            builder = source(name, self.tables[name], rng, self.plan.python)
        if self.plan.python:
            for made in (Pushed, Iterated):
                if rng.random() < 0.4:
                    builder = builder.operator(lambda made=made: made(seed))
        if rng.random() < 0.3:
            builder = builder.local_partition(drivers=rng.randint(1, 4))
        return builder if self.raising is None else self.raising.put(builder, rng)

    def check(self, got: list[Any]) -> None:
        """Fail unless the rows are DuckDB's."""
        tables = {name: self.epochs[name].table if name in self.epochs else self.tables[name] for name in "lr"}
        expected = self.case.expected(tables["l"], tables["r"])
        for batches in self.ending.rows(got):
            table = unify_batches(batches, self.schema)
            self.case.check(table.to_batches(), table.schema, expected)


def source(name: str, table: pa.Table, rng: random.Random, python: bool) -> PlanBuilder:
    """A table of one schema."""
    batches = [piece for batch in table.to_batches(max_chunksize=200) for piece in pieces(batch, rng)]
    cut = pa.Table.from_batches(batches, table.schema)
    kind = rng.choice(("scan", "values", "polled") if python else ("scan", "values"))
    seed = rng.getrandbits(32)
    if kind == "polled":
        return PlanBuilder().source(Polled(cut, rng.randint(1, 4), seed), schema=cut.schema)
    return PlanBuilder().values(cut) if kind == "values" else PlanBuilder().scan(name, source=cut)


def query_of(plan: Scenario) -> Query:
    """The query of the scenario. If its types cannot be compared with each other, its tables keep one schema."""
    try:
        return Query(plan, plan.epochs)
    except qcore.PlanError:
        return Query(plan, "")


def run_scenario(plan: Scenario) -> str:
    """Run the plan and check everything. Returns the end of the query."""
    query = query_of(plan)
    try:
        ended, got = (run_by_polls if plan.way == "polled" else run_task)(query)
        is_whole = ended in ("polled", "finished") and (plan.fault != "early finish" or plan.way == "polled")
        query.ending.check_files(is_whole)
        if is_whole and query.is_certain:
            query.check(got)
        return ended
    finally:
        query.ending.close()


def run_by_polls(query: Query) -> tuple[str, list[Any]]:
    """Poll all operators in this thread."""
    plan = query.plan
    options = {"batch_rows": plan.batch_rows, "memory_limit": plan.memory_limit}
    try:
        return "polled", run_polled(query.node, plan.drivers, query.rng, HANG_SECONDS, **options)
    except qcore.QcoreError as error:
        return check_error(query, error), []


def run_task(query: Query) -> tuple[str, list[Any]]:
    """Run a task under random operators. Returns its end, and the batches of its reader."""
    plan = query.plan
    disturbance = Disturbance(plan, query.injected)
    with (
        mock.patch.object(qcore.session.task, "Lowering", lowering_with(disturbance)),
        mock.patch.object(qcore.session.task, "scheduler_of", return_value=scheduler_with(plan.threads)),
    ):
        options = {"batch_rows": plan.batch_rows, "memory_limit": plan.memory_limit}
        task = qcore.Task(query.node, drivers=plan.drivers, **options)
        disturbance.task = task
        watchdog = threading.Timer(HANG_SECONDS, task.cancel)
        watchdog.daemon = True
        watchdog.start()
        canceller = None
        if plan.fault == "cancel from outside":
            canceller = threading.Timer(query.rng.random() * 0.03, task.cancel)
            canceller.start()
        got: list[Any] = []
        try:
            with ringing(disturbance.bell, random.Random(plan.seed)):
                ended, got = consume(task, plan, query.rng) if plan.sink == "pages" else read(task, plan)
        except qcore.QcoreError as error:
            assert watchdog.is_alive(), f"hangs: {waiting(task)}"
            ended = check_error(query, error)
        finally:
            watchdog.cancel()
            if canceller is not None:
                canceller.join()
    check_log(disturbance.log)
    disturbance.task = None
    return ended, got


def read(task: qcore.Task, plan: Scenario) -> tuple[str, list[pa.RecordBatch]]:
    """The task's batches, to their end or until the reader leaves."""
    got: list[pa.RecordBatch] = []
    with contextlib.closing(batches_of(task, plan)) as rows:
        for batch in rows:
            got.append(batch)
            if plan.fault == "leave" and len(got) == plan.step:
                return "left", got
    return "finished", got


def batches_of(task: qcore.Task, plan: Scenario) -> Iterator[pa.RecordBatch]:
    """The result, read as the scenario says."""
    if plan.way == "caller":
        yield from task.run_on_caller()
    elif plan.way == "iterator":
        it = task.iterator()
        try:
            while (outcome := it.next()) in (IterOutcome.OK, IterOutcome.OK_NEW_SCHEMA):
                yield it.batch
            if outcome is IterOutcome.STOP:
                raise it.error
        finally:
            it.close()
    else:
        yield from task.batches(timeout=HANG_SECONDS)


def check_error(query: Query, error: qcore.QcoreError) -> str:
    """Fail unless the error is the injected one, and names its operator once."""
    plan, text = query.plan, str(error)
    if isinstance(error, qcore.Cancelled):
        assert plan.fault in ("cancel", "cancel from outside"), f"cancelled by nobody: {error}"
        return "cancelled"
    if isinstance(error, qcore.SchemaChangeError):
        assert error.operator in query.refusers, f"only {query.refusers} may refuse: {text}"
        # The error names the column, and the type if only files refuse it: "column 'extra' (int16) is new".
        assert re.search(r"'\w+'( \(\w+\) is new|[\w ]* (changed from|is) \w+)", text), text
        ended = "refused"
    elif plan.fault == "memory":
        assert isinstance(error, qcore.MemoryLimitError), f"{type(error).__name__}: {error}"
        ended = "failed"
    else:
        assert error.__cause__ is query.injected, f"{type(error).__name__}: {error}"
        assert isinstance(error, qcore.ExecutionError)
        assert (error.operator or "").startswith("Rai" if plan.fault == "error in Python" else "RandomOperator")
        ended = "failed"
    assert error.node_id is not None and text.count(f"(node {error.node_id})") == 1, text
    return ended


def waiting(task: qcore.Task) -> list[Any]:
    """The waiting drivers, each with the reason."""
    return [
        (number, operator["name"], operator["blocked_times"], operator["input_rows"], operator["output_rows"])
        for number, pipeline in enumerate(task.stats()["pipelines"])
        for operator in pipeline["operators"]
    ]
