"""Aggregate calls: states that calls share, unsupported arguments, and results computed from states. SPEC Q2."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from grouped import Call, check, present, run_calls

from qcore.errors import ExecutionError, PlanError
from qcore_ext.aggregate.calls import FUNCTIONS, HOLISTIC, AggregateCalls, partial_schema
from qcore_ext.data.schema import Schema
from random_tables import random_table

INPUTS = pa.schema([
    ("k", pa.int32()), ("d", pa.decimal128(10, 2)), ("f", pa.float64()), ("s", pa.string()), ("p", pa.bool_()),
    ("l", pa.list_(pa.int8())), ("m", pa.month_day_nano_interval()), ("u", pa.uint16()),
])  # fmt: skip


def states(*calls: tuple[Any, ...]) -> list[pa.DataType]:
    given = [call if len(call) > 3 else (*call, -1, False) for call in calls]
    results = Schema(pa.schema([("key", pa.int32()), *((f"a{i}", pa.float64()) for i in range(len(given)))]))
    fields = pa.schema(partial_schema(Schema(INPUTS), 1, given, results))
    assert fields.names == ["key", *(f"$state{i}" for i in range(len(fields) - 1))]
    return fields.types[1:]


def test_q2_calls_share_the_states_of_the_same_input() -> None:
    total, count, real = pa.decimal128(38, 2), pa.int64(), pa.float64()
    assert states(("sum", 1)) == [total]
    assert states(("avg", 1), ("sum", 1), ("count", 1)) == [total, count]
    assert states(("count", 1), ("count", 2), ("count", -1), ("count", 1)) == [count] * 3
    assert states(("sum", 1), ("sum", 1, 4, False), ("sum", 1, -1, True)) == [total] * 3
    assert states(("count", 1), ("count_null", 1)) == [count] * 2
    assert states(("min", 1, -1, True), ("min", 1), ("max", 1)) == [INPUTS.types[1]] * 2
    assert states(("var_pop", 2), ("stddev_samp", 2)) == [count, real, real]
    assert states(("corr", (2, 2)), ("regr_count", (2, 2)), ("sum", 2)) == [count, *[real] * 6]
    assert states(("bit_or", 7), ("first", 3), ("bool_and", 4)) == [pa.uint16(), pa.string(), pa.bool_()]


@pytest.mark.parametrize("function", [*FUNCTIONS, *HOLISTIC])
def test_q2_rows_must_meet_where_each_value_counts_once_or_all_are_kept(function: str) -> None:
    more: tuple[Any, ...] = (((), None),) if function in HOLISTIC else ()
    once = function not in ("min", "max", "bool_and", "bool_or", "first", "any_value", "last")
    assert AggregateCalls([(function, 0, -1, False, *more)]).needs_all_rows == (function in HOLISTIC)
    assert AggregateCalls([(function, 0, -1, True, *more)]).needs_all_rows == (once or function in HOLISTIC)


@pytest.mark.parametrize(("call", "message"), [
    (("sum", 3), "one of the functions sum does not take input 3 of type string; cast it first"),
    (("var_pop", 3), "does not take input 3 of type string"),
    (("bit_and", 1), "does not take input 1 of type decimal"),
    (("bit_xor", 2), "does not take input 2 of type (float64|double)"),
    (("corr", (2, 1)), "does not take input 1 of type decimal"),
    (("corr", (1, 2)), "does not take input 1 of type decimal"),
    (("max", 5), "does not take input 5 of type (nested|list)"),
    (("sum", 8), "reads input 8, but there are only 8 inputs"),
    (("count", (0, 9)), "reads input 9, but there are only 8 inputs"),
    (("sum", 1, 11, False), "reads input 11, but there are only 8 inputs"),
    (("sum", 1, 0, False), "the filter of an aggregate has type int32; it must be bool"),
    (("string_agg", 1, -1, False, ((), "")), "does not take input 1 of type decimal"),
    (("quantile_cont", 1, -1, False, ((), 0.5)), "does not take input 1 of type decimal"),
    (("mode", 5, -1, False, ((), None)), "input 5"),
    (("mode", (1, 5), -1, False, (((False, False),), None)), "cannot order by input 5"),
    (("mode", (1, 6), -1, False, (((False, False),), None)), "cannot order by input 6"),
    (("median", 1), "unknown aggregate function 'median'; the functions are any_value"),
    (("sum", -1), "'sum' needs an argument"),
    (("count", tuple([0] * 65)), "count has 65 arguments and sort keys; the most that it supports is 64"),
], ids=str)  # fmt: skip
def test_q2_calls_that_cannot_be_are_named(call: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        states(call)


def mean(values: list[Any]) -> Any:
    exact = [Fraction(value) for value in present(values)]
    return float(sum(exact) / len(exact)) if exact else None


def total(values: list[Any]) -> Any:
    return sum(present(values)) if present(values) else None


@pytest.mark.parametrize("type", [pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(9, 4)], ids=str)
def test_q2_averages_and_sums_in_the_types_asked_for(type: pa.DataType) -> None:
    table = random_table(20, 4000, {"k": pa.int16(), "x": type}, null_share=0.4, n_distinct={"k": 900})
    calls = [Call("avg", 1, pa.float64(), mean), Call("avg", 1, pa.float64(), mean)]
    calls.append(Call("sum", 1, pa.float64(), lambda values: None if total(values) is None else float(total(values))))
    if type == pa.decimal128(9, 4):
        calls.append(Call("sum", 1, pa.decimal128(20, 4), total))
    if type == pa.int8():
        calls.append(Call("sum", 1, pa.int64(), total))
    check(table, 1, calls)


@pytest.mark.parametrize(("type", "low", "high"), [
    (pa.int64(), -(2**63), 2**63 - 1),
    (pa.uint64(), 0, 2**64 - 1),
    (pa.decimal128(20, 0), 1 - 10**20, 10**20 - 1),
], ids=str)  # fmt: skip
def test_q2_a_sum_fits_its_type_up_to_the_last_value(type: pa.DataType, low: int, high: int) -> None:
    for end, step in ((low, -1), (high, 1)):
        for extra in (0, step):
            x = pa.array([Decimal(end), Decimal(extra)], pa.decimal128(38, 0))
            calls = [Call("sum", 1, type, total)]
            table = pa.table({"k": [1, 1], "x": x})
            if not extra:
                check(table, 1, calls)
                continue
            with pytest.raises(ExecutionError, match="sum does not fit its result type; cast"):
                run_calls(table, 1, calls)
