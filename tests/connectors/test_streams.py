"""Streams over tables and readers; SPEC V10."""

from __future__ import annotations

import pyarrow as pa
import pytest

from qcore.connectors.streams import ReaderStream, TableStream, stream_of_values


def sizes(stream: object) -> list[int]:
    return [batch.num_rows for batch in pa.RecordBatchReader.from_stream(stream)]


@pytest.mark.parametrize(("batch_rows", "expected"), [(1, [8, 8, 4]), (8, [8, 8, 4]), (15, [8, 8, 4]), (16, [16, 4])])
def test_batches_are_cut_at_multiples_of_eight(batch_rows: int, expected: list[int]) -> None:
    stream = TableStream(pa.table({"a": range(20)}), batch_rows)
    assert sizes(stream) == expected
    with pytest.raises(ValueError, match="the stream is closed"):
        stream.__arrow_c_stream__()


def test_values_keep_their_chunks() -> None:
    chunked = pa.table({"a": pa.chunked_array([range(3), range(13)])})
    assert sizes(stream_of_values(chunked)) == [3, 13]
    assert sizes(stream_of_values(chunked.slice(3, 8))) == [8]
    assert stream_of_values(chunked).is_held_outside
    assert not TableStream(chunked, 8).is_held_outside


def test_a_reader_is_read_once_and_its_file_closed_once() -> None:
    closed = []

    class File:
        def close(self) -> None:
            closed.append(1)

    table = pa.table({"a": [1, 2]})
    stream = ReaderStream(table.to_reader(), File(), "layout")
    assert stream.trust == "layout"
    assert sizes(stream) == [2]
    stream.close()
    stream.close()
    assert closed == [1]
    with pytest.raises(ValueError, match="closed"):
        stream.__arrow_c_stream__()
