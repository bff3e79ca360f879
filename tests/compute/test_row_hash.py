"""The hash of key columns decides the partition. A model in plain Python computes the same hash. SPEC V11."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hash_model import model_partition

from qcore.errors import Cancelled
from qcore_ext.exchange.output_buffer import OutputBuffer
from qcore_ext.exchange.partitioned_output import PartitionedOutput
from qcore_ext.ground.fault import Faults
from qcore_ext.ground.memory import Account
from qcore_testing.operators import run_chain
from random_tables import SIZES, random_table


def parts_of(table: pa.Table, keys: list[str], n: int) -> list[list[pa.RecordBatch]]:
    """The rows of each partition."""
    buffer = OutputBuffer("partitioned", n, 1, 1 << 40)
    run_chain([PartitionedOutput("1", Account(), buffer, n, keys, 1 << 20)], table, table.schema)
    parts = []
    for partition in range(n):
        answer = buffer.fetch(partition, 0)
        assert answer is not None
        parts.append([pa.record_batch(page) for page in answer[0]])
    return parts


def partitions(values: pa.Array, n: int = 4096) -> list[int]:
    """The partition of each value."""
    found = [-1] * len(values)
    for partition, pages in enumerate(parts_of(pa.table({"k": values, "id": range(len(values))}), ["k"], n)):
        for page in pages:
            for row in page["id"].to_pylist():
                found[row] = partition
    return found


@pytest.mark.parametrize(
    ("types", "n"),
    [
        ([pa.int64()], 8),
        ([pa.int32()], 4096),
        ([pa.uint8()], 3),
        ([pa.string()], 7),
        ([pa.large_string()], 8),
        ([pa.string_view()], 512),
        ([pa.decimal128(15, 2)], 5),
        ([pa.decimal128(30, 2)], 5),
        ([pa.int16(), pa.string(), pa.int64()], 16),
    ],
    ids=str,
)
def test_the_partition_is_a_pure_function_of_the_keys(types: list[pa.DataType], n: int) -> None:
    """V11: every process, run and machine has the same partitions. The model shares no code with the engine."""
    table = random_table(5, 3000, types, 0.1, extremes=True)
    for partition, pages in enumerate(parts_of(table, table.column_names, n)):
        for page in pages:
            rows = zip(*(column.to_pylist() for column in page.columns), strict=True)
            assert all(model_partition(row, n) == partition for row in rows)


def test_equal_values_meet_whatever_their_layout() -> None:
    """V11: integers of any width, text in any layout, dictionaries, and floats of both widths."""
    numbers = pa.array([1, -5, None, 100], pa.int8())
    text = pa.array(["short", "a string that is not short", None, ""])
    for values, types in (
        (numbers, [pa.int16(), pa.int64(), pa.int32()]),
        (text, [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]),
        (pa.array([0.5, -2.0, None, 8.0], pa.float32()), [pa.float64()]),
    ):
        wanted = partitions(values)
        for as_type in types:
            cast = values.dictionary_encode().cast(as_type) if pa.types.is_dictionary(as_type) else values.cast(as_type)
            assert partitions(cast) == wanted, as_type


@pytest.mark.parametrize("n_rows", SIZES)
def test_sizes_around_a_vector(n_rows: int) -> None:
    """V11: all vectors of a batch are hashed alike."""
    values = pa.array([None if row % 7 == 3 else row % 50 for row in range(n_rows)], pa.int64())
    assert partitions(values, 16) == [model_partition((value,), 16) for value in values.to_pylist()]


def test_zeros_and_nans_are_one_value_each() -> None:
    quiet, other = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    for type_ in (pa.float64(), pa.float32()):
        found = partitions(pa.array(np.array([0.0, -0.0, quiet, other, 1.0]), pa.float64()).cast(type_))
        assert found[0] == found[1]
        assert found[2] == found[3]
        assert len({found[0], found[2], found[4]}) == 3


def test_nulls_hash_alike_whatever_lies_below() -> None:
    bits = pa.py_buffer(b"\x00")
    for type_, width in ((pa.int32(), 4), (pa.int64(), 8), (pa.float64(), 8), (pa.decimal128(30, 2), 16)):
        values = pa.Array.from_buffers(type_, 3, [bits, pa.py_buffer(bytes(range(3 * width)))])
        assert set(partitions(values)) == {model_partition((None,), 4096)}


def test_v7_long_texts_are_hashed_in_pieces() -> None:
    """The kernel looks every 4 MB whether the query is stopped, and ends at any of these looks."""
    table = pa.table({"s": pa.array(["x" * (1 << 20)] * 48), "i": range(48)})

    def looks(key: str) -> int:
        with Faults() as faults:
            parts_of(table, [key], 2)
        return faults.passes["stop"]

    before = looks("i")
    assert looks("s") >= before + 12
    with Faults("stop", 3) as faults, pytest.raises(Cancelled):
        parts_of(table, ["s"], 2)
    assert faults.fired
