"""Writes and reads page files in tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from qcore.connectors.streams import EngineStream
from qcore.spark.page_files import PagesTable
from qcore.writing.page_file import PageFile, PageFileWriter
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.schema import Schema
from qcore_ext.exchange.page_reader import PageFileReader
from qcore_ext.ground.memory import Account

PARTITIONS_MAX = 4096


def page_writer(path: Any, schema: pa.Schema, n_producers: int = 1, **options: Any) -> PageFileWriter:
    """A writer whose blocks nobody pays for."""
    return PageFileWriter(str(path), schema, n_producers, Account(), **options)


def written_file(writer: PageFileWriter) -> PageFile:
    """The complete file of a writer with one producer."""
    writer.producer_done(True)
    assert writer.file is not None
    return writer.file


def batches_of(file: PageFile, schema: pa.Schema, columns: Iterable[str] | None = None) -> list[pa.RecordBatch]:
    """A batch for each page of a file, in their order."""
    table = PagesTable(schema, [file], PARTITIONS_MAX)
    names = tuple(schema.names if columns is None else columns)
    found: list[pa.RecordBatch] = []
    for split in table.splits(names, None, 1):
        stream = table.open(split, names, None, 65_536)
        try:
            found += read_stream(stream)
        finally:
            stream.close()
    return found


def read_stream(stream: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a stream, by the engine's reader if it has one: its errors are the reader's own then."""
    reader = getattr(stream, "batch_reader", None)
    if reader is None:
        yield from pa.RecordBatchReader.from_stream(stream)
        return
    account = Account()
    while (batch := reader.read_batch(account)) is not None:
        yield pa.record_batch(batch)


def table_of(file: PageFile, schema: pa.Schema, columns: Iterable[str] | None = None) -> pa.Table:
    """All rows of a file, in the types that the schema declares."""
    names = schema.names if columns is None else list(columns)
    wanted = pa.schema([schema.field(name) for name in names])
    return pa.Table.from_batches([batch.cast(wanted) for batch in batches_of(file, schema, columns)], wanted)


def read_blocks(
    path: Path, data: bytes, schema: pa.Schema, n_rows: int, checksum: int, columns: Iterable[int] | None = None
) -> pa.RecordBatch:
    """The rows of one page with these bytes."""
    path.write_bytes(data)
    positions = list(range(len(schema)) if columns is None else columns)
    wanted = pa.schema([schema.field(i) for i in positions])
    page = (0, 0, len(data), n_rows, checksum)
    reader = PageFileReader(str(path), path.open("rb"), Schema(wanted), positions, [page])
    stream = EngineStream(reader, "everything")
    try:
        (batch,) = read_stream(stream)
    finally:
        stream.close()
    return batch


def engine_batch(rows: pa.RecordBatch) -> PyBatch:
    """A batch of the engine over the memory of an Arrow batch."""
    return PyBatch.from_arrow(rows, None, True)
