"""Calls of scalar functions that are more than one step of the function's name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.scalars import scalar_of
from qcore.expression.types import BOOL, INT64
from qcore.lowering.nested_calls import compare
from qcore.lowering.program_builder import ProgramBuilder

#: Adds the steps of a call, from the arguments' steps and the result's type; returns the last one.
CallCompiler = Callable[[ProgramBuilder, list[int], pa.DataType], int]


def _connect(name: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """AND or OR. Nested ones are flattened; a constant that decides the result is the result, others are dropped."""
    deciding = name == "or"
    kept: dict[int, None] = {}
    for step in arguments:
        parts = program.steps[step][1] if program.steps[step][0] == name else (step,)
        for part in parts:
            value = program.value(part).as_py() if program.is_constant(part) else None
            if value is deciding:
                return part
            if value is None:
                kept[part] = None
    if not kept:
        return program.constant(scalar_of(not deciding))
    return next(iter(kept)) if len(kept) == 1 else program.add(name, list(kept), BOOL)


def _match(name: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """LIKE and similar functions. A constant pattern is an option of the step."""
    if not all(map(program.is_constant, arguments[1:])):
        if len(arguments) == 2:
            return program.add(name, arguments, BOOL)
        return program.arrow_call(f"{name}_escape", arguments, BOOL)
    if any(map(program.is_null, arguments[1:])):
        return program.null(BOOL)
    pattern, *escape = (program.value(step).as_py() for step in arguments[1:])
    if escape and len(escape[0]) > 1:
        raise PlanError(f"{name}: the escape is one character, not {escape[0]!r}")
    return program.add(name, [arguments[0]], BOOL, pattern=pattern, escape=escape[0] if escape else "")


def _not_match(name: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    return program.add("not", [_match(name, program, arguments, type_)], BOOL)


def _nullif(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    equal, given = compare(program, "equal", arguments), program.types[arguments[0]]
    return program.convert(program.add("case", [equal, program.null(given), arguments[0]], given), type_)


def _extreme(comparison: str, program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """The first argument for which the comparison with all others is true. Nulls are skipped."""
    best = arguments[0]
    for step in arguments[1:]:
        best_is_null = program.add("is_null", [best], BOOL)
        wins = compare(program, comparison, [step, best])
        best = program.add("case", [best_is_null, step, wins, step, best], type_)
    return best


def _round(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    if len(arguments) == 1:
        return program.add("round", arguments, type_, digits=0)
    if not program.is_constant(arguments[1]):
        return program.add("round_by", arguments, type_, label="round")
    digits = program.value(arguments[1]).as_py()
    return program.null(type_) if digits is None else program.add("round", [arguments[0]], type_, digits=digits)


def _divide(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    """Integers of uint64 and a signed type have a decimal result: the quotient of the magnitudes with its sign."""
    if not pa.types.is_decimal(type_):
        return program.add("divide", arguments, type_)
    wide = [program.convert(step, type_) for step in arguments]
    magnitudes = [program.convert(program.add("abs", [step], type_), pa.uint64()) for step in wide]
    quotient = program.convert(program.add("divide", magnitudes, pa.uint64()), type_)
    zero = program.constant(scalar_of(0, type_))
    signs = [program.add("less", [step, zero], BOOL) for step in wide]
    differ = program.add("not_equal", signs, BOOL)
    return program.add("case", [differ, program.add("negate", [quotient], type_), quotient], type_)


def _bit_length(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    n_bytes = program.add("octet_length", arguments, INT64)
    return program.add("multiply", [n_bytes, program.constant(scalar_of(8))], INT64)


def _concat(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    return arguments[0] if len(arguments) == 1 else program.add("concat", arguments, type_)


def _coalesce(program: ProgramBuilder, arguments: list[int], type_: pa.DataType) -> int:
    present = [step for step in arguments if not program.is_null(step)]
    if not present:
        return program.null(type_)
    return present[0] if len(present) == 1 else program.add("coalesce", present, type_)


SCALAR_CALLS: dict[str, CallCompiler] = {
    "and": partial(_connect, "and"),
    "or": partial(_connect, "or"),
    **{name: partial(_match, name) for name in ("like", "ilike", "starts_with", "ends_with", "contains")},
    "not_like": partial(_not_match, "like"),
    "not_ilike": partial(_not_match, "ilike"),
    "nullif": _nullif,
    "greatest": partial(_extreme, "greater_equal"),
    "least": partial(_extreme, "less_equal"),
    "round": _round,
    "divide": _divide,
    "bit_length": _bit_length,
    "concat": _concat,
    "coalesce": _coalesce,
}
