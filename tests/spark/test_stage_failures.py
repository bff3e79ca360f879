"""Tasks that fail, processes that die and files that vanish: the right rows or one clear error (SPEC S4)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import read_in_thread

import qcore
from oracle import assert_same_rows
from qcore.errors import Cancelled, ExecutionError, QcoreError, Timeout
from qcore.spark import carriers, distributed_query, transport
from qcore.spark.carriers import CARRIER_CONF
from qcore.spark.exchange import DIRECTORY_CONF
from sweeps import every

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")
# Workers cannot import the tests.
pytest.importorskip("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])

QUERY = "select a.k, count(*) as n, sum(a.x * b.x) as s from t a join t b on a.x = b.x group by a.k"
N_ROWS = 60_000


@pytest.fixture
def parent(tmp_path: Path, conf: Any) -> Path:
    folder = tmp_path / "exchange"
    folder.mkdir()
    for name, value in {DIRECTORY_CONF: str(folder), "spark.qcore.broadcast.bytes": "1"}.items():
        conf(name, value)
    conf("spark.qcore.driver.bytes", "1")
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "t.parquet"
    rows = {"k": [i % 1000 for i in range(N_ROWS)], "x": list(range(N_ROWS))}
    pq.write_table(pa.table(rows), path, row_group_size=6_000)
    return str(path)


def at_the_second_page(act: Callable[[], None]) -> Callable[[], None]:
    """Call a function when a task writes its second page, while its file is open."""

    def prepare() -> None:
        from qcore.writing.page_file import PageFileWriter

        write, n_pages = PageFileWriter.write, [0]

        def write_and_act(self: Any, partition: int, page: Any) -> None:
            n_pages[0] += 1
            if n_pages[0] == 2:
                PageFileWriter.write = write  # type: ignore[method-assign]
                act()
            write(self, partition, page)

        PageFileWriter.write = write_and_act  # type: ignore[method-assign]

    return prepare


def raise_error() -> None:
    raise ValueError("the first attempt fails")


def leave() -> None:
    import os

    os._exit(3)


def kill() -> None:
    import os

    os.kill(os.getpid(), 9)


def failing(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[], None], after: Callable[[], None], attempts: int = 1
) -> None:
    """Make the first attempts of every task in every stage fail before or after its work."""

    def failing_runner(runner: Any, stage: bytes) -> Any:
        def run(*given: Any) -> Iterator[bytes]:
            from pyspark import TaskContext

            fails = TaskContext.get().attemptNumber() < attempts  # type: ignore[union-attr]
            if fails:
                before()
            yield from runner(*given)
            if fails:
                after()

        return run

    replace_runners(monkeypatch, failing_runner)


def replace_runners(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, bytes], Any]) -> None:
    """Change the function that runs tasks, given it and the bytes of its stage, of both carriers of pages."""
    for module, name in ((transport, "task_runner"), (carriers, "shuffle_runner")):
        made = getattr(module, name)
        monkeypatch.setattr(module, name, lambda stage, *more, made=made: change(made(stage, *more), stage))


def nothing() -> None:
    """Do nothing."""


FAILURES = {
    "raises within its output": (at_the_second_page(raise_error), nothing),
    "leaves within its output": (at_the_second_page(leave), nothing),
    "is killed within its output": (at_the_second_page(kill), nothing),
    "raises behind its output": (nothing, raise_error),
    "leaves behind its output": (nothing, leave),
}


@pytest.mark.each_value
@pytest.mark.parametrize("carrier", every(2, ["shuffle", "files"]))
@pytest.mark.parametrize("failure", every(5, FAILURES))
def test_a_first_attempt_that_fails(
    spark: Any, path: str, parent: Path, conf: Any, monkeypatch: pytest.MonkeyPatch, failure: str, carrier: str
) -> None:
    """The file of a failed attempt does not count, even if it is complete."""
    conf(CARRIER_CONF, carrier)
    failing(monkeypatch, *FAILURES[failure])
    result = qcore.sql(QUERY, {"t": path}, on=spark)
    found = result.to_arrow()
    assert_same_rows(found, qcore.sql(QUERY, {"t": path}, threads=1).to_arrow())
    ran = [stage for stage in result.stats()["stages"] if not stage["on_driver"]]
    assert len(ran) >= 2
    assert any(stage["attempts"] > stage["tasks"] for stage in ran)
    result.close()
    assert list(parent.iterdir()) == []


def test_every_attempt_fails(spark: Any, path: str, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, at_the_second_page(raise_error), nothing, attempts=9)
    with pytest.raises(ExecutionError, match="the first attempt fails") as caught:
        qcore.sql(QUERY, {"t": path}, on=spark).to_arrow()
    assert "\n" not in str(caught.value) and "org.apache" not in str(caught.value)
    assert list(parent.iterdir()) == []


def test_every_attempt_dies(spark: Any, path: str, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, kill, nothing, attempts=9)
    with pytest.raises(ExecutionError, match=r"a task failed too often, .*Python worker exited unexpectedly") as caught:
        qcore.sql(QUERY, {"t": path}, on=spark).to_arrow()
    assert "\n" not in str(caught.value)
    assert list(parent.iterdir()) == []


@pytest.mark.parametrize("damage", every(2, ["truncate", "delete"]))
def test_a_file_of_the_first_stage_is_lost(
    spark: Any, path: str, parent: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    finish = distributed_query.StageLoop._finish
    lost: list[str] = []

    def finish_and_lose(self: Any, run: Any, reports: Any) -> None:
        finish(self, run, reports)
        file = run.table.files[0]
        if not lost and file.pages:
            lost.append(file.path)
            if damage == "delete":
                os.unlink(file.path)
            else:
                os.truncate(file.path, file.n_bytes - 8)

    monkeypatch.setattr(distributed_query.StageLoop, "_finish", finish_and_lose)
    with pytest.raises(ExecutionError) as caught:
        qcore.sql(QUERY, {"t": path}, on=spark).to_arrow()
    told = str(caught.value)
    expected = "does not exist here" if damage == "delete" else "and its task wrote"
    assert lost[0] in told and expected in told and "\n" not in told
    assert list(parent.iterdir()) == []


# Stages of QUERY: both sides of the join, the join, and the last step of the aggregate.
N_STAGES = 4
# Tasks see within a quarter of a second that the folder is gone, whatever carries their pages.
SECONDS_TO_END = 3.0
# So many splits keep a task busy for many seconds. With 40,000 the last stage once ended before its timeout.
N_SPLITS = 5_000_000


def never_ending(monkeypatch: pytest.MonkeyPatch, stage_number: int, notes: Path) -> None:
    """Tasks read their rows many times, and write down their process ids."""
    folder, n_splits = str(notes), N_SPLITS

    def repeating_runner(runner: Any, stage: bytes) -> Any:
        import pickle

        repeats = pickle.loads(stage).number == stage_number

        def run(*given: Any) -> Iterator[bytes]:
            if repeats:
                import os

                from qcore.spark.worker import GivenSplits

                def splits(self: Any, *asked: Any) -> Any:
                    open(os.path.join(folder, str(os.getpid())), "w").close()
                    return self._splits * (n_splits // max(1, len(self._splits)))

                kept, GivenSplits.splits = GivenSplits.splits, splits  # type: ignore[method-assign]
                try:
                    yield from runner(*given)
                finally:
                    GivenSplits.splits = kept  # type: ignore[method-assign]
            else:
                yield from runner(*given)

        return run

    replace_runners(monkeypatch, repeating_runner)


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.alone
@pytest.mark.parametrize(
    ("stage_number", "how", "carrier"),
    every(
        9,
        [
            *((number, Cancelled, "files") for number in range(1, N_STAGES + 1)),
            (N_STAGES, Timeout, "files"),
            *((number, Cancelled, "shuffle") for number in range(1, N_STAGES + 1)),
        ],
    ),
)
def test_a_query_that_is_stopped_in_a_stage(
    spark: Any,
    path: str,
    parent: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    conf: Any,
    stage_number: int,
    how: type[QcoreError],
    carrier: str,
) -> None:
    """No job, worker or file is left, and the session answers the next query."""
    conf(CARRIER_CONF, carrier)
    expected = qcore.sql(QUERY, {"t": path}, threads=1).to_arrow()
    assert_same_rows(qcore.sql(QUERY, {"t": path}, on=spark).to_arrow(), expected)
    notes = tmp_path / "notes"
    notes.mkdir()
    with monkeypatch.context() as patch:
        never_ending(patch, stage_number, notes)
        result = qcore.sql(QUERY, {"t": path}, timeout=8 if how is Timeout else None, on=spark)
        reader, errors = read_in_thread(result)
        while not list(notes.iterdir()) and reader.is_alive():
            time.sleep(0.01)
        time.sleep(0.5)
        if how is Cancelled:
            result.cancel()
        reader.join(30)
        (error,) = errors
        assert type(error) is how, error
        assert "\n" not in str(error)
    running = [stage["number"] for stage in result.stats()["stages"] if stage["tasks_done"] < stage["tasks"]]
    assert stage_number in running
    assert list(parent.iterdir()) == []
    processes = [int(note.name) for note in notes.iterdir()]
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + SECONDS_TO_END
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes and not any(map(is_running, processes))
    assert list(tracker.getActiveJobsIds()) == list(tracker.getActiveStageIds()) == []
    assert list(parent.iterdir()) == []
    assert_same_rows(qcore.sql(QUERY, {"t": path}, on=spark).to_arrow(), expected)
