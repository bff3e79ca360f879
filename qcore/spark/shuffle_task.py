"""A task inside a Python worker of Spark whose pages go through Spark's shuffle.

Spark runs a task again if its output is lost with an executor. Tasks that have read the lost pages are not run again,
so the second run must give the same pages: a task has one driver, reads its splits in a fixed order, unions read their
inputs one after another, and pages do not depend on the order in which Spark's shuffle brings its input. Readers check
this by checksums.
"""

from __future__ import annotations

import os
import pickle
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from qcore.connectors.base import Split
from qcore.spark.carried_pages import HEADER, REPORT, CarriedPages, Slots, carried_path, send_pages
from qcore.spark.page_files import QueryFolder, sweep
from qcore.spark.stage_task import StageWork, TaskWork, memory_limit_here, report_of, run_watched
from qcore.spark.worker import TaskInput
from qcore.writing.page_file import PageFile

# The number of a slot, as Spark's PairwiseRDD reads it.
SLOT = struct.Struct("!q")


def run_shuffled(
    stage: bytes,
    task: bytes,
    blobs: Iterable[bytes],
    contents: Mapping[str, Callable[[], bytes]],
    slots: Slots,
    attempt: int,
) -> Iterator[bytes]:
    """Run one task; return slots and pages in turns, at the end the slot of the reports and the task's report.

    Parameters
    ----------
    stage, task : bytes
        A StageWork and a TaskWork.
    blobs : iterable of bytes
        The pages that Spark's shuffle brings.
    contents : mapping of str to callable
        Files of the driver process, by path.
    slots : Slots
        Where the pages go.
    attempt : int
        The number of the task's attempt.

    Raises
    ------
    QcoreError
        The task failed. Its local files are removed.
    """
    work: StageWork = pickle.loads(stage)
    given: TaskWork = pickle.loads(task)
    started = time.perf_counter_ns()
    parent = local_parent(given.partition)
    # Of workers that were killed.
    sweep(parent)
    with QueryFolder(parent) as folder:
        splits = carried_splits(given, blobs, contents, folder)
        limit = memory_limit_here(work.memory_limit)
        task_input = TaskInput(work.plan, splits, given.partition, folder.new_file(), 1, limit, work.batch_rows)
        output = run_watched(task_input, work.folder, in_order=True)
        file = output.file
        for number, blob in enumerate(send_pages(work.number, given.partition, file)):
            yield SLOT.pack(slots.of(given.partition, number, file.pages[number]))
            yield blob
        told = PageFile(carried_path(work.number, given.partition), file.pages, file.n_bytes)
        report = report_of(given.partition, told, output.stats, attempt, 1, time.perf_counter_ns() - started)
        yield SLOT.pack(slots.n)
        yield HEADER.pack(work.number, given.partition, REPORT) + pickle.dumps(report, protocol=5)


def carried_splits(
    given: TaskWork, blobs: Iterable[bytes], contents: Mapping[str, Callable[[], bytes]], folder: QueryFolder
) -> dict[str, list[Split]]:
    """Return the splits of a task, which read local files.

    Raises
    ------
    ExecutionError
        Spark's shuffle brought other pages than the splits name, or the files cannot be written.
    """
    listed = [split for splits in given.splits.values() for split in splits]
    carried = CarriedPages(listed, folder)
    carried.receive(blobs)
    carried.copy_files(contents, listed)
    return {scan: [carried.move_split(split) for split in splits] for scan, splits in given.splits.items()}


def local_parent(task: int) -> str:
    """Return the folder for a task's local files: one that Spark removes with its executor."""
    folders = [name for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(name)]
    return folders[task % len(folders)] if folders else tempfile.gettempdir()
