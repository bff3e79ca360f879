"""Steps over lists, structs and maps, which no register holds: arrow calls compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import BOOL, compares_by_bytes
from qcore.functions.nested import NESTED_KERNELS
from qcore.lowering.compile_steps import COMPARISONS
from qcore.lowering.compile_temporal import TemporalSteps

_COMPARED = frozenset({*COMPARISONS, "is_distinct_from", "is_not_distinct_from"})


class ConstantCall:
    """Gives a constant of a type that no register holds: once, whatever the number of rows."""

    gives_one_row = True

    def __init__(self, value: pa.Scalar) -> None:
        self.value = value

    def __call__(self, batch: Any) -> pa.RecordBatch:
        return pa.record_batch([pa.repeat(self.value, 1)], names=["value"])


class NestedSteps(TemporalSteps):
    """Steps of nested values."""

    def made(self, step: int) -> int:
        """The step as one that gives a column: a nested constant is repeated by an arrow call."""
        if not self.is_constant(step) or not pa.types.is_nested(self.types[step]):
            return step
        value = self.value(step)
        if not value.is_valid:
            return step
        key = ("made", step)
        if key not in self.known:
            row = self.constant(pa.scalar(True))
            arguments = self.program(pa.schema([("0", self.types[row])]), [row])
            options = {"arguments": arguments, "function": ConstantCall(value), "label": "literal"}
            self.known[key] = self.append("arrow", (), value.type, options)
        return self.known[key]

    def as_column(self, step: int) -> int:
        """A nested constant is made a column, whose rows can be read one by one, to say which fails."""
        return self.made(step)

    def nested_call(self, name: str, steps: list[int], type_: pa.DataType) -> int | None:
        """A call of what other types have kernels for; None for another function, or without nested arguments."""
        if name in _COMPARED:
            return self.compared(name, steps) if any(compares_by_bytes(self.types[step]) for step in steps) else None
        if not any(pa.types.is_nested(self.types[step]) for step in steps):
            return None
        if name in ("is_null", "is_not_null"):
            return self.nested_is_null(steps[0], negated=name == "is_not_null")
        if name == "length":
            return self.arrow("list_length", steps, type_)
        if name == "coalesce":
            present = [step for step in steps if not (self.is_constant(step) and not self.value(step).is_valid)]
            if len(present) < 2:
                return present[0] if present else self.null(type_)
            return self.arrow("coalesce", present, type_, NESTED_KERNELS["coalesce"])
        if name == "nullif":
            equal = self.add("equal", [self.nested_bytes(step) for step in steps], BOOL)
            return self.nested_case([equal, self.null(type_), steps[0]], type_)
        if name in ("greatest", "least"):
            raise PlanError(f"{name} takes values that are no lists, structs or maps, not {type_}")
        return None

    def compared(self, name: str, steps: list[int]) -> int:
        """A comparison, of bytes where the values have no order of their own."""
        by_bytes = any(compares_by_bytes(self.types[step]) for step in steps)
        return self.add(name, [self.nested_bytes(step) for step in steps] if by_bytes else steps, BOOL)

    def nested_bytes(self, step: int) -> int:
        """Bytes that compare as the step's values do."""
        return self.arrow("nested_bytes", [step], pa.binary())

    def nested_is_null(self, step: int, negated: bool) -> int:
        """Whether the value is null: of a column without looking into it."""
        if self.is_constant(step):
            return self.constant(pa.scalar(self.value(step).is_valid == negated))
        if self.steps[step][0] == "load":
            return self.add("is_not_null" if negated else "is_null", [step], BOOL)
        found = self.arrow("is_null", [step], BOOL, NESTED_KERNELS["is_null"])
        return self.add("not", [found], BOOL) if negated else found

    def nested_case(self, steps: Sequence[int], type_: pa.DataType) -> int:
        """condition, value, …, the last value: an arrow call that computes all of them for every row."""
        return self.arrow("case", steps, type_, NESTED_KERNELS["case"], takes_null=True)
