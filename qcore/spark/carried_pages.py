"""Pages that came through Spark's shuffle or broadcast, as local files that a task reads like those of a shared folder.

A page is sent behind a header that says which task of which stage wrote it, and where it was in that task's file. The
reports of that stage list all pages, with their checksums. So a task knows which pages it must get: one that is missing
or another is an error, and rows are never lost or doubled. The order in which pages arrive does not matter.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping

from qcore.connectors.base import Split
from qcore.errors import ExecutionError, QcoreError
from qcore.record import record
from qcore.spark.page_files import PageSplit, QueryFolder
from qcore.writing.file_sets import writing
from qcore.writing.page_file import Page, PageFile, open_new, read_bytes
from qcore_ext.exchange.page_block import checksum_of

# Stage, task, and the page's offset in the file of the task. A report has an offset of its own.
HEADER = struct.Struct("!qqq")
REPORT = -1
_PATH = re.compile(r"shuffle:(\d+)/(\d+)")


def carried_path(stage: int, task: int) -> str:
    """Return the name of a task's pages in Spark's shuffle, which takes the place of a path."""
    return f"shuffle:{stage}/{task}"


def stage_of(path: str) -> int | None:
    """Return the stage of a name that carried_path() made; None: it is the path of a file."""
    found = _PATH.fullmatch(path)
    return None if found is None else int(found[1])


def send_pages(stage: int, task: int, file: PageFile) -> Iterator[bytes]:
    """Return the pages of a file of this process, in their order, with headers."""
    for page in file.pages:
        yield HEADER.pack(stage, task, page.offset) + read_bytes(file.path, file.n_bytes, page)


class CarriedPages:
    """Local files with the pages that some splits name.

    Parameters
    ----------
    splits : iterable of Split
        The splits. Those of pages in Spark's shuffle have names of carried_path().
    folder : QueryFolder
        Where the files are written.
    """

    def __init__(self, splits: Iterable[Split], folder: QueryFolder) -> None:
        self._folder = folder
        self._expected: dict[tuple[str, int], Page] = {}
        for split in splits:
            if isinstance(split, PageSplit) and stage_of(split.path) is not None:
                self._expected.update({(split.path, page.offset): page for page in split.pages})
        self._path = folder.new_file()
        self._n_bytes = 0
        self._pages: dict[tuple[str, int], Page] = {}
        self._copies: dict[str, str] = {}

    def receive(self, blobs: Iterable[bytes]) -> None:
        """Write all pages of Spark's shuffle that this process gets to one file.

        Raises
        ------
        ExecutionError
            They are not the expected ones, or cannot be written.
        """
        with writing(self._path), contextlib.closing(open_new(self._path)) as file:
            for blob in blobs:
                stage, task, offset = HEADER.unpack_from(blob)
                if offset == REPORT:
                    continue
                data = memoryview(blob)[HEADER.size :]
                place = carried_path(stage, task), offset
                page = self._expected.get(place)
                if page is None or place in self._pages or page.n_bytes != len(data):
                    raise other_pages(stage, task)
                if checksum_of(data) != page.checksum:
                    raise other_pages(stage, task)
                file.write(data)
                self._pages[place] = page._replace(offset=self._n_bytes)
                self._n_bytes += len(data)
        for path, _ in self._expected.keys() - self._pages.keys():
            stage, task = (int(number) for number in _PATH.fullmatch(path).groups())  # type: ignore[union-attr]
            raise other_pages(stage, task)

    def copy_files(self, contents: Mapping[str, Callable[[], bytes]], splits: Iterable[Split]) -> None:
        """Write those files of the driver process that the splits name. `contents` are all that were sent, by path."""
        for split in splits:
            if isinstance(split, PageSplit) and split.path in contents and split.path not in self._copies:
                path = self._folder.new_file()
                with writing(path), contextlib.closing(open_new(path)) as file:
                    file.write(contents[split.path]())
                self._copies[split.path] = path

    def move_split(self, split: Split) -> Split:
        """Return a split that reads the same rows from the local files.

        Raises
        ------
        QcoreError
            It reads a file of the driver process that was not sent.
        """
        if not isinstance(split, PageSplit):
            return split
        if stage_of(split.path) is not None:
            pages = tuple(self._pages[split.path, page.offset] for page in split.pages)
            return PageSplit(self._path, self._n_bytes, pages)
        if split.path not in self._copies:
            raise QcoreError(f"the file {split.path} was not sent to the task that reads it")
        return PageSplit(self._copies[split.path], split.file_bytes, split.pages)

    def file_of(self, files: Iterable[PageFile]) -> PageFile:
        """Return the local file of pages of Spark's shuffle, with the pages in the order of the tasks' files."""
        pages = [self._pages[file.path, page.offset] for file in files for page in file.pages]
        return PageFile(self._path, tuple(pages), self._n_bytes)


@record(frozen=True)
class Slots:
    """The partitions of Spark's shuffle that a stage's pages are in. The last one has the tasks' reports.

    Attributes
    ----------
    n : int
        Their number, without the one of the reports.
    is_spread : bool
        Whether they have pages of one partition in turns, and not one partition each.
    """

    n: int
    is_spread: bool

    def of(self, task: int, number: int, page: Page) -> int:
        """Return the slot of a page, the one of that number in the file of a task."""
        return (task + number) % self.n if self.is_spread else page.partition


def other_pages(stage: int, task: int) -> ExecutionError:
    """The error of a task whose input is not what an earlier stage reported."""
    return ExecutionError(
        f"the output of task {task} of stage {stage} was lost in Spark's shuffle, and computing it again gave other "
        "pages: run the query again, or set spark.qcore.exchange.dir to a folder that this process and every executor "
        "share"
    )
