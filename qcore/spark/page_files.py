"""The pages that the tasks of a stage wrote, as a table for the tasks of the next stage, and their folder."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from qcore.connectors.alignment import Alignment
from qcore.connectors.base import BatchStream, Split, TableStatistics, select_fields
from qcore.connectors.soundness import TRUST_EVERYTHING
from qcore.connectors.streams import EngineStream, ReaderStream
from qcore.errors import ExecutionError, PlanError, QcoreError
from qcore.expression.tree import Expr
from qcore.record import record
from qcore.writing.page_file import Page, PageFile, open_pages, read_ipc_pages
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.page_block import can_block

# Bytes of pages in one split. Opening a file takes little beside reading them, and drivers end at about one time.
SPLIT_BYTES = 4 << 20


@record(frozen=True)
class PageSplit(Split):
    """Pages of one partition in one page file.

    Attributes
    ----------
    path : str
        The file.
    file_bytes : int
        Its size.
    pages : tuple of Page
        The pages to read.
    """

    path: str
    file_bytes: int
    pages: tuple[Page, ...]

    @property
    def n_bytes(self) -> int:
        """The bytes of the pages."""
        return sum(page.n_bytes for page in self.pages)


class PagesTable:
    """The rows that the tasks of one stage wrote: a table of the files that successful tasks reported.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the rows.
    files : sequence of PageFile
        One file of each task.
    n_partitions : int
        Number of partitions of the rows.
    keys : tuple of str
        Columns whose hash is a row's partition. Without keys all rows are in partition 0.
    """

    def __init__(
        self, schema: pa.Schema, files: Sequence[PageFile], n_partitions: int = 1, keys: tuple[str, ...] = ()
    ) -> None:
        self.schema = schema
        self.files = tuple(files)
        self.n_partitions = n_partitions
        self.keys = keys
        for file in self.files:
            for page in file.pages:
                if not 0 <= page.partition < n_partitions:
                    raise QcoreError(f"{file.path} has a page of partition {page.partition}, of {n_partitions}")

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(file.n_rows for file in self.files)

    @property
    def n_bytes(self) -> int:
        """The bytes of all pages."""
        return sum(page.n_bytes for file in self.files for page in file.pages)

    def partition_bytes(self) -> list[int]:
        """Return the bytes of the pages of each partition."""
        sizes = [0] * self.n_partitions
        for file in self.files:
            for page in file.pages:
                sizes[page.partition] += page.n_bytes
        return sizes

    def without_files(self) -> PagesTable:
        """Return the table without its files. Tasks get their splits instead of a list of all files."""
        return PagesTable(self.schema, (), self.n_partitions, self.keys)

    def statistics(self) -> TableStatistics:
        """Return the number of rows."""
        return TableStatistics(self.n_rows)

    def splits(self, columns: tuple[str, ...], filter: Expr | None, target: int) -> list[Split]:
        """List the splits of all partitions."""
        return list(self._splits(None))

    def splits_of(self, *partitions: int) -> list[Split]:
        """List the splits of some partitions.

        Raises
        ------
        QcoreError
            There is no such partition.
        """
        for partition in partitions:
            if not 0 <= partition < self.n_partitions:
                raise QcoreError(f"there is no partition {partition}: the stage wrote {self.n_partitions}")
        wanted = frozenset(partitions)
        return list(self._splits(lambda file, number, page: page.partition in wanted))

    def splits_where(self, is_wanted: Callable[[int, int, Page], bool]) -> list[Split]:
        """List the splits of some pages. The function is given the number of the file, and that of the page in it."""
        return list(self._splits(is_wanted))

    def _splits(self, is_wanted: Callable[[int, int, Page], bool] | None) -> Iterator[Split]:
        for file_number, file in enumerate(self.files):
            taken: list[Page] = []
            n_bytes = 0
            for number, page in enumerate(file.pages):
                if is_wanted is not None and not is_wanted(file_number, number, page):
                    continue
                if taken and n_bytes + page.n_bytes > SPLIT_BYTES:
                    yield PageSplit(file.path, file.n_bytes, tuple(taken))
                    taken, n_bytes = [], 0
                taken.append(page)
                n_bytes += page.n_bytes
            if taken:
                yield PageSplit(file.path, file.n_bytes, tuple(taken))

    def open(self, split: Split, columns: tuple[str, ...], filter: Expr | None, batch_rows: int) -> BatchStream:
        """Read the pages of a split, one at a time. ExecutionError if the file is not the one that its task wrote."""
        if not isinstance(split, PageSplit):
            raise ExecutionError(f"the pages of a stage cannot be read from a {type(split).__name__}: add PageSplits")
        wanted = select_fields(self.schema, columns, "the output of a stage")
        if can_block(Schema(self.schema)):
            reader = open_pages(split.path, split.file_bytes, split.pages, self.schema, columns)
            return EngineStream(reader, TRUST_EVERYTHING)
        first = _read(split, split.pages[:1])
        alignment = Alignment(first[0].schema, wanted, f"the file {split.path} of an earlier stage")
        batches = (alignment.batch(batch) for batch in _batches(split, first))
        return ReaderStream(pa.RecordBatchReader.from_batches(alignment.schema, batches), None, TRUST_EVERYTHING)


def _batches(split: PageSplit, first: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while first:
        yield first.pop(0)
    for page in split.pages[1:]:
        yield from _read(split, (page,))


def _read(split: PageSplit, pages: Sequence[Page]) -> list[pa.RecordBatch]:
    return read_ipc_pages(split.path, split.file_bytes, pages)


# How often the removal of a folder is tried, and the pause after the first time, in seconds; then twice as long.
REMOVALS, REMOVAL_PAUSE = 5, 0.02
# Folders of this process that could not be removed. sweep() tries again.
_LEFT: set[str] = set()
# qcore-query-<host>-<process namespace>-<process>-<its start>-<random>
_NAME = re.compile(r"qcore-query-(?P<host>.+)-(?P<process>\d+)-(?P<start>\d+)-[0-9a-f]{32}")


class QueryFolder:
    """The folder of one query's page files, which only its owner may enter. close() removes it.

    Its name holds the host and the process that made it: sweep() removes folders whose process has ended.

    Parameters
    ----------
    parent : str
        The absolute path of a folder that all executors share.

    Raises
    ------
    PlanError
        `parent` is no absolute path, or no folder can be made there.
    """

    def __init__(self, parent: str) -> None:
        if not os.path.isabs(parent):
            raise PlanError(f"the folder of a query's files must be an absolute path, not {parent!r}")
        process = os.getpid()
        name = f"qcore-query-{_host()}-{process}-{_start_of(process)}-{uuid.uuid4().hex}"
        #: The path of the folder.
        self.path = os.path.join(parent, name)
        try:
            os.mkdir(self.path, mode=0o700)
        except OSError as error:
            raise PlanError(
                f"the folder of a query's files cannot be made in {parent}: {error.strerror}; make a folder that this "
                "process and every executor may write to"
            ) from error
        self._remove = weakref.finalize(self, remove_folder, self.path, process)

    def new_file(self) -> str:
        """Return the path of a file that does not exist: each attempt of a task writes one of its own."""
        return os.path.join(self.path, f"{uuid.uuid4().hex}.pages")

    def close(self) -> None:
        """Remove the folder and its files. Calling it again has no effect.

        Files that cannot be removed now are removed by sweep() later.
        """
        self._remove()

    def __enter__(self) -> QueryFolder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def sweep(parent: str) -> list[str]:
    """Remove the folders of queries whose process has ended on this host, and return their paths.

    Folders of this process that could not be removed before are removed too. Folders of other hosts, of other users and
    of running processes are left.
    """
    removed = [path for path in list(_LEFT) if os.path.dirname(path) == parent and _is_removed(path)]
    try:
        names = os.listdir(parent)
    except OSError:
        return removed
    for name in names:
        found = _NAME.fullmatch(name)
        if found is None or found["host"] != _host():
            continue
        process, start = int(found["process"]), int(found["start"])
        path = os.path.join(parent, name)
        if _start_of(process) == start or not _is_own_folder(path):
            continue
        if _is_removed(path):
            removed.append(path)
    return removed


def _is_own_folder(path: str) -> bool:
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return False


def _host() -> str:
    """The host and, where processes are numbered apart, the namespace of their numbers."""
    host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname()) or "host"
    try:
        return f"{host}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return host


def _start_of(process: int) -> int | None:
    """A process's start in ticks since the system's; 0 if only its existence is known; None: there is no process."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        if os.path.isdir("/proc/self"):
            return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def remove_folder(path: str, process: int) -> None:
    """Remove a folder that the process `process` made. A forked child does nothing.

    A task that was cancelled and has not ended yet may make a file meanwhile, so the removal is tried again.
    """
    if os.getpid() != process:
        return
    pause = REMOVAL_PAUSE
    for _ in range(REMOVALS):
        if _is_removed(path):
            return
        time.sleep(pause)
        pause *= 2
    _LEFT.add(path)


def _is_removed(path: str) -> bool:
    """Remove a folder, and return whether it is gone."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        return False
    _LEFT.discard(path)
    return True
