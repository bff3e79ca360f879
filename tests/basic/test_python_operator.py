"""Operators written in Python: roles, schemas, and output that is an error (SPEC V5, D6)."""

from __future__ import annotations

import pyarrow as pa
import pytest

import qcore
from operator_plans import Doubled
from oracle import assert_same_rows
from qcore.errors import ExecutionError
from qcore_ext.basic.python_operator import ROLES
from random_tables import SIZES


def test_roles() -> None:
    assert ROLES == ("source", "operator", "sink")


@pytest.mark.parametrize("n", SIZES)
def test_batches_cross_in_every_size(n: int) -> None:
    """V5."""
    table = pa.table({"v": pa.array([None if i % 5 == 2 else i for i in range(n)], pa.int64()), "s": ["x"] * n})
    got = qcore.Session(threads=1).execute(qcore.PlanBuilder().values(table).operator(Doubled).build()).to_arrow()
    wanted = table.set_column(0, "v", pa.array([None if i % 5 == 2 else i * 2 for i in range(n)], pa.int64()))
    assert_same_rows(got, wanted, ordered=True)


def test_an_operator_that_never_does_anything_is_stuck() -> None:
    """V6: the error names the operator."""

    class Idle(qcore.Operator):
        def needs_input(self) -> bool:
            return False

        def get_output(self) -> None:
            return None

    plan = qcore.PlanBuilder().values(pa.table({"a": [1]})).operator(Idle).build()
    with pytest.raises(ExecutionError, match="Idle"):
        qcore.Session(threads=1).execute(plan).to_arrow()
