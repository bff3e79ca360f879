"""The expressions of each function whose results are equal over columns of wider types. SPEC D6."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import qcore
from qcore import PlanBuilder, SchemaChangeError, col
from qcore.errors import PlanError, QcoreError
from qcore.expression.tree import Call, Case, Cast, Expr, In, Lambda, Literal, call, lit
from qcore.functions.catalogue import LIST_LAMBDAS, expr_type, scalar_functions
from qcore.lowering.same_results import check_results
from sweeps import every

WHOLES = [None, 0, 1, -1, 5, -7, 100, 12, 3]
UNSIGNED = [None, 0, 1, 5, 200, 12, 3, 255, 7]
FLOATS = [None, 0.0, 0.1, -1.7, 5.0, 2.5, 3.3, -0.0, 100.0]
DECIMALS = [None, *map(Decimal, ("0", "1.25", "-1.5", "7.75", "2.5", "0.5", "9.99", "3"))]
DAYS = [None, *(dt.date(2020, *day) for day in ((1, 1), (1, 31), (2, 29), (12, 31), (6, 15), (7, 1), (3, 3), (5, 5)))]
MOMENTS = [None if day is None else dt.datetime.combine(day, dt.time(1, 2, 3)) for day in DAYS]
NULLS = [None] * 9
CHANGES: dict[str, tuple[list[Any], pa.DataType, pa.DataType]] = {
    "bytes": (WHOLES, pa.int8(), pa.int64()),
    "unsigned": (UNSIGNED, pa.uint8(), pa.int16()),
    "integers": (WHOLES, pa.int32(), pa.int64()),
    "past 64 bits": (WHOLES, pa.int64(), pa.decimal128(20, 0)),
    "integers to decimals": (WHOLES, pa.int32(), pa.decimal128(12, 2)),
    "decimals": (DECIMALS, pa.decimal128(9, 2), pa.decimal128(20, 4)),
    "floats": (FLOATS, pa.float32(), pa.float64()),
    "integers to float32": (WHOLES, pa.int16(), pa.float32()),
    "integers to float64": (WHOLES, pa.int32(), pa.float64()),
    "large integers to float64": (WHOLES, pa.int64(), pa.float64()),
    "decimals to float64": (WHOLES, pa.decimal128(9, 0), pa.float64()),
    "days": (DAYS, pa.date32(), pa.timestamp("us")),
    "moments": (MOMENTS, pa.timestamp("s"), pa.timestamp("us")),
    "nulls to integers": (NULLS, pa.null(), pa.int32()),
    "nulls to floats": (NULLS, pa.null(), pa.float64()),
    "nulls to text": (NULLS, pa.null(), pa.string()),
    "nulls to days": (NULLS, pa.null(), pa.date32()),
}


def in_lists(values: list[Any], type_: pa.DataType) -> list[Any]:
    if pa.types.is_null(type_):
        return [None, [], [None], [None, None], *[None] * 5]
    a, b, c, d, e, f, g, h = values[:8]
    return [None, [], [b], [c, d], [a, e], [d, d, c], [f], [g, b], [h]]


CHANGES.update({
    f"lists of {name}": (in_lists(values, old), pa.list_(old), pa.list_(new))
    for name, (values, old, new) in CHANGES.items()
})  # fmt: skip
OTHERS = {
    "i": pa.array([1, 2, None, 3, 4, 5, 2, 1, 0]),
    "f": pa.array([0.5, 1.5, 2, None, 3, 4, 0.1, 7, 8]),
    "g": pa.array([0.5, 1.5, 2, None, 3, 4, 0.1, 7, 8], pa.float32()),
    "s": pa.array(list("abcdefghi")),
    "l": pa.array([[1], [2, 3], [], None, [5, None], [7], [1, 1], [0], [3]]),
    "d": pa.array([Decimal("1.5")] * 9, pa.decimal128(9, 2)),
    "day": pa.array([dt.date(2020, 1, 5)] * 9),
}
LITERALS = [lit(2), lit(0.1), lit(-1), lit("a"), Literal(Decimal("0.1"), pa.decimal128(2, 1)), lit(2**60), lit("month")]
# Each change is tested with every n-th call.
SHARE = 4
V, X, Y = col("v"), col("x"), col("y")
TYPES = [
    pa.int64(), pa.float64(), pa.float32(), pa.string(), pa.decimal128(20, 3), pa.bool_(), pa.date32(), pa.int16(),
    pa.list_(pa.string()), pa.list_(pa.float64()),
]  # fmt: skip


def calls() -> Iterator[Expr]:
    """Calls of every function with the changed column, and with columns and constants of other types."""
    others = [*map(col, OTHERS), *LITERALS]
    for name, function in scalar_functions().items():
        least, most = function.arguments_min, function.arguments_max
        if name in LIST_LAMBDAS or name == "nested_bytes":
            continue
        if least <= 1:
            yield call(name, V)
        if least <= 2 <= most:
            yield call(name, V, V)
            for other in others:
                yield call(name, V, other)
                yield call(name, other, V)
        if least <= 3 <= most:
            for one, two in ((lit(1), lit(2)), (lit(2), col("i")), (lit("day"), col("day")), (col("i"), col("f"))):
                yield from (call(name, V, one, two), call(name, one, V, two), call(name, one, two, V))
    yield from (Cast(V, type_) for type_ in TYPES)
    yield from (In(V, (other, lit(5))) for other in LITERALS)
    for other in others:
        yield Case(((col("i") > 2, V),), other)
    absolute = call("abs", V)
    yield from (V * V * V, (V + 1) * 2, (V + col("i")) * 2, (V * 3) / 2.0, call("sqrt", absolute), absolute * 2)
    yield from (call("coalesce", V, lit(0)) + 1, call("sqrt", call("coalesce", V, lit(0))))
    for body in (X * 2, X + 0.5, X > 2, X / 2, call("concat", X, lit("")), X, call("sqrt", call("abs", X))):
        yield Call("list_transform", (V, Lambda(("x",), body)))
    yield from (Call("list_filter", (V, Lambda(("x",), body))) for body in (X > 2, call("is_null", X), X / 2 > 1))
    for body in (X + Y, X * Y, X - Y, call("greatest", X, Y)):
        yield Call("list_reduce", (V, Lambda(("x", "y"), body)))
    yield from (Call("list_fold", (V, Lambda(("x", "y"), X + Y), start)) for start in (lit(0), lit(0.5)))


def evaluate_all(expressions: list[Expr], table: pa.Table) -> list[Any]:
    """The result or error of each expression. They are computed in groups, and one by one after an error."""
    if len(expressions) > 32:
        half = len(expressions) // 2
        return evaluate_all(expressions[:half], table) + evaluate_all(expressions[half:], table)
    named = {f"x{i}": expr for i, expr in enumerate(expressions)}
    try:
        plan = PlanBuilder().values(table).project(named).build()
        return list(qcore.Session(threads=1).execute(plan).to_arrow().columns)
    except QcoreError as error:
        if len(expressions) < 2:
            return [error] * len(expressions)
        half = len(expressions) // 2
        return evaluate_all(expressions[:half], table) + evaluate_all(expressions[half:], table)


def plain(value: Any) -> Any:
    """Convert equal values of different types to equal objects."""
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return Decimal(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def has_type(expr: Expr, schemas: list[pa.Schema]) -> bool:
    try:
        return all(expr_type(expr, schema) is not None for schema in schemas)
    except (PlanError, ValueError):
        # Arrow has no maps with keys of type null.
        return False


@pytest.mark.parametrize("change", every(17, CHANGES))
def test_supported_expressions_give_equal_results(change: str) -> None:
    """An independent check evaluates each expression over both types of the same values."""
    values, old, new = CHANGES[change]
    narrow = pa.table({"v": pa.array(values, old), **OTHERS})
    wide = pa.table({"v": narrow["v"].cast(new) if not pa.types.is_null(old) else pa.nulls(9, new), **OTHERS})
    schemas = [narrow.schema, wide.schema]
    carried = []
    for expr in list(calls())[list(CHANGES).index(change) % SHARE :: SHARE]:
        if has_type(expr, schemas):
            try:
                check_results([expr], *schemas)
            except SchemaChangeError:
                continue
            carried.append(expr)
    assert carried
    for expr, before, after in zip(carried, evaluate_all(carried, narrow), evaluate_all(carried, wide), strict=True):
        # Rows that fail end the query, also if all rows are cast up front.
        if isinstance(before, QcoreError) or isinstance(after, QcoreError):
            continue
        if pa.types.is_date32(before.type) and before.type == after.type:
            before, after = before.cast(pa.int32()), after.cast(pa.int32())
        assert plain(before.to_pylist()) == plain(after.to_pylist()), repr(expr)


FLOAT, DOUBLE, INT, LONG = pa.float32(), pa.float64(), pa.int32(), pa.int64()
CARRIED: list[tuple[Expr, pa.DataType, pa.DataType]] = [
    (V + 0.5, INT, LONG),
    (V / 2, INT, LONG),
    (V / 2.0, INT, LONG),
    (V / 2.0, INT, pa.decimal128(12, 2)),
    (V / 2.0, FLOAT, DOUBLE),
    (V * 2, INT, DOUBLE),
    (V * 2.0, FLOAT, DOUBLE),
    (call("sqrt", V), FLOAT, DOUBLE),
    (call("abs", V), FLOAT, DOUBLE),
    (call("floor", V), FLOAT, DOUBLE),
    (Cast(V, pa.string()), INT, LONG),
    (call("concat", V, lit("a")), INT, LONG),
    (call("length", V), pa.list_(INT), pa.list_(pa.decimal128(12, 2))),
    (call("list_sort", V), pa.list_(FLOAT), pa.list_(DOUBLE)),
    (call("list_sum", V), pa.list_(INT), pa.list_(LONG)),
    (call("list_avg", V), pa.list_(INT), pa.list_(pa.decimal128(12, 2))),
    (call("list_contains", V, lit(2)), pa.list_(INT), pa.list_(DOUBLE)),
    (call("list_extract", V, lit(1)) * 2, pa.list_(INT), pa.list_(LONG)),
    # Of a null the result is null, though the other column is compared as a float afterwards.
    (call("greater", V, col("w")), pa.null(), FLOAT),
]
REFUSED: list[tuple[Expr, pa.DataType, pa.DataType]] = [
    (V + V, FLOAT, DOUBLE),
    (V * V, pa.int16(), FLOAT),
    (V / 2, INT, DOUBLE),
    (V / 2, INT, pa.decimal128(12, 2)),
    (V * 3 * 7, LONG, DOUBLE),
    (call("sqrt", V * 2), LONG, DOUBLE),
    (Cast(V, pa.string()), INT, pa.decimal128(12, 2)),
    (Cast(V, pa.string()), FLOAT, DOUBLE),
    (Cast(V, LONG), pa.timestamp("s"), pa.timestamp("us")),
    (call("concat", V, lit("a")), INT, DOUBLE),
    (call("bit_count", V), pa.int8(), LONG),
    (call("equal", V, Literal(Decimal("0.1"), pa.decimal128(2, 1))), FLOAT, DOUBLE),
    (call("equal", V, col("w")), INT, DOUBLE),
    (call("list_transform", V, Lambda(("x",), X + X)), pa.list_(FLOAT), pa.list_(DOUBLE)),
    (call("array_to_string", V, lit(",")), pa.list_(INT), pa.list_(DOUBLE)),
    (call("row", V), INT, LONG),
    (call("coalesce", V, col("w")), pa.null(), DOUBLE),
    (call("is_distinct_from", V, col("w")), pa.null(), FLOAT),
]


@pytest.mark.parametrize(("expr", "old", "new"), CARRIED)
def test_carried(expr: Expr, old: pa.DataType, new: pa.DataType) -> None:
    check_results([expr], *(pa.schema([("v", type_), ("w", LONG)]) for type_ in (old, new)))


@pytest.mark.parametrize(("expr", "old", "new"), REFUSED)
def test_refused_by_name(expr: Expr, old: pa.DataType, new: pa.DataType) -> None:
    """D6: the error names the column, both types, the part of the expression that differs, and the remedy."""
    with pytest.raises(SchemaChangeError) as raised:
        check_results([expr], *(pa.schema([("v", type_), ("w", LONG)]) for type_ in (old, new)))
    message = str(raised.value)
    for part in (f"column 'v' changed from {old} to {new}", "rows computed before", "declare the wider"):
        assert part in message
    assert message.split("result of ")[1].split(" than the wider")[0] in repr(expr)


def test_other_layouts_are_no_change() -> None:
    for expr in (Cast(V, pa.string()), call("upper", V)):
        check_results([expr], pa.schema([("v", pa.string())]), pa.schema([("v", pa.large_string())]))
    lists = [pa.schema([("v", pa.list_(type_))]) for type_ in (pa.string(), pa.large_string())]
    check_results([call("array_to_string", V, lit(","))], *lists)
