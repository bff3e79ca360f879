"""One file with the pages of all partitions of a task's output, one after another, and a list of them.

Separate files for each pair of a task and a partition would be m × n files. A task therefore writes one file. Each page
is an Arrow IPC stream of one batch that can be read alone. The list of pages is not in the file: the task reports it.
Files that no successful task reported are ignored.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from qcore.errors import ExecutionError
from qcore.expression.scalars import empty_batch
from qcore.writing.file_sets import Producers, match_file_schema, writing
from qcore.writing.page_layout import BYTE_NANOS, PAGE_ROWS_MAX, PageLayout
from qcore_ext.ground.fault import fault_site

if TYPE_CHECKING:
    from qcore_ext.exchange.key_filter import KeyHashes
    from qcore_ext.ground.memory import Account

# Smaller pages wait for others of their partition. With 1,024 partitions the engine's pages have some hundred rows:
# the schema would be a fifth of their bytes, and millions of pages would have to be listed.
GIVEN_ROWS_MIN, GIVEN_BYTES_MIN = 8192, 256 << 10
# All waiting pages are written when they have this many bytes. They are charged to the query's account.
HELD_BYTES_MAX = 128 << 20


class Page(NamedTuple):
    """One page of a page file.

    Attributes
    ----------
    partition : int
        The partition that its rows belong to.
    offset, n_bytes : int
        Its position in the file, and its size.
    n_rows : int
        Its rows.
    checksum : int
        The checksum of its bytes; see checksum_of().
    """

    partition: int
    offset: int
    n_bytes: int
    n_rows: int
    checksum: int


@dataclass(frozen=True)
class PageFile:
    """A complete page file.

    Attributes
    ----------
    path : str
        Its absolute path.
    pages : tuple of Page
        Its pages, by offset.
    n_bytes : int
        Its size.
    hashes : Page or None
        Where it has the hashes of the rows' keys, 8 bytes for each row; None: it has none.
    """

    path: str
    pages: tuple[Page, ...]
    n_bytes: int
    hashes: Page | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows of all pages."""
        return sum(page.n_rows for page in self.pages)

    def to_json(self) -> dict[str, Any]:
        """Return the file's description as values that JSON has."""
        hashes = None if self.hashes is None else list(self.hashes)
        pages = [list(page) for page in self.pages]
        return {"path": self.path, "n_bytes": self.n_bytes, "pages": pages, "hashes": hashes}

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> PageFile:
        """Return the description that to_json() gave."""
        hashes = None if held["hashes"] is None else Page(*held["hashes"])
        return cls(held["path"], tuple(Page(*page) for page in held["pages"]), held["n_bytes"], hashes)


