"""mode counts values by their numbers. Python's Counter is the oracle. SPEC Q2."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grouped import Call, check, hashable

from random_tables import KEY_TYPES, SIZES, random_table

ORDER = (((False, False),), None)


def most_frequent(pairs: list[Any]) -> Any:
    """The most frequent value. Of several, the first by the order of the second argument."""
    values = [x for x, _ in sorted(pairs, key=lambda pair: pair[1]) if x is not None]
    if not values:
        return None
    counts = Counter(map(hashable, values))
    return next(value for value in values if counts[hashable(value)] == max(counts.values()))


def calls(type: pa.DataType) -> list[Call]:
    return [Call("mode", (1, 2), type, most_frequent, more=ORDER)]


@pytest.mark.each_value
@pytest.mark.parametrize("type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("n_rows", [*SIZES, 7000])
def test_q2_values_of_every_type(type: pa.DataType, n_rows: int) -> None:
    """All groups share the numbers of values, over several vectors."""
    types = {"k": pa.int16(), "x": type}
    table = random_table(35, n_rows, types, null_share=0.1, n_distinct={"k": 20, "x": 60}, extremes=True)
    check(table.append_column("row", pa.array(range(n_rows), pa.int64())), 1, calls(type), ["single"])


def test_q2_a_value_that_is_frequent_elsewhere_does_not_count_here() -> None:
    k = np.array([1] * 100 + [2] * 3)
    table = pa.table({"k": k, "x": [5] * 60 + [6] * 40 + [6, 6, 5], "row": np.arange(103)})
    check(table, 1, calls(pa.int64()), ["single"])
