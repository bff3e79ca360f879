"""Plans that cannot be compiled are PlanErrors with the cause. tests/compute tests errors of rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_table import make_table

from qcore.errors import PlanError
from qcore.expression.tree import Cast, call, col, lit
from qcore.lowering.compile import compile_projection

TABLE = make_table(10)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (col("nope"), "no column 'nope'"),
        (call("frobnicate", col("i64")), r"unknown function frobnicate\(int64\)"),
        (col("s") + col("t"), "add"),
        (call("substring", col("i64"), lit(1)), "substring"),
        (call("and", col("i64"), col("b")), r"and\(int64, bool\)"),
        (Cast(col("b"), pa.date32()), "cannot cast bool to date32"),
        (call("extract", lit("eon"), col("t")), "unknown part 'eon'"),
        (call("greatest", col("list"), col("list")), "greatest does not take lists"),
        (call("like", col("s")), "like takes 2 to 3 arguments"),
        (Cast(col("w"), pa.decimal128(38, 30)) * Cast(col("w"), pa.decimal128(38, 30)), "60 digits after the point"),
    ],
)
def test_plan_errors_name_what_is_wrong(expr, message):
    with pytest.raises(PlanError, match=message):
        compile_projection([("x", expr)], TABLE.schema.append(pa.field("list", pa.list_(pa.int64()))))
