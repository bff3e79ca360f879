"""Every function over lists of nulls, empty lists and null lists gives an answer or a QcoreError."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, col, sql
from qcore.expression.tree import Call, lit
from qcore.functions.catalogue import scalar_functions
from sweeps import every

TYPES = {
    "n": pa.list_(pa.null()),
    "i": pa.list_(pa.int32()),
    "s": pa.list_(pa.string()),
    "v": pa.list_(pa.list_(pa.null())),
}
TABLE = pa.table({name: pa.array([[None, None], [], None, [None]], type_) for name, type_ in TYPES.items()})
MORE = (lit(1), lit("x"), col("i"))


@pytest.mark.parametrize("name", every(8, sorted(scalar_functions())))
def test_lists_without_values(name: str) -> None:
    """C4: each kind of list is the first or second argument, next to a number, a text or a list."""
    for column in map(col, TYPES):
        for n_more in range(3):
            for more in product(MORE, repeat=n_more):
                for arguments in {(column, *more), (*more, column)}:
                    try:
                        plan = PlanBuilder().values(TABLE).project({"x": Call(name, arguments)}).build()
                        answer = qcore.Session(threads=1).execute(plan).to_arrow()
                    except qcore.QcoreError:
                        continue
                    assert answer.num_rows == TABLE.num_rows


def test_a_histogram_of_nulls() -> None:
    """C4: nulls are not counted. Like DuckDB it returns null if nothing is counted."""
    answers = sql("select list_histogram(n) a, list_histogram(i) b from t", {"t": TABLE}).to_arrow()
    assert answers.schema.types == [pa.map_(pa.string(), pa.uint64()), pa.map_(pa.int32(), pa.uint64())]
    assert answers.to_pylist() == [{"a": None, "b": None}] * 4
