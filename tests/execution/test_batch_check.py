"""Checked mode finds a batch that breaks a promise of data/batch or data/column, and names what is wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from qcore.errors import ExecutionError
from qcore_ext.data.capsule import PyBatch
from qcore_ext.data.column import Encoding
from qcore_ext.data.schema import Schema
from qcore_testing.units import check_changed


def plain() -> PyBatch:
    return PyBatch.from_arrow(pa.record_batch({"x": pa.array([1, 2, 3, 4]), "y": pa.array(["a", None, "c", "d"])}))


def dictionary() -> PyBatch:
    """A dictionary column with 8-bit indices. The engine copies them, so a test may overwrite them."""
    indices = pa.array([0, 1, 2, 1], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b", "c"]))
    return PyBatch.from_arrow(pa.record_batch({"x": column}))


def message_of(what: str) -> str:
    return f"^returned a broken batch: {what}; column 'x'; this is a bug of the operator$"


@pytest.mark.parametrize("batch", [plain, dictionary])
@pytest.mark.parametrize("selection", [None, [], [0], [3], [0, 1, 2, 3], [1, 3]])
def test_a_sound_batch_passes(batch: Any, selection: list[int] | None) -> None:
    check_changed(batch(), selection=selection)


def test_an_index_of_no_row_passes() -> None:
    check_changed(dictionary(), column={"index": 0xFFFFFFFF})


def test_the_declared_schema_passes_and_another_is_told_with_both() -> None:
    declared = Schema(pa.schema([("x", pa.int64()), ("y", pa.string())]))
    check_changed(plain(), declared)
    other = Schema(pa.schema([("x", pa.int64()), ("z", pa.string())]))
    with pytest.raises(ExecutionError, match=r"(?s)another schema than it declared.*declared:.*z.*given:.*y"):
        check_changed(plain(), other)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"n_columns": 1}, "columns and fields differ in number"),
        ({"n_rows": -1}, "its row counts are impossible"),
        ({"n_selected": -1}, "its row counts are impossible"),
        ({"n_selected": 5}, "its row counts are impossible"),
        ({"n_selected": 3}, "it selects some of its rows without a selection"),
        ({"n_rows": 5, "n_selected": 5}, "a column is shorter than the batch; column 'x'"),
    ],
)
def test_counts(changes: dict[str, int], what: str) -> None:
    with pytest.raises(ExecutionError, match=f"^returned a broken batch: {what}; this is a bug of the operator$"):
        check_changed(plain(), changes=changes)


@pytest.mark.parametrize("selection", [[1, 1], [2, 1], [0, 4], [4], [0, 1, 3, 2]])
def test_a_selection_ascends_and_stays_in_the_batch(selection: list[int]) -> None:
    with pytest.raises(ExecutionError, match="its selection does not ascend, or selects rows that it does not have"):
        check_changed(plain(), selection=selection)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ({"missing": 1}, "a column is missing"),
        ({"references": 0}, "a column was already freed"),
        ({"n_rows": 3}, "a column is shorter than the batch"),
        ({"type": 3}, "a column has another type than its field"),
        ({"encoding": 7}, "a column has an unknown encoding"),
    ],
)
@pytest.mark.parametrize("batch", [plain, dictionary])
def test_columns(batch: Any, column: dict[str, int], what: str) -> None:
    with pytest.raises(ExecutionError, match=message_of(what)):
        check_changed(batch(), column=column)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ({"no_base": 1}, "a dictionary column has no base or no indices"),
        ({"no_indices": 1}, "a dictionary column has no base or no indices"),
        ({"base_encoding": int(Encoding.DICTIONARY)}, "the base of a dictionary column is a dictionary"),
        ({"index": 3}, "a dictionary column has an index outside its base"),
        ({"index": 0xFFFFFFFE}, "a dictionary column has an index outside its base"),
    ],
)
def test_dictionaries(column: dict[str, int], what: str) -> None:
    with pytest.raises(ExecutionError, match=message_of(what)):
        check_changed(dictionary(), column=column)


def test_any_index_goes_over_one_value_for_all_rows() -> None:
    check_changed(dictionary(), column={"index": 3, "base_encoding": int(Encoding.CONSTANT)})