@dataclass
class _HeldPages:
    """Small pages of one partition that are not written yet."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    n_rows: int = 0
    n_bytes: int = 0


class PageFileWriter:
    """Receives the pages of a task's PartitionedOutput operators (see `exchange/partitioned_output`).

    The file is complete when every producer has finished; then `file` describes it. Otherwise it is removed.

    Parameters
    ----------
    path : str
        The file to write, in a folder that exists. It must not exist.
    schema : pyarrow.Schema
        Schema of the rows.
    n_producers : int
        Number of operators that write.
    byte_nanos : float
        Nanoseconds to write and read a byte of the file. They decide which conversions make pages smaller.
    held_bytes_max : int
        Bytes of small pages that may wait for others of their partition.
    hashes_max : int
        The hashes of the keys are written too if there are at most as many rows.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        n_producers: int,
        byte_nanos: float = BYTE_NANOS,
        held_bytes_max: int = HELD_BYTES_MAX,
        hashes_max: int = 0,
    ) -> None:
        #: The complete file; None before.
        self.file: PageFile | None = None
        self._path = path
        self._schema = schema
        self._byte_nanos = byte_nanos
        self._held_bytes_max = held_bytes_max
        self._hashes_max = hashes_max
        self._hashes: list[KeyHashes] = []
        self._hashes_page: Page | None = None
        self._held: dict[int, _HeldPages] = {}
        self._n_held_bytes = 0
        self._layout: PageLayout | None = None
        self._lock = threading.Lock()
        self._file: Any = None
        self._pages: list[Page] = []
        self._n_bytes = 0
        self._producers = Producers(n_producers)
        self._process = os.getpid()

    def hashes_of(self, memory: Account) -> KeyHashes | None:
        """Return what collects the hashes of one producer, paid for by `memory`; None: they are not wanted."""
        if self._hashes_max == 0:
            return None
        from qcore_ext.exchange.key_filter import KeyHashes

        hashes = KeyHashes(memory, self._hashes_max)
        self._hashes.append(hashes)
        return hashes

    def bind(self, schema: Any) -> None:
        """Check the schema of the pages that a producer may write from now on."""
        match_file_schema(empty_batch(pa.schema(schema)), self._schema, self._path)

    def write(self, partition: int, page: Any) -> None:
        """Append a page. Any thread may call it."""
        batch = match_file_schema(pa.record_batch(page), self._schema, self._path)
        if batch.num_rows == 0:
            return
        n_bytes = batch.nbytes
        if batch.num_rows >= GIVEN_ROWS_MIN or n_bytes >= GIVEN_BYTES_MIN:
            self._write_rows(partition, [batch])
            return
        with self._lock:
            held = self._held.setdefault(partition, _HeldPages())
            held.batches.append(batch)
            held.n_rows += batch.num_rows
            self._n_held_bytes += n_bytes
            held.n_bytes += n_bytes
            if self._n_held_bytes > self._held_bytes_max:
                full, self._held, self._n_held_bytes = self._held, {}, 0
            elif held.n_rows >= GIVEN_ROWS_MIN or held.n_bytes >= GIVEN_BYTES_MIN:
                full = {partition: self._held.pop(partition)}
                self._n_held_bytes -= held.n_bytes
            else:
                return
        for number in sorted(full):
            self._write_rows(number, full[number].batches)

    def _write_rows(self, partition: int, batches: list[pa.RecordBatch]) -> None:
        """Write batches of one partition as pages that are not too long."""
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        for start in range(0, batch.num_rows, PAGE_ROWS_MAX):
            self._append(partition, batch.slice(start, PAGE_ROWS_MAX))

    def _append(self, partition: int, batch: pa.RecordBatch) -> None:
        with writing(self._path):
            with self._lock:
                if self._layout is None:
                    self._layout = PageLayout.of_sample(batch, self._byte_nanos)
            data = self._layout.page(batch)
            checksum = checksum_of(data)
            with self._lock:
                file = self._open()
                fault_site("write_rows")
                file.write(data)
                self._pages.append(Page(partition, self._n_bytes, len(data), batch.num_rows, checksum))
                self._n_bytes += len(data)

    def _write_hashes(self) -> None:
        """Write the hashes of all producers behind the pages, unless there are too many."""
        n_rows = sum(hashes.n for hashes in self._hashes)
        if not self._hashes or n_rows > self._hashes_max or any(hashes.is_over for hashes in self._hashes):
            return
        with writing(self._path):
            file = self._open()
            start, checksum = self._n_bytes, 0
            for hashes in self._hashes:
                if hashes.n == 0:
                    continue
                data = hashes.to_buffer()
                file.write(data)
                checksum += checksum_of(data)
                self._n_bytes += data.size
        self._hashes_page = Page(0, start, self._n_bytes - start, n_rows, checksum % (1 << 64))

    def _open(self) -> Any:
        if self._file is None:
            fault_site("write_open")
            self._file = open_new(self._path)
        return self._file

    def producer_done(self, finished: bool) -> None:
        """Count an operator as done. After the last one the file is complete if all have `finished`."""
        if not self._producers.count_done(finished):
            return
        try:
            if self._producers.all_finished:
                for partition in sorted(self._held):
                    self._write_rows(partition, self._held.pop(partition).batches)
                self._write_hashes()
                self._commit()
        finally:
            self._held.clear()
            self._hashes.clear()
            self._drop()

    def _commit(self) -> None:
        with writing(self._path):
            self._open()
            fault_site("write_close")
            file, self._file = self._file, None
            try:
                file.close()  # a network file system may only now find that the disk is full
                if os.path.getsize(self._path) != self._n_bytes:
                    raise OSError(f"it has {os.path.getsize(self._path)} bytes, and {self._n_bytes} were written")
            except BaseException:
                self._remove()
                raise
        self.file = PageFile(self._path, tuple(self._pages), self._n_bytes, self._hashes_page)

    def _drop(self) -> None:
        """Close and remove a file that is not complete. A forked child does nothing: its parent writes there."""
        if self._file is None or os.getpid() != self._process:
            return
        file, self._file = self._file, None
        with contextlib.suppress(OSError):
            file.close()
        self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def checksum_of(data: Any) -> int:
    """Return the sum of the 64-bit words of a page, a multiple of 8 bytes, modulo 2**64.

    It distinguishes a page from zeros, from other pages and from a copy with damage in one place. It is 10 times as
    fast as CRC-32, which took longer than all other work of writing a page.
    """
    return int(np.frombuffer(data, np.uint64).sum(dtype=np.uint64))


def open_new(path: str) -> BinaryIO:
    """Open a file that does not exist for writing, for this user only. The caller closes it."""
    return open(path, "xb", opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read_pages(path: str, n_bytes: int, pages: Sequence[Page]) -> list[pa.RecordBatch]:
    """Read pages of a page file of `n_bytes`.

    Raises
    ------
    ExecutionError
        The file does not exist, has another size than its task wrote, or has a damaged page. The message names the
        file.
    """
    with _reading(path, n_bytes) as file:
        return [_read_page(file, page) for page in pages]


def read_bytes(path: str, n_bytes: int, page: Page) -> bytes:
    """Read the bytes of one page of a file, such as the hashes of keys. Errors are those of read_pages()."""
    with _reading(path, n_bytes) as file:
        return _read_bytes(file, page)


@contextlib.contextmanager
def _reading(path: str, n_bytes: int) -> Iterator[int]:
    """Open a file of an earlier stage, which must have `n_bytes`."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            held = os.fstat(file).st_size
            if held != n_bytes:
                raise OSError(f"it has {held} bytes, and its task wrote {n_bytes}")
            yield file
        finally:
            os.close(file)
    except FileNotFoundError:
        raise ExecutionError(
            f"the file {path} of an earlier stage does not exist here: its folder must be shared by this process and "
            "every executor, and must not be emptied while the query runs"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(
            f"cannot read the file {path} of an earlier stage: {error}; run the query again"
        ) from error


def _read_bytes(file: int, page: Page) -> bytes:
    parts = []
    start, left = page.offset, page.n_bytes
    while left:
        part = os.pread(file, left, start)
        if not part:
            raise OSError(f"it ends within the page at byte {page.offset}")
        parts.append(part)
        start, left = start + len(part), left - len(part)
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    if checksum_of(data) != page.checksum:
        raise OSError(f"the page at byte {page.offset} is damaged: its checksum differs")
    return data


def _read_page(file: int, page: Page) -> pa.RecordBatch:
    data = _read_bytes(file, page)
    with pa.ipc.open_stream(pa.py_buffer(data), options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
        batch = reader.read_next_batch()
    if batch.num_rows != page.n_rows:
        raise OSError(f"the page at byte {page.offset} has {batch.num_rows} rows, and its task wrote {page.n_rows}")
    return batch
