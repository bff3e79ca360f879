"""Reading pages: as many batches, in any order of columns; errors name the file (SPEC S2, S4)."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from page_rows import batches_of, page_writer, read_stream, written_file

from qcore.connectors.streams import EngineStream
from qcore.errors import Cancelled, ExecutionError, MemoryLimitError
from qcore.writing.page_file import PageFile, open_pages
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.page_reader import PageFileReader
from qcore_ext.ground.memory import Account

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def rows_from(start: int, n: int) -> pa.RecordBatch:
    numbers = range(start, start + n)
    return pa.record_batch([pa.array(numbers), pa.array([f"text {i}" for i in numbers])], schema=SCHEMA)


def open_stream(file: PageFile, columns: list[str]) -> EngineStream:
    return EngineStream(open_pages(file.path, file.n_bytes, file.pages, SCHEMA, columns), "everything")


def test_each_page_is_a_batch(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a", SCHEMA)
    for start, n in ((0, 9000), (9000, 8192), (20_000, 9001)):
        writer.write(0, rows_from(start, n))
    file = written_file(writer)
    batches = batches_of(file, SCHEMA)
    assert [batch.num_rows for batch in batches] == [9000, 8192, 9001]
    assert batches[2].to_pylist() == rows_from(20_000, 9001).to_pylist()
    for columns in (["b", "a"], ["b"], []):
        (last,) = batches_of(file, SCHEMA, columns)[2:]
        assert last.schema.names == columns
        assert last.num_rows == 9001
        assert last.to_pylist() == rows_from(20_000, 9001).select(columns).to_pylist()


def test_pages_that_are_not_there(tmp_path: Path) -> None:
    """The file became shorter after it was opened, a page has a size of its own, or the file cannot be read."""
    writer = page_writer(tmp_path / "a", SCHEMA)
    writer.write(0, rows_from(0, 9000))
    file = written_file(writer)
    stream = open_stream(file, ["a"])
    os.truncate(file.path, file.n_bytes - 8)
    with pytest.raises(ExecutionError, match=r"/a of an earlier stage: it ends within the page at byte 0; run the"):
        list(read_stream(stream))
    stream.close()
    for n_bytes in (12, -8):
        page = file.pages[0]._replace(n_bytes=n_bytes)
        stream = open_stream(replace(file, n_bytes=file.n_bytes - 8, pages=(page,)), ["a"])
        with pytest.raises(ExecutionError, match="its size is no multiple of 8"):
            list(read_stream(stream))
        stream.close()
    with Path(file.path).open("wb") as target:
        stream = EngineStream(PageFileReader(file.path, target, Schema(SCHEMA), [0, 1], file.pages), "everything")
        with pytest.raises(ExecutionError, match=os.strerror(errno.EBADF)):
            list(read_stream(stream))


def test_memory_is_charged_and_given_back(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a", SCHEMA)
    writer.write(0, rows_from(0, 9000))
    file = written_file(writer)
    account = Account()
    stream = open_stream(file, ["a", "b"])
    batch = stream.batch_reader.read_batch(account)
    assert account.reserved_bytes > 9000 * (8 + 16)
    del batch
    assert account.reserved_bytes == 0
    assert stream.batch_reader.read_batch(account) is None
    stream.close()
    limited = Account(None, 100_000)
    stream = open_stream(file, ["a", "b"])
    with pytest.raises(MemoryLimitError):
        stream.batch_reader.read_batch(limited)
    stream.close()
    assert limited.reserved_bytes == 0


def test_a_stopped_query_reads_no_more(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a", SCHEMA)
    writer.write(0, rows_from(0, 9000))
    file = written_file(writer)
    account = Account()
    account.stop()
    stream = open_stream(file, ["a"])
    with pytest.raises(Cancelled):
        stream.batch_reader.read_batch(account)
    stream.close()
    assert stream.batch_reader.read_batch(Account()) is None
