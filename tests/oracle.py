"""Comparison of the engine's rows with those of an oracle."""

from __future__ import annotations

import datetime
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_SHOWN = 5


def to_table(data: Any) -> pa.Table:
    """A pyarrow Table of rows in any form: tables, batches, streams, DuckDB relations, qcore results."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    for method in ("to_arrow_table", "fetch_arrow_table", "to_arrow"):
        if hasattr(data, method):
            return to_table(getattr(data, method)())
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    batches = list(data)
    if not batches:
        raise ValueError("no batch at all: pass a table, so that the schema is known")
    return pa.Table.from_batches(batches)


def assert_same_rows(
    actual: Any,
    expected: Any,
    ordered: bool = False,
    rel_tol: float = 1e-9,
    abs_tol: float = 1e-12,
    check_names: bool = False,
    check_types: bool = False,
) -> None:
    """Fail, showing the rows that differ, unless both hold the same rows, as often.

    Integers, decimals, text, dates and the like compare exactly and across widths and units (1 equals 1.00); a float
    compares within the tolerances with any number, NaN equals NaN, -0.0 equals 0.0. A time zone's name does not count.
    A UUID equals its text, as which DuckDB exports it.

    Parameters
    ----------
    ordered
        Row by row; otherwise as multisets.
    check_names, check_types
        Also compare column names, or pyarrow types.
    """
    actual, expected = to_table(actual), to_table(expected)
    assert actual.num_columns == expected.num_columns, (
        f"{actual.num_columns} columns {actual.column_names}, expected {expected.num_columns} {expected.column_names}"
    )
    if check_names:
        assert actual.column_names == expected.column_names
    if check_types:
        assert actual.schema.types == expected.schema.types
    actual_rows, expected_rows = comparable_rows(actual), comparable_rows(expected)
    same = _pairwise if ordered else _as_multisets
    missing, extra = same(actual_rows, expected_rows, rel_tol, abs_tol)
    if missing or extra:
        raise AssertionError(_difference(actual, len(actual_rows), len(expected_rows), missing, extra))


def assert_rows_among(part: Any, whole: Any, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> None:
    """Fail unless `part` is a subset of the multiset `whole`. Values compare as in assert_same_rows."""
    part, whole = to_table(part), to_table(whole)
    rows = comparable_rows(part)
    _, extra = _as_multisets(rows, comparable_rows(whole), rel_tol, abs_tol)
    if extra:
        raise AssertionError(_difference(part, len(rows), whole.num_rows, [], extra))


def comparable_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples of values that compare across widths and units."""
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*(_comparable_values(column) for column in table.columns), strict=True))


def _comparable_values(column: pa.ChunkedArray) -> list[Any]:
    type = column.type
    if pa.types.is_dictionary(type):
        return _comparable_values(column.cast(type.value_type))
    if pa.types.is_date64(type):
        column = column.cast(pa.date32())
    elif pa.types.is_timestamp(type) or pa.types.is_time64(type) or pa.types.is_duration(type):
        factor = _NANOS[type.unit]
        return [None if value is None else value * factor for value in column.cast(pa.int64()).to_pylist()]
    elif pa.types.is_time32(type):
        factor = _NANOS[type.unit]
        return [None if value is None else value * factor for value in column.cast(pa.int32()).to_pylist()]
    elif pa.types.is_interval(type):
        return [None if value is None else _interval(*value) for value in column.to_pylist()]
    try:
        return [_comparable(value) for value in column.to_pylist()]
    except OverflowError:  # days beyond the years 1 to 9999, which Python's dates do not reach
        return [("days", value.value) if value.is_valid else None for value in column]


def _interval(months: int, days: int, nanos: int) -> Any:
    """An interval without months in nanoseconds, which compares with a duration."""
    return (months, days, nanos) if months else days * 86_400 * 10**9 + nanos


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _comparable_part(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_comparable_part, value))
    return str(value) if isinstance(value, uuid.UUID) else value


