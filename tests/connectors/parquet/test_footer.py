"""What is read from a Parquet footer, against pyarrow's metadata; the cache of footers (SPEC V10)."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcore.connectors.parquet.footer import FooterCache, ParquetFooter
from qcore.connectors.storage import locate
from qcore.errors import PlanError
from qcore.expression.tree import col

N_GROUPS = 5
GROUP_ROWS = 100
N_ROWS = N_GROUPS * GROUP_ROWS


def table() -> pa.Table:
    rows = range(N_ROWS)
    return pa.table(
        {
            "k": pa.array(rows, pa.int64()),
            "nested": pa.array([{"x": i, "y": [i]} for i in rows]),
            "f": pa.array([math.nan if i % 7 == 0 else float(i) for i in rows]),
            "few": pa.array([f"flag {i % 3}" for i in rows]),
            "many": pa.array([f"{i:050}" for i in rows]),
            "null": pa.array([None if i < GROUP_ROWS else i for i in rows], pa.int32()),
        }
    )


def footer_of(path: Path) -> ParquetFooter:
    return FooterCache().get(locate(str(path)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(table(), path, row_group_size=GROUP_ROWS)
    return path


def test_every_row_group_is_in_one_section(path: Path) -> None:
    """V10: each row group is in exactly one section of a file, the one that has its middle byte."""
    footer = footer_of(path)
    assert footer.group_rows == [GROUP_ROWS] * N_GROUPS
    assert footer.groups_in(0, None) == footer.groups_in(0, footer.size) == list(range(N_GROUPS))
    for width in (1, 97, footer.size // 3, footer.size - 1):
        found = [footer.groups_in(at, min(width, footer.size - at)) for at in range(0, footer.size, width)]
        assert [group for groups in found for group in groups] == list(range(N_GROUPS))
    assert footer.groups_in(footer.middles()[2], None) == [2, 3, 4]
    assert footer.groups_in(footer.middles()[2] + 1, None) == [3, 4]


@pytest.mark.parametrize("runs", [[[0], [1], [2], [3], [4]], [[0, 1], [3, 4]], [[2]], [[0, 1, 2, 3, 4]], []])
def test_sections_hold_their_row_groups_alone(path: Path, runs: list[list[int]]) -> None:
    footer = footer_of(path)
    assert [footer.groups_in(start, length) for start, length in footer.sections(runs)] == runs


def test_leaves_stand_behind_nested_columns(path: Path) -> None:
    footer = footer_of(path)
    for name in ("k", "f", "few", "many", "null"):
        assert footer.metadata.row_group(0).column(footer.leaf(name)).path_in_schema == name
    assert footer.leaf("nested") is None
    assert footer.decoded_bytes(1, ["absent"]) == 0
    assert footer.decoded_bytes(1, ["nested"]) == footer.decoded_bytes(0, ["nested"]) >= 2 * 4 * GROUP_ROWS
    assert footer.decoded_bytes(1, ["k", "many"]) > footer.decoded_bytes(1, ["many"]) >= 50 * GROUP_ROWS


def test_bounds_and_ranges(path: Path) -> None:
    footer = footer_of(path)
    bounds = footer.bounds(2, "k")
    assert bounds is not None
    assert (bounds.low, bounds.high, bounds.has_nulls, bounds.empty) == (200, 299, False, False)
    assert footer.column_range("k") == (0, N_ROWS - 1, 0)
    floats = footer.bounds(0, "f")
    assert floats is not None
    assert floats.high is None, "NaN may lie above the greatest value that statistics know"
    empty = footer.bounds(0, "null")
    assert empty is not None
    assert (empty.empty, empty.has_values, empty.low) == (True, False, None)
    assert footer.column_range("null") == (GROUP_ROWS, N_ROWS - 1, GROUP_ROWS)
    assert footer.bounds(0, "nested") is None
    assert footer.column_range("nested") == (None, None, None)


def test_filters_leave_row_groups_out(path: Path) -> None:
    footer = footer_of(path)
    passing = col("k").between(150, 310)
    assert [group for group in range(N_GROUPS) if footer.may_pass(group, passing)] == [1, 2, 3]
    assert [group for group in range(N_GROUPS) if footer.may_pass(group, passing)] == [1, 2, 3]


def test_few_values_are_read_as_dictionaries(path: Path) -> None:
    footer = footer_of(path)
    every = list(range(N_GROUPS))
    assert footer.dictionary_columns(["k", "few", "many", "absent"], every) == ("few",)
    pq.write_table(table(), path, row_group_size=GROUP_ROWS, use_dictionary=False)
    assert footer_of(path).dictionary_columns(["few"], every) == ()


def test_decimals_are_read_as_integers_and_declared_as_decimals(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    rows = pa.table({"d": pa.array([1, None], pa.decimal128(9, 2)), "wide": pa.array([1, 2], pa.decimal128(30, 0))})
    pq.write_table(rows, path, store_decimal_as_integer=True)
    footer = footer_of(path)
    assert footer.decimals == {"d": pa.decimal32(9, 2)}
    assert footer.schema.types == [pa.decimal128(9, 2), pa.decimal128(30, 0)]
    assert footer.reading_metadata.schema.to_arrow_schema().field("wide").type == pa.decimal128(30, 0)


def test_logical_types_of_the_schema(tmp_path: Path) -> None:
    """UUIDs are known from the file's own schema, without the Arrow schema that pyarrow adds to it."""
    path = tmp_path / "u.parquet"
    types = {"u": pa.uuid(), "l": pa.list_(pa.uuid()), "ts": pa.timestamp("ns")}
    empty = pa.Table.from_batches([], pa.schema(types))
    pq.write_table(empty, path, store_schema=False, use_deprecated_int96_timestamps=True)
    schema = footer_of(path).schema
    assert schema.field("u").type == schema.field("l").type.value_type == pa.uuid()
    assert schema.field("ts").type == pa.timestamp("us")


