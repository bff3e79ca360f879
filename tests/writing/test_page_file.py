"""Page files: complete when all producers have finished, else removed; a changed file is an error (SPEC S2, S4)."""

from __future__ import annotations

import datetime
import json
import os
import threading
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from page_rows import batches_of, page_writer, table_of, written_file

import qcore
from oracle import assert_same_rows
from qcore.errors import ExecutionError, PlanError, SchemaChangeError
from qcore.writing.page_file import PageFile, PageFileWriter
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from random_tables import random_table

SCHEMA = pa.schema([("a", pa.int64())])


def page(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def write_pages(path: Path, *values: int) -> PageFile:
    """A file with one page for each value, in partitions 0, 1 and 2 in turn."""
    writer = page_writer(path, SCHEMA)
    for value in values:
        writer.write(value % 3, page(value, value))
    writer.producer_done(True)
    assert writer.file is not None
    return writer.file


def read(file: PageFile) -> list[int]:
    return list(table_of(file, SCHEMA)["a"].to_pylist())


def test_pages_come_back(tmp_path: Path) -> None:
    """The list of pages has the position, size and rows of each page, and is sent as JSON."""
    file = write_pages(tmp_path / "a.pages", 5, 6, 7)
    assert (file.n_rows, file.n_bytes) == (6, os.path.getsize(file.path))
    assert [(page.partition, page.n_rows) for page in file.pages] == [(0, 2), (1, 2), (2, 2)]
    assert PageFile.from_json(json.loads(json.dumps(file.to_json()))) == file
    assert read(file) == [6, 6, 7, 7, 5, 5]
    assert oct(os.stat(file.path).st_mode)[-3:] == "600"


def test_threads_write_at_the_same_time(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a.pages", SCHEMA, 2)
    threads = [
        threading.Thread(target=lambda start=start: [writer.write(0, page(n)) for n in range(start, start + 50)])
        for start in (0, 50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.producer_done(True)
    assert writer.file is None, "one producer is left"
    writer.producer_done(True)
    assert writer.file is not None
    assert sorted(read(writer.file)) == list(range(100))


def test_a_file_without_rows(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a.pages", SCHEMA)
    writer.producer_done(True)
    assert writer.file == PageFile(str(tmp_path / "a.pages"), (), 0)
    assert os.path.getsize(writer.file.path) == 0


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_a_producer_that_failed_removes_the_file(tmp_path: Path, order: tuple[bool, bool]) -> None:
    writer = page_writer(tmp_path / "a.pages", SCHEMA, 2)
    writer.write(0, page(1))
    for finished in order:
        writer.producer_done(finished)
    assert writer.file is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("site", ["write_open", "write_rows", "write_close"])
def test_each_failing_step_removes_the_file(tmp_path: Path, site: str) -> None:
    plan = qcore.PlanBuilder().values(pa.table({"a": range(10)})).partitioned_output(["a"], 2, path="x").build()
    plan = plan.with_fields(path=str(tmp_path / "a.pages"), single_file=True)
    task = qcore.Task(plan, drivers=2)
    with Faults(site) as faults:
        task.start()
        with pytest.raises(qcore.QcoreError):
            task.wait()
    assert faults.fired
    assert task.page_file is None
    assert os.listdir(tmp_path) == []


def test_a_path_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.pages").write_text("kept")
    plan = qcore.PlanBuilder().values(pa.table({"a": [1]})).partitioned_output(["a"], 2, path="x").build()
    with pytest.raises(PlanError, match=r"a\.pages exists already"):
        qcore.Task(plan.with_fields(path=str(tmp_path / "a.pages"), single_file=True))
    writer = page_writer(tmp_path / "a.pages", SCHEMA)
    writer.write(0, page(1))
    with pytest.raises(ExecutionError, match=r"cannot write .*a\.pages"):
        writer.producer_done(True)
    assert writer.file is None
    assert (tmp_path / "a.pages").read_text() == "kept"


def test_wider_rows_are_refused(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a.pages", SCHEMA)
    with pytest.raises(SchemaChangeError, match="column 'a' changed from int64 to double"):
        writer.write(0, pa.record_batch({"a": [1.5]}))
    writer.producer_done(False)


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    """S4: a file is truncated, longer, deleted or has other bytes. One error names it."""
    file = write_pages(tmp_path / "a.pages", 5, 6, 7)
    data = Path(file.path).read_bytes()
    for changed, reason in (
        (data[:-1], f"it has {len(data) - 1} bytes, and its task wrote {len(data)}"),
        (data + b"x", f"it has {len(data) + 1} bytes"),
        (data[:40] + bytes([data[40] ^ 1]) + data[41:], "the page at byte 0 is damaged"),
        (bytes(len(data)), "the page at byte 0 is damaged"),
    ):
        Path(file.path).write_bytes(changed)
        with pytest.raises(ExecutionError, match=rf"cannot read the file .*a\.pages of an earlier stage: {reason}"):
            read(file)
    os.unlink(file.path)
    with pytest.raises(ExecutionError, match=r"a\.pages of an earlier stage does not exist here"):
        read(file)


@pytest.mark.parametrize("null_share", [0.0, 0.3])
@pytest.mark.parametrize("n_rows", [1, 2047, 10_000])
def test_values_of_every_type(tmp_path: Path, n_rows: int, null_share: float) -> None:
    """Short decimals and strings with offsets have narrow layouts. Their values do not change."""
    types = [
        pa.int64(),
        pa.bool_(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us"),
        pa.decimal128(7, 2),
        pa.decimal128(18, 3),
        pa.decimal128(30, 5),
        pa.string(),
        pa.binary(),
    ]
    table = random_table(n_rows, n_rows, {f"c{i}": type_ for i, type_ in enumerate(types)}, null_share)
    writer = page_writer(tmp_path / "a.pages", table.schema)
    for batch in table.to_batches(max_chunksize=3000):
        writer.write(0, batch.slice(0, 1))
        writer.write(0, batch.slice(1))
    assert_same_rows(table_of(written_file(writer), table.schema), table)


def test_rows_without_columns_are_counted(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    writer = page_writer(tmp_path / "a.pages", rows.schema)
    writer.write(0, rows)
    (batch,) = batches_of(written_file(writer), rows.schema)
    assert batch.num_rows == 5


def test_extreme_values(tmp_path: Path) -> None:
    digits = Decimal("9" * 16 + ".99")
    rows = pa.record_batch(
        {
            "d": pa.array([digits, -digits, None, Decimal(0)], pa.decimal128(18, 2)),
            "t": pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31), None]),
        }
    )
    writer = page_writer(tmp_path / "a.pages", rows.schema)
    writer.write(0, rows)
    (batch,) = batches_of(written_file(writer), rows.schema)
    assert batch.cast(rows.schema).equals(rows)


@pytest.mark.parametrize(("held_bytes_max", "n_pages"), [(1 << 20, 50), (90_000, 100), (0, 2500)])
def test_small_pages_wait_for_others(held_bytes_max: int, n_pages: int, tmp_path: Path) -> None:
    """With many partitions the engine's pages are small. The writer joins the pages of a partition if memory allows."""
    writer = page_writer(tmp_path / "a.pages", SCHEMA, held_bytes_max=held_bytes_max)
    for number in range(50):
        for partition in range(50):
            writer.write(partition, page(*range(number, number + 2)))
    writer.producer_done(True)
    assert writer.file is not None
    assert n_pages <= len(writer.file.pages) <= 1.1 * n_pages
    assert sorted(read(writer.file)) == sorted([*range(50), *range(1, 51)] * 50)
    for partition in range(50):
        held = [page for page in writer.file.pages if page.partition == partition]
        assert sum(page.n_rows for page in held) == 100


def test_nested_rows_wait_for_others_too(tmp_path: Path) -> None:
    """A page has several Arrow IPC streams then, which come back in their order. The first is not compressed."""
    rows = pa.record_batch({"n": range(9000), "l": pa.array([[i] * (i % 3) for i in range(9000)])})
    sizes = []
    for byte_nanos in (0.1, 100.0):
        writer = page_writer(tmp_path / str(byte_nanos), rows.schema, byte_nanos=byte_nanos)
        for start in range(0, 9000, 1500):
            writer.write(0, rows.slice(start, 1500))
            writer.write(1, rows.slice(start, 7))
        file = written_file(writer)
        assert [(page.partition, page.n_rows) for page in file.pages] == [(0, 9000), (1, 42)]
        found = table_of(file, rows.schema)
        assert found.slice(0, 9000).to_pylist() == rows.to_pylist()
        assert found["n"].to_pylist()[9000:9014] == [*range(7), *range(1500, 1507)]
        sizes.append(file.n_bytes)
    assert sizes[1] < sizes[0]


def test_blocks_that_wait_are_paid_for(tmp_path: Path) -> None:
    """Until they are written, or the file is given up."""
    for finished in (True, False):
        account = Account()
        writer = PageFileWriter(str(tmp_path / f"{finished}.pages"), SCHEMA, 1, account)
        for _ in range(5):
            writer.write(0, page(*range(2000)))
            writer.write(1, page(*range(100)))
        # Of partition 0 five blocks of two bytes a row were enough for a page.
        assert 0 < account.reserved_bytes < 5 * 2000
        writer.producer_done(finished)
        assert account.reserved_bytes == 0


def test_large_pages_do_not_wait(tmp_path: Path) -> None:
    writer = page_writer(tmp_path / "a.pages", SCHEMA)
    for size in (5000, 9000, 100, 4000, 1):
        writer.write(0, page(*range(size)))
    writer.producer_done(True)
    assert writer.file is not None
    assert [page.n_rows for page in writer.file.pages] == [9000, 9100, 1]
