"""Calls over lists, structs and maps. Registers do not hold such values, so arrow calls compute them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.scalars import scalar_of
from qcore.expression.types import BOOL, compares_by_bytes
from qcore.functions.nested import NESTED_KERNELS
from qcore.lowering.program_builder import COMPARISONS, ProgramBuilder

_COMPARED = frozenset({*COMPARISONS, "is_distinct_from", "is_not_distinct_from"})


def nested_call(program: ProgramBuilder, name: str, arguments: list[int], type_: pa.DataType) -> int | None:
    """The step of a call with nested arguments. None for other arguments, and for functions with their own kernel."""
    types = [program.types[step] for step in arguments]
    if name in _COMPARED:
        return compare(program, name, arguments) if any(map(compares_by_bytes, types)) else None
    if not any(map(pa.types.is_nested, types)):
        return None
    if name in ("is_null", "is_not_null"):
        return _is_null(program, arguments[0], negated=name == "is_not_null")
    if name == "length":
        return program.arrow_call("list_length", arguments, type_)
    if name == "coalesce":
        present = [step for step in arguments if not program.is_null(step)]
        if len(present) < 2:
            return present[0] if present else program.null(type_)
        return program.arrow_call("coalesce", present, type_, NESTED_KERNELS["coalesce"])
    if name == "nullif":
        equal = compare(program, "equal", arguments)
        return nested_case(program, [equal, program.null(type_), arguments[0]], type_)
    if name in ("greatest", "least"):
        raise PlanError(f"{name} does not take lists, structs and maps; the argument is {type_}")
    return None


def compare(program: ProgramBuilder, name: str, arguments: list[int]) -> int:
    """A comparison. Nested values and intervals are compared by bytes that have their order."""
    if any(compares_by_bytes(program.types[step]) for step in arguments):
        arguments = [program.arrow_call("nested_bytes", [step], pa.binary()) for step in arguments]
    return program.add(name, arguments, BOOL)


def nested_case(program: ProgramBuilder, arguments: Sequence[int], type_: pa.DataType) -> int:
    """CASE of conditions and values in turn and a last value. The arrow call computes all values for all rows."""
    return program.arrow_call("case", arguments, type_, NESTED_KERNELS["case"], takes_null=True)


def _is_null(program: ProgramBuilder, step: int, negated: bool) -> int:
    """IS NULL or IS NOT NULL. A column's validity answers it without reading values."""
    if program.is_constant(step):
        return program.constant(scalar_of(program.is_null(step) != negated))
    if program.steps[step][0] == "load":
        return program.add("is_not_null" if negated else "is_null", [step], BOOL)
    found = program.arrow_call("is_null", [step], BOOL, NESTED_KERNELS["is_null"])
    return program.add("not", [found], BOOL) if negated else found
