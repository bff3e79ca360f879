"""What imported Arrow arrays are charged, and what batches say they take (SPEC V7)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from qcore.errors import MemoryLimitError
from qcore_ext.data.capsule import PyBatch, Stream
from qcore_ext.ground.memory import Account
from qcore_testing.operators import read_stream
from random_tables import ALL_TYPES, random_table

TEXTS = [None if i % 7 == 3 else "x" * (i % 50) for i in range(1000)]
LONG = sum(len(text or "") for text in TEXTS)
VIEWED = sum(len(text) for text in TEXTS if text is not None and len(text) > 12)


def charge_of(n_bytes: int) -> int:
    """The charge of an array, with the eighth that is added for the allocator."""
    return n_bytes + (n_bytes >> 3)


def bitmap(n: int) -> int:
    return (n + 63) // 64 * 8


@pytest.mark.parametrize(
    ("type_", "n_bytes"),
    [
        (pa.string(), 4 * 1000 + LONG),
        (pa.large_string(), 8 * 1000 + LONG),
        (pa.binary(), 4 * 1000 + LONG),
        (pa.string_view(), 16 * 1000 + VIEWED),
        (pa.binary_view(), 16 * 1000 + VIEWED),
    ],
)
@pytest.mark.parametrize("start", [0, 8, 37])
def test_text_counts_its_length(type_: pa.DataType, n_bytes: int, start: int) -> None:
    whole = pa.array(TEXTS, type_)
    assert PyBatch.from_arrow(pa.record_batch({"a": whole})).n_bytes == n_bytes + bitmap(1000)
    part = TEXTS[start : start + 400]
    again = PyBatch.from_arrow(pa.record_batch({"a": pa.array(part, type_)})).n_bytes
    assert PyBatch.from_arrow(pa.record_batch({"a": whole.slice(start, 400)})).n_bytes == again


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_every_type_counts_about_what_arrow_says(type_: pa.DataType) -> None:
    rows = random_table(3, 2048, {"a": type_}, null_share=0.3).combine_chunks().to_batches()[0]
    payer = Account()
    batch = PyBatch.from_arrow(rows, payer)
    # There is one more offset than rows, and a bitmap has whole words. Indices of a dictionary are not
    # counted, nor are strings within views.
    slack = 340 if not pa.types.is_string_view(type_) else 0.3 * rows.nbytes
    if not pa.types.is_dictionary(type_):
        assert abs(batch.n_bytes - rows.nbytes) <= slack
    assert abs(payer.reserved_bytes - charge_of(rows.nbytes)) <= slack + 10
    del batch
    assert payer.reserved_bytes == 0


NESTED = {
    "list": pa.array([[1, 2, 3], None, [], [4]] * 250, pa.list_(pa.int64())),
    "large list of texts": pa.array([["a" * 30], ["b"], []] * 300, pa.large_list(pa.string())),
    "fixed": pa.array([[1.0, 2.0], [3.0, 4.0]] * 400, pa.list_(pa.float64(), 2)),
    "struct": pa.array([{"a": 1, "b": "y" * 20}, None] * 300, pa.struct({"a": pa.int32(), "b": pa.string()})),
    "map": pa.array([[("k", 1)], []] * 300, pa.map_(pa.string(), pa.int64())),
    "list of structs": pa.array([[{"x": "z" * 9}] * 3] * 200, pa.list_(pa.struct({"x": pa.string()}))),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_values_count_with_their_elements(name: str) -> None:
    """Nested values count with their elements; a slice counts the elements of its own rows only."""
    values = NESTED[name]
    for rows in (pa.record_batch({"a": values}), pa.record_batch({"a": values}).slice(64, 128)):
        payer = Account()
        batch = PyBatch.from_arrow(rows, payer)
        assert 0.97 * rows.nbytes - 64 <= batch.n_bytes <= 1.03 * rows.nbytes + 64
        assert abs(payer.reserved_bytes - charge_of(rows.nbytes)) <= 0.03 * rows.nbytes + 64
        del batch
        assert payer.reserved_bytes == 0


def test_a_list_view_counts() -> None:
    values = pa.array([["a" * 100], ["b" * 100]] * 200, pa.list_view(pa.string()))
    assert PyBatch.from_arrow(pa.record_batch({"a": values})).n_bytes >= 400 * 100


def test_a_dictionary_counts_a_share_and_at_most_itself() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 5000, pa.int32()), pa.array(["x" * 1000, "y" * 1000]))
    rows = pa.record_batch({"a": values})
    whole = PyBatch.from_arrow(rows)
    assert 2000 <= whole.n_bytes <= 2100
    many = pa.DictionaryArray.from_arrays(pa.array([5] * 10, pa.int32()), pa.array(["z" * 100] * 1000))
    assert 10 * 100 <= PyBatch.from_arrow(pa.record_batch({"a": many})).n_bytes <= 10 * 105


def test_null_columns_and_empty_batches_take_nothing() -> None:
    for values in (pa.nulls(100), pa.array([], pa.string()), pa.array([], pa.list_(pa.string()))):
        payer = Account()
        batch = PyBatch.from_arrow(pa.record_batch({"a": values}), payer)
        assert (batch.n_bytes, payer.reserved_bytes) == (0, 0)


def test_a_limit_refuses_an_array_and_nothing_stays_charged() -> None:
    rows = pa.record_batch({"a": pa.array(range(10_000)), "b": pa.array(["x" * 100] * 10_000)})
    payer = Account(None, 1_000_000)
    with pytest.raises(MemoryLimitError, match="goes past the memory limit of 1000000"):
        PyBatch.from_arrow(rows, payer)
    assert payer.reserved_bytes == 0


# --- streams ---


def read(source: Any, payer: Account) -> list[PyBatch]:
    batches: list[PyBatch] = read_stream(Stream(source, True), payer)
    return batches


def test_slices_of_one_array_share_a_charge() -> None:
    """Each slice keeps the whole array alive, so its bytes are released with the last slice."""
    rows = pa.table({"a": pa.array(range(10_000)), "b": pa.array(["text of some length"] * 10_000)}).combine_chunks()
    payer = Account()
    batches = read(rows.to_reader(max_chunksize=1000), payer)
    assert len(batches) == 10
    assert abs(payer.reserved_bytes - charge_of(rows.nbytes)) <= 100
    one = batches[4]
    batches.clear()
    assert abs(payer.reserved_bytes - charge_of(rows.nbytes)) <= 100
    del one
    assert payer.reserved_bytes == 0


def test_a_dictionary_shared_by_batches_is_charged_once() -> None:
    values = pa.array([f"{i:01000}" for i in range(100)])
    batches = [
        pa.record_batch({"a": pa.DictionaryArray.from_arrays(pa.array([i] * 10, pa.int32()), values)})
        for i in range(20)
    ]
    payer = Account()
    held = read(pa.RecordBatchReader.from_batches(batches[0].schema, batches), payer)
    assert charge_of(100_000) <= payer.reserved_bytes <= charge_of(100_000) + 20 * 10 * 10 + 1000
    del held
    assert payer.reserved_bytes == 0


def test_a_batch_given_again_is_charged_once() -> None:
    batch = pa.record_batch({"a": pa.array(range(10_000))})
    payer = Account()
    held = read(pa.RecordBatchReader.from_batches(batch.schema, [batch] * 5), payer)
    assert payer.reserved_bytes == charge_of(80_000)
    del held
    assert payer.reserved_bytes == 0


def test_batches_of_their_own_are_charged_each_and_given_back_each() -> None:
    batches = [pa.record_batch({"a": pc.add(pa.array(range(1000)), i)}) for i in range(5)]
    payer = Account()
    held = read(pa.RecordBatchReader.from_batches(batches[0].schema, batches), payer)
    assert payer.reserved_bytes == 5 * charge_of(8000)
    del held[1:3]
    assert payer.reserved_bytes == 3 * charge_of(8000)
    held.clear()
    assert payer.reserved_bytes == 0


def test_memory_of_the_application_is_not_charged() -> None:
    payer = Account()
    held: list[PyBatch] = read_stream(Stream(pa.table({"a": range(1000)})), payer)
    assert held and payer.reserved_bytes == 0
