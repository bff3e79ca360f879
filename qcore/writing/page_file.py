"""One file with the pages of all partitions of a task's output, one after another, and a list of them.

Separate files for each pair of a task and a partition would be m × n files. A task therefore writes one file. Each page
can be read alone. It is one or more blocks of rows (`qcore_ext.exchange.page_block`), or Arrow IPC streams if rows have
nested columns. The list of pages is not in the file: the task reports it. Files that no successful task reported
are ignored.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow as pa

from qcore.errors import ExecutionError
from qcore.expression.scalars import empty_batch
from qcore.writing.file_sets import Producers, match_file_schema, writing
from qcore.writing.page_layout import BYTE_NANOS, SAMPLE_ROWS_MIN, ipc_stream, is_worth_compressing
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.page_block import block_of, can_block, checksum_of, compressed_block
from qcore_ext.exchange.page_reader import PageFileReader
from qcore_ext.ground.fault import fault_site
from qcore_ext.ground.memory import Account, Reservation

if TYPE_CHECKING:
    from qcore_ext.exchange.key_filter import KeyHashes

# Smaller blocks wait for others of their partition, and are written as one page. With 1,024 partitions the engine's
# pages have some hundred rows: millions of pages would have to be listed.
PAGE_ROWS_MIN, PAGE_BYTES_MIN = 8192, 256 << 10
# All waiting blocks are written when they have this many bytes. They are charged to the query's account.
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
class _HeldBlocks:
    """Small blocks of one partition that are not written yet."""

    blocks: list[pa.Buffer] = field(default_factory=list)
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
    account : Account
        Pays for blocks that wait for others of their partition.
    byte_nanos : float
        Nanoseconds to write and read a byte of the file. They decide whether pages are compressed.
    held_bytes_max : int
        Bytes of blocks that may wait.
    hashes_max : int
        The hashes of the keys are written too if there are at most as many rows.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        n_producers: int,
        account: Account,
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
        self._types = Schema(schema)
        self._has_blocks = can_block(self._types)
        self._held: dict[int, _HeldBlocks] = {}
        self._held_bytes = Reservation(account)
        # Whether pages are compressed; None: no page was large enough to tell.
        self._is_compressed: bool | None = None
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
        """Append rows, an object with __arrow_c_array__. Any thread may call it."""
        rows = self._in_schema(page)
        n_rows = len(rows)
        if n_rows == 0:
            return
        with writing(self._path):
            block = self._block(rows, n_rows)
            if n_rows >= PAGE_ROWS_MIN or block.size >= PAGE_BYTES_MIN:
                self._append(partition, [block], n_rows)
                return
            with self._lock:
                full = self._hold(partition, block, n_rows)
            for number in sorted(full):
                self._append(number, full[number].blocks, full[number].n_rows)

    def _in_schema(self, page: Any) -> PyBatch | pa.RecordBatch:
        """The rows in the schema of the file: a batch of the engine, or one of Arrow if columns are nested."""
        if self._has_blocks and isinstance(page, PyBatch) and page.schema == self._types:
            return page
        batch = match_file_schema(pa.record_batch(page), self._schema, self._path)
        return PyBatch.from_arrow(batch, None, True) if self._has_blocks else batch

    def _block(self, rows: PyBatch | pa.RecordBatch, n_rows: int) -> pa.Buffer:
        """The rows as they are written."""
        block = block_of(rows) if self._has_blocks else ipc_stream(rows, bool(self._is_compressed))
        if self._is_compressed is None and n_rows >= SAMPLE_ROWS_MIN:
            self._is_compressed = is_worth_compressing(block, self._byte_nanos)
        if self._has_blocks and self._is_compressed:
            return compressed_block(block, pa.Codec("lz4").compress(block))
        return block

    def _hold(self, partition: int, block: pa.Buffer, n_rows: int) -> dict[int, _HeldBlocks]:
        """Keep a block for later. Returns what is to be written now, by partition."""
        self._held_bytes.add(block.size)
        held = self._held.setdefault(partition, _HeldBlocks())
        held.blocks.append(block)
        held.n_rows += n_rows
        held.n_bytes += block.size
        if self._held_bytes.n_bytes > self._held_bytes_max:
            full, self._held = self._held, {}
            self._held_bytes.give_back()
        elif held.n_rows >= PAGE_ROWS_MIN or held.n_bytes >= PAGE_BYTES_MIN:
            full = {partition: self._held.pop(partition)}
            self._held_bytes.give_back(held.n_bytes)
        else:
            return {}
        return full

    def _append(self, partition: int, blocks: Sequence[pa.Buffer], n_rows: int) -> None:
        """Write blocks of one partition as a page."""
        checksum = sum(map(checksum_of, blocks)) % (1 << 64)
        n_bytes = sum(block.size for block in blocks)
        with self._lock:
            file = self._open()
            fault_site("write_rows")
            for block in blocks:
                file.write(block)
            self._pages.append(Page(partition, self._n_bytes, n_bytes, n_rows, checksum))
            self._n_bytes += n_bytes

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
                with writing(self._path):
                    for partition in sorted(self._held):
                        held = self._held.pop(partition)
                        self._append(partition, held.blocks, held.n_rows)
                self._write_hashes()
                self._commit()
        finally:
            self._held.clear()
            self._held_bytes.give_back()
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


def open_new(path: str) -> BinaryIO:
    """Open a file that does not exist for writing, for this user only. The caller closes it."""
    return open(path, "xb", opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def open_pages(
    path: str, n_bytes: int, pages: Sequence[Page], schema: pa.Schema, columns: Sequence[str]
) -> PageFileReader:
    """Return a reader of pages of a page file of `n_bytes`, which has rows of `schema` without nested columns.

    Raises
    ------
    ExecutionError
        The file does not exist, has another size than its task wrote, or has a damaged page. The message names the
        file. Damaged pages are found when they are read.
    """
    file = _open_written(path, n_bytes)
    positions = [schema.get_field_index(name) for name in columns]
    wanted = Schema(pa.schema([schema.field(i) for i in positions]))
    return PageFileReader(path, file, wanted, positions, pages)


def read_ipc_pages(path: str, n_bytes: int, pages: Sequence[Page]) -> list[pa.RecordBatch]:
    """Read pages of a page file whose rows have nested columns. Errors are those of open_pages()."""
    with _reading(path, n_bytes) as file:
        return [batch for page in pages for batch in _read_ipc_page(file, page)]


def read_bytes(path: str, n_bytes: int, page: Page) -> bytes:
    """Read the bytes of one page of a file, such as the hashes of keys. Errors are those of read_pages()."""
    with _reading(path, n_bytes) as file:
        return _read_bytes(file, page)


def _open_written(path: str, n_bytes: int) -> BinaryIO:
    """Open a file of an earlier stage, which must have `n_bytes`. The caller closes it."""
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 the caller closes it
        held = os.fstat(file.fileno()).st_size
        if held == n_bytes:
            return file
        file.close()
    except FileNotFoundError:
        raise ExecutionError(
            f"the file {path} of an earlier stage does not exist here: its folder must be shared by this process and "
            "every executor, and must not be emptied while the query runs"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error
    raise _unreadable(path, f"it has {held} bytes, and its task wrote {n_bytes}")


def _unreadable(path: str, reason: object) -> ExecutionError:
    return ExecutionError(f"cannot read the file {path} of an earlier stage: {reason}; run the query again")


@contextlib.contextmanager
def _reading(path: str, n_bytes: int) -> Iterator[int]:
    """Open a file of an earlier stage, which must have `n_bytes`."""
    with _open_written(path, n_bytes) as file:
        try:
            yield file.fileno()
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error


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


def _read_ipc_page(file: int, page: Page) -> list[pa.RecordBatch]:
    source = pa.BufferReader(_read_bytes(file, page))
    batches: list[pa.RecordBatch] = []
    while source.tell() < page.n_bytes:
        with pa.ipc.open_stream(source, options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
            batches += reader
    n_rows = sum(batch.num_rows for batch in batches)
    if n_rows != page.n_rows:
        raise OSError(f"the page at byte {page.offset} has {n_rows} rows, and its task wrote {page.n_rows}")
    return batches
