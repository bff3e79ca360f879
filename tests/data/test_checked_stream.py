"""Streams and batches of other libraries, checked when they are read (SPEC H2)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from c_arrays import Producer, part_of

from qcore.errors import ExecutionError
from qcore_ext.data.checked_stream import CheckedBatch, CheckedStream, check_batch
from random_tables import ALL_TYPES, SIZES, random_table

BATCH = pa.record_batch({"a": [1, 2, 3], "s": ["x", None, "a text of more than twelve bytes"]})


def read(source: object) -> pa.Table:
    # The variable keeps the producer alive, because its callbacks must not run while an error is raised.
    reader = pa.RecordBatchReader.from_stream(CheckedStream(source))
    return reader.read_all()


@pytest.mark.parametrize("n", SIZES)
def test_sound_streams_pass_unchanged(n: int) -> None:
    """H2: every type and size; the batches are those of the source."""
    table = random_table(2, n, ALL_TYPES, 0.2, chunk_rows=1000)
    assert read(table).to_pydict() == table.to_pydict()
    for batch in table.to_batches():
        check_batch(batch)
        assert pa.record_batch(CheckedBatch(batch)).to_pydict() == batch.to_pydict()


def test_a_column_of_another_length_is_an_error() -> None:
    part = part_of(BATCH)
    part.children[0].numbers["length"] = 2
    with pytest.raises(pa.ArrowInvalid, match="column 'a' of an Arrow batch is malformed"):
        read(Producer(part))
    longer = part_of(pa.record_batch({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}))
    longer.numbers["length"] = 3
    longer.children[0].numbers["length"] = 3
    with pytest.raises(pa.ArrowInvalid, match=r"column 'b' .* another number of rows"):
        read(Producer(longer))


def test_a_fault_of_the_batch_itself_names_no_column() -> None:
    part = part_of(BATCH)
    part.numbers["length"] = -1
    with pytest.raises(pa.ArrowInvalid, match="an Arrow batch is malformed: its length"):
        read(Producer(part))


def test_a_stream_is_read_once() -> None:
    reader = BATCH.schema.empty_table().to_reader()
    capsule = reader.__arrow_c_stream__()

    class Given:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return capsule

    assert read(Given()).num_rows == 0
    with pytest.raises(ExecutionError, match="already read"):
        CheckedStream(Given()).__arrow_c_stream__()


def test_an_error_of_the_source_is_passed_on() -> None:
    def batches() -> object:
        yield BATCH
        raise ValueError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(BATCH.schema, batches())
    checked = pa.RecordBatchReader.from_stream(CheckedStream(reader))
    assert checked.read_next_batch().equals(BATCH)
    with pytest.raises((pa.ArrowException, ValueError, OSError), match="the disk is gone"):
        checked.read_next_batch()


def test_only_text_is_looked_at_when_asked() -> None:
    offsets = pa.py_buffer(bytes(pa.array([0, 2], pa.int32()).buffers()[1])[:8])
    bad = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xff")])
    for text_only in (False, True):
        with pytest.raises(ExecutionError, match=r"column 's' .* UTF-8"):
            check_batch(pa.record_batch({"s": bad}), text_only=text_only)
