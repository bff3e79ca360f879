"""Statistics of columns in memory from a sample of their rows; SPEC Q2 (estimates). Counted by pyarrow."""

from __future__ import annotations

import datetime
import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from qcore.connectors import column_samples
from qcore.connectors.arrow import ArrowTable
from qcore.connectors.base import ColumnStatistics
from qcore.connectors.column_samples import BLOCKS, SAMPLE_ROWS, SampledStatistics, duj1, sample_statistics
from random_tables import ALL_TYPES, random_table

N_ROWS = 700_000


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 20_000, N_ROWS)
    return {
        "few": rng.integers(0, 7, N_ROWS),
        "key in order": np.arange(N_ROWS),
        "key in no order": rng.permutation(N_ROWS) * 3,
        "four rows each": np.arange(N_ROWS) // 4,
        "many rows each": np.arange(N_ROWS) // 7_000,
        "two orders interleaved": np.arange(N_ROWS) // 8 * 2 + np.arange(N_ROWS) % 2,
        "drawn from many": rng.integers(0, 300_000, N_ROWS),
        "drawn from some": drawn,
        "cyclic": np.arange(N_ROWS) % 1_800,
        "text": pa.array(drawn).cast(pa.string()),
        "text in views": pa.array(drawn).cast(pa.string()).cast(pa.string_view()),
        "unlike text": pa.array(np.arange(N_ROWS)).cast(pa.string()),
        "codes": pa.array(rng.integers(0, 900, N_ROWS)).dictionary_encode(),
        "runs": pc.run_end_encode(pa.array(np.arange(N_ROWS) // 50)),
        "with nulls": pa.array(drawn, mask=rng.random(N_ROWS) < 0.4),
        "money": pa.array(drawn).cast(pa.decimal128(20, 0)).cast(pa.decimal128(22, 2)),
        "instants": pa.array(drawn).cast(pa.timestamp("ns", "Asia/Tokyo")),
        "truth": rng.random(N_ROWS) < 0.1,
        "one value": np.ones(N_ROWS),
        "null": pa.nulls(N_ROWS, pa.int64()),
    }


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return columns()


def cut_chunks(values: Any, rows: int) -> pa.ChunkedArray:
    values = pa.array(values)
    return pa.chunked_array([values.slice(at, rows) for at in range(0, len(values), rows)], values.type)


def n_values(values: Any) -> int:
    values = pa.array(values)
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    return len(pc.unique(values.drop_null()))


@pytest.mark.parametrize("chunk_rows", [N_ROWS, 33_333])
@pytest.mark.parametrize("name", columns())
def test_values_are_estimated(name: str, chunk_rows: int, made: dict[str, Any]) -> None:
    """Q2: an estimate differs from the real number by at most a third, in any order of the rows."""
    found = sample_statistics(cut_chunks(made[name], chunk_rows)).distinct_count
    truth = n_values(made[name])
    assert found is not None and 0.7 * truth <= found <= 1.4 * truth


@pytest.mark.parametrize("name", ["key in order", "key in no order", "unlike text"])
def test_keys_are_known_as_keys(name: str, made: dict[str, Any]) -> None:
    assert sample_statistics(cut_chunks(made[name], N_ROWS)).distinct_count == N_ROWS


@pytest.mark.parametrize("name", columns())
def test_a_sample_of_all_rows_is_exact(name: str, made: dict[str, Any]) -> None:
    values = pa.array(made[name]).slice(1000, SAMPLE_ROWS)
    found = sample_statistics(pa.chunked_array([values]))
    assert (found.distinct_count, found.null_count) == (n_values(values), values.null_count)
    assert not found.is_sampled


@pytest.mark.parametrize("name", columns())
def test_the_share_of_the_most_common_value(name: str, made: dict[str, Any]) -> None:
    """Exact if all rows are read, else near the real share."""
    values = pa.array(made[name])
    for given, error in ((values.slice(1000, SAMPLE_ROWS), 0.0), (values, 0.02)):
        found = sample_statistics(pa.chunked_array([given])).most_common_share
        read = pc.run_end_decode(given) if pa.types.is_run_end_encoded(given.type) else given
        counts = pc.value_counts(read.drop_null()).field("counts").to_pylist()
        assert found == (pytest.approx(max(counts) / sum(counts), abs=error) if counts else None)


def test_at_most_the_sample_is_read(monkeypatch: pytest.MonkeyPatch, made: dict[str, Any]) -> None:
    """Q2: planning reads 65,536 values of a column."""
    read = []

    def count_blocks(values: pa.ChunkedArray) -> list[pa.Array]:
        blocks = list(given(values))
        read.append(sum(map(len, blocks)))
        return blocks

    given = column_samples._blocks
    monkeypatch.setattr(column_samples, "_blocks", count_blocks)
    for n_rows in (SAMPLE_ROWS - 1, SAMPLE_ROWS, SAMPLE_ROWS + 1, N_ROWS):
        for chunk_rows in (N_ROWS, 100):
            sample_statistics(cut_chunks(made["few"][:n_rows], chunk_rows))
    assert read == [SAMPLE_ROWS - 1] * 2 + [SAMPLE_ROWS] * 6


def test_blocks_are_spread_from_the_first_row_to_the_last() -> None:
    values = pa.chunked_array([pa.array(np.arange(N_ROWS))])
    blocks = list(column_samples._blocks(values))
    assert len(blocks) == BLOCKS
    assert blocks[0][0].as_py() == 0
    assert blocks[-1][-1].as_py() == N_ROWS - 1


def test_bounds() -> None:
    day, instant = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12)
    cases: list[tuple[pa.Array, Any]] = [
        (pa.array([3, None, -1]), (-1, 3)),
        (pa.array([1.5, float("nan"), 0.5]), (0.5, 1.5)),
        (pa.array([float("nan")]), (None, None)),
        (pa.array([day]), (day, day)),
        (pa.array([instant]), (instant, instant)),
        (pa.array([instant]).cast(pa.timestamp("ns", "America/New_York")), (instant, instant)),
        (pa.array([1 << 62]).cast(pa.timestamp("s")), (None, None)),
        (pa.array(["a", "b"]), (None, None)),
        (pa.array([7, 7]).dictionary_encode(), (None, None)),
        (pa.array([], pa.int64()), (None, None)),
    ]
    for values, bounds in cases:
        found = sample_statistics(pa.chunked_array([values]))
        assert (found.min, found.max) == bounds, values


def test_every_type() -> None:
    """Q2: a column of any type has statistics, or is unknown."""
    table = random_table(1, 70_000, ALL_TYPES, 0.2, chunk_rows=9_999)
    statistics = SampledStatistics.of(table, trusted=False)
    assert list(statistics) == table.column_names and len(statistics) == table.num_columns
    for name in statistics:
        assert statistics[name].null_count == table[name].null_count
        known = statistics[name].distinct_count is not None
        dictionaries = pa.types.is_dictionary(table[name].type)
        assert known or dictionaries or pa.types.is_nested(table[name].type), table[name].type


def test_several_dictionaries_are_unknown() -> None:
    chunks = [pa.array(values).dictionary_encode() for values in (["a", "b"], ["b", "c"])]
    assert sample_statistics(pa.chunked_array(chunks)) == ColumnStatistics(null_count=0)
    assert sample_statistics(pa.chunked_array([chunks[0], chunks[0].slice(1)])).distinct_count == 2


def test_statistics_are_computed_once_for_a_table() -> None:
    """Q2: two sessions that register the same Table share its statistics, which are freed with the Table."""
    table = pa.table({"a": [1, 1, 2], "b": [1, 2, 3]})
    first = ArrowTable(table).statistics()
    assert first.column("a") is ArrowTable(table).statistics().column("a")
    assert first.column("a").distinct_count == 2
    key = id(table), False
    assert key in SampledStatistics._known
    del table, first
    gc.collect()
    assert key not in SampledStatistics._known


def test_a_malformed_column_is_unknown() -> None:
    """D9: planning does not fail on offsets outside of their buffer. The query that reads them fails."""
    offsets = pa.py_buffer(np.array([0, 1 << 30, 3], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 70], pa.int8()), pa.array(["a"]), safe=False)
    table = pa.table({"text": broken, "codes": codes})
    assert SampledStatistics.of(table, trusted=False)["text"] == ColumnStatistics(null_count=0)
    assert SampledStatistics.of(table, trusted=False)["codes"] == ColumnStatistics(null_count=0)


def test_the_estimator() -> None:
    """The estimator Duj1 of Haas and Stokes, for samples whose result is known."""
    assert duj1(100, 100, 40, 20) == 40  # the sample has all values
    assert duj1(1_000_000, 1_000, 10, 0) == 10  # every value occurs more than once
    assert duj1(1_000_000, 1_000, 1_000, 1_000) == pytest.approx(1_000_000)  # no value occurs more than once
    assert 10_000 < duj1(1_000_000, 10_000, 9_000, 8_200) < 100_000