def _comparable_part(value: Any) -> Any:
    """An element of a nested value. NaN equals NaN, and a duration equals an interval."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, pa.MonthDayNano):
        return _interval(*value)
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1) * 1000
    return _comparable(value)


def _same_value(a: Any, b: Any, rel_tol: float, abs_tol: float) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        if not isinstance(a, (int, float, Decimal)) or not isinstance(b, (int, float, Decimal)):
            return False
        a, b = float(a), float(b)
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return bool(a == b)


def _same_row(a: Sequence[Any], b: Sequence[Any], rel_tol: float, abs_tol: float) -> bool:
    return all(_same_value(x, y, rel_tol, abs_tol) for x, y in zip(a, b, strict=True))


def _pairwise(actual: list[Any], expected: list[Any], rel_tol: float, abs_tol: float) -> tuple[list[Any], list[Any]]:
    missing, extra = [], []
    for position in range(max(len(actual), len(expected))):
        a = actual[position] if position < len(actual) else None
        b = expected[position] if position < len(expected) else None
        if a is None or b is None or not _same_row(a, b, rel_tol, abs_tol):
            if b is not None:
                missing.append((position, b))
            if a is not None:
                extra.append((position, a))
    return missing, extra


def _as_multisets(
    actual: list[Any], expected: list[Any], rel_tol: float, abs_tol: float
) -> tuple[list[Any], list[Any]]:
    has_floats = any(isinstance(value, float) for row in (*actual[:1000], *expected[:1000]) for value in row)
    if not has_floats:
        return _exact_multisets(actual, expected)
    # Floats cannot be hashed with a tolerance: group by the rest, then match within each group.
    floats = {
        position
        for rows in (actual, expected)
        for row in rows
        for position, value in enumerate(row)
        if isinstance(value, float)
    }
    groups: dict[Any, tuple[list[Any], list[Any]]] = {}
    for side, rows in enumerate((actual, expected)):
        for row in rows:
            key = tuple(None if position in floats else _as_typed(value) for position, value in enumerate(row))
            groups.setdefault(key, ([], []))[side].append(row)
    missing, extra = [], []
    for got, wanted in groups.values():
        got.sort(key=_float_order)
        wanted.sort(key=_float_order)
        if len(got) == len(wanted) and all(_same_row(a, b, rel_tol, abs_tol) for a, b in zip(got, wanted, strict=True)):
            continue
        left_over = _greedy(got, wanted, rel_tol, abs_tol)
        missing += [(None, row) for row in left_over[0]]
        extra += [(None, row) for row in left_over[1]]
    return missing, extra


def _exact_multisets(actual: list[Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    got, wanted = Counter(map(_typed_row, actual)), Counter(map(_typed_row, expected))
    missing = [(None, _plain(row)) for row in (wanted - got).elements()]
    extra = [(None, _plain(row)) for row in (got - wanted).elements()]
    return missing, extra


def _as_typed(value: Any) -> Any:
    """True is not 1 here, as in SQL."""
    return ("bool", value) if isinstance(value, bool) else value


def _typed_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_as_typed, row))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value[1] if isinstance(value, tuple) and value[:1] == ("bool",) else value for value in row)


def _float_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        (2, 0.0) if value is None or value != value else (1, float(value))
        for value in row
        if value is None or isinstance(value, (int, float, Decimal))
    )


def _greedy(got: list[Any], wanted: list[Any], rel_tol: float, abs_tol: float) -> tuple[list[Any], list[Any]]:
    left, missing = list(got), []
    for row in wanted:
        match = next((i for i, other in enumerate(left) if _same_row(other, row, rel_tol, abs_tol)), None)
        if match is None:
            missing.append(row)
        else:
            left.pop(match)
    return missing, left


def _difference(table: pa.Table, n_actual: int, n_expected: int, missing: list[Any], extra: list[Any]) -> str:
    lines = [f"{n_actual} rows, expected {n_expected}; columns {table.column_names}"]
    for title, differing in (("missing", missing), ("not expected", extra)):
        if differing:
            lines.append(f"{len(differing)} rows {title}:")
            lines += [f"  {_show_row(position, row)}" for position, row in differing[:_SHOWN]]
            if len(differing) > _SHOWN:
                lines.append(f"  … and {len(differing) - _SHOWN} more")
    return "\n".join(lines)


def _show_row(position: int | None, row: Iterable[Any]) -> str:
    text = ", ".join(str(value) if isinstance(value, Decimal) else repr(value) for value in row)
    return f"row {position}: ({text})" if position is not None else f"({text})"
