"""Arrow tables, streams and datasets as sources (SPEC H2, V10)."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from reading import plain, read_split, read_splits, read_table

from oracle import assert_same_rows
from qcore.connectors.arrow import ArrowSplit, ArrowTable, DatasetTable, StreamSplit, StreamTable
from qcore.errors import ExecutionError, PlanError
from random_tables import ALL_TYPES, SIZES, random_table


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize(("offset", "chunk_rows"), [(0, None), (3, 500)])
def test_every_type_passes(n_rows: int, offset: int, chunk_rows: int | None) -> None:
    table = random_table(1, n_rows, ALL_TYPES, offset=offset, chunk_rows=chunk_rows)
    assert_same_rows(read_table(ArrowTable(table)), table, ordered=True)


def test_run_ends_and_dictionaries_of_numbers_are_decoded() -> None:
    runs = pc.run_end_encode(pa.array([1, 1, None, 2]))
    codes = pa.array([5, 5, 7, None]).dictionary_encode()
    table = ArrowTable(pa.table({"r": runs, "c": codes}))
    assert table.schema.types == [pa.int64(), pa.int64()]
    assert read_table(table).to_pydict() == {"r": [1, 1, None, 2], "c": [5, 5, 7, None]}


def test_splits_cover_all_rows_once() -> None:
    sizes = ((0, None), (1, None), (100_000, None), (1_000_000, None), (1_000_000, 70_000), (9000, 10))
    for n_rows, chunk_rows in sizes:
        data = random_table(2, n_rows, {"a": pa.int32()}, 0.1, chunk_rows=chunk_rows)
        splits = list(ArrowTable(data).splits(("a",), None, 2))
        ends = [split.start + split.length for split in splits]  # type: ignore[attr-defined]
        assert [split.start for split in splits] == [0, *ends[:-1]][: len(splits)]  # type: ignore[attr-defined]
        assert (ends or [0])[-1] == n_rows
        assert all(0 < split.length < 2 * 256 * 1024 for split in splits)  # type: ignore[attr-defined]


def test_splits_keep_to_large_chunks() -> None:
    data = random_table(3, 600_000, {"a": pa.int32()}, 0.1, chunk_rows=100_000)
    starts = {split.start for split in ArrowTable(data).splits(("a",), None, 1)}  # type: ignore[attr-defined]
    assert starts <= set(range(0, 600_000, 100_000))


def test_a_split_is_a_slice_without_a_copy() -> None:
    data = pa.table({"a": range(300_000), "b": range(300_000)})
    split = ArrowSplit(262_144, 1000)
    batch = read_split(ArrowTable(data), split, ("b",), batch_rows=1000).to_batches()[0]
    assert batch.column(0).buffers()[1].address == data.column("b").chunk(0).buffers()[1].address
    assert batch.column(0)[0].as_py() == 262_144
    assert pickle.loads(pickle.dumps(split)) == split


def test_statistics_are_counts() -> None:
    statistics = ArrowTable(pa.table({"a": [1, None, 3]})).statistics()
    assert statistics.row_count == 3 and statistics.column("a").null_count == 1


def test_a_split_past_the_rows() -> None:
    with pytest.raises(ExecutionError, match="rows 2 to 4, but the Arrow table has 3 rows"):
        ArrowTable(pa.table({"a": [1, 2, 3]})).open(ArrowSplit(2, 2), ("a",), None, 10)


def test_unknown_column() -> None:
    with pytest.raises(PlanError, match="no column 'x'; its columns are: a"):
        list(ArrowTable(pa.table({"a": [1]})).splits(("x",), None, 1))


def batches_of(n_batches: int, n_rows: int) -> tuple[pa.Table, pa.RecordBatchReader]:
    table = random_table(4, n_batches * n_rows, {"a": pa.int64(), "s": pa.string()}, 0.1, chunk_rows=n_rows)
    return table, pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches()))


class TestStreams:
    def test_drivers_share_one_stream(self) -> None:
        table, reader = batches_of(40, 100)
        source = StreamTable(reader)
        splits = list(source.splits(("s", "a"), None, 4))
        parts: list[pa.Table] = []

        def drive(split: Any) -> None:
            parts.append(plain(read_split(source, split, ("s", "a")), table.select(["s", "a"]).schema))

        threads = [threading.Thread(target=drive, args=(split,)) for split in splits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_same_rows(pa.concat_tables(parts), table.select(["s", "a"]))

    def test_large_batches_are_cut(self) -> None:
        source = StreamTable(pa.table({"a": range(10_000)}).to_reader())
        read = read_splits(source, source.splits(("a",), None, 1), ("a",), batch_rows=1000)
        assert max(len(chunk) for chunk in read.column("a").chunks) == 1000

    def test_a_reader_gives_its_rows_once(self) -> None:
        table, reader = batches_of(2, 10)
        source = StreamTable(reader)
        assert_same_rows(read_table(source), table)
        with pytest.raises(PlanError, match="has been read already"):
            read_table(source)

    def test_other_objects_are_asked_again(self) -> None:
        class Rows:
            def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
                return pa.table({"a": [1, 2]}).__arrow_c_stream__(requested_schema)

        source = StreamTable(Rows())
        assert read_table(source).num_rows == read_table(source).num_rows == 2

    def test_a_stream_that_raises_in_the_middle(self) -> None:
        def rows() -> Any:
            yield pa.record_batch({"a": [1]})
            raise RuntimeError("the source broke")

        source = StreamTable(pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), rows()))
        splits = list(source.splits(("a",), None, 2))
        with pytest.raises(pa.ArrowException, match="the source broke"):
            read_split(source, splits[0], ("a",))
        assert read_split(source, splits[1], ("a",)).num_rows == 0

    def test_its_splits_stay_in_the_process(self) -> None:
        source = StreamTable(pa.table({"a": [1]}).to_reader())
        split = next(iter(source.splits(("a",), None, 1)))
        assert isinstance(split, StreamSplit)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(split)


class TestDatasets:
    def test_fragments_are_splits(self, tmp_path: Path) -> None:
        for i in range(3):
            pq.write_table(pa.table({"a": [i, i + 10], "s": ["x", None]}), tmp_path / f"{i}.parquet")
        source = DatasetTable(pads.dataset(tmp_path))
        splits = list(source.splits(("s", "a"), None, 2))
        assert len(splits) == 3
        assert sorted(read_splits(source, splits, ("a",)).column("a").to_pylist()) == [0, 1, 2, 10, 11, 12]

    def test_a_filtered_dataset(self) -> None:
        dataset = pads.dataset(pa.table({"a": range(100), "b": range(100)})).filter(pc.field("a") < 5)
        assert read_table(DatasetTable(dataset), ("b",)).column("b").to_pylist() == [0, 1, 2, 3, 4]