def test_the_cache_reads_a_changed_file_again(path: Path) -> None:
    cache = FooterCache(capacity=2)
    location = locate(str(path))
    first = cache.get(location)
    assert cache.get(location) is first
    os.utime(path, ns=(1, 1))
    assert cache.get(location) is not first
    others = [path.with_name(f"{i}.parquet") for i in range(2)]
    for other in others:
        pq.write_table(table().slice(0, 1), other)
    second = cache.get(location)
    kept = cache.get(locate(str(others[0])))
    assert cache.get(location) is second
    cache.get(locate(str(others[1])))
    assert cache.get(location) is second, "the footer used least recently goes first"
    assert cache.get(locate(str(others[0]))) is not kept


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", r"does not end with PAR1 \(0 bytes\)"),
        (b"PAR1", "does not end with PAR1"),
        (b"PAR1" + b"\0" * 8 + b"PARE", "its footer is encrypted"),
        (b"PAR1" + (1000).to_bytes(4, "little") + b"PAR1", "its footer would have 1000 bytes"),
    ],
)
def test_files_that_are_no_parquet_files(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    with pytest.raises(PlanError, match=rf"x\.parquet.*{words}"):
        footer_of(path)
    with pytest.raises(PlanError, match=r"no such file: .*nowhere"):
        footer_of(tmp_path / "nowhere.parquet")


def test_a_footer_longer_than_the_tail(tmp_path: Path) -> None:
    """A footer above 64 KB is read by two reads."""
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"column {i:04}": [i] for i in range(600)}), path)
    footer = footer_of(path)
    assert footer.metadata.serialized_size > 64 * 1024
    assert footer.column_range("column 0599") == (599, 599, 0)


def orders_values(path: Path, values: list[int | None] | list[float], group_rows: int = 3) -> bool:
    """The order that the footer of a file gives for these values, in row groups of so many rows."""
    pq.write_table(pa.table({"v": values}), path, row_group_size=group_rows)
    return footer_of(path).has_ordered_groups("v")


def test_row_groups_in_the_order_of_their_values_are_known(tmp_path: Path) -> None:
    path = tmp_path / "ordered.parquet"
    assert orders_values(path, [2, 0, 1, 3, 2, 3, 9, 4, None])
    assert orders_values(path, [9, 7, 8, 7, 5, 6, 1, 1, 2])
    assert not orders_values(path, [0, 1, 5, 4, 6, 7, 8, 9, 9]), "the first two overlap"
    assert not orders_values(path, [0, 1, 2, 7, 8, 9, 3, 4, 5]), "neither up nor down"
    assert not orders_values(path, [0, 1, 2]), "one row group"
    assert not orders_values(path, [0, 1, 2, None, None, None, 3, 4, 5]), "one without values"
    assert not orders_values(path, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), "a NaN may be anywhere"
    assert not footer_of(path).has_ordered_groups("absent")
