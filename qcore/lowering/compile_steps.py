"""Steps of a vector program under construction: shared, folded, converted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError
from qcore.expression.interval_values import span_as_text, span_of_text, span_of_text_or_null
from qcore.expression.types import STRING, is_text, is_zoned, plain
from qcore.functions.arrow.scalar import (
    BoundCall,
    Kernel,
    assume_zone,
    by_value,
    bytes_as_text,
    bytes_as_text_or_null,
    instants_of_text,
    zone_offset,
)
from qcore.functions.nested import ARROW_CALLS, with_type
from qcore.lowering.nested_text import nested_text
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.compute.program import Program
from qcore_ext.ground.memory import Account

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

# Rough cost of a step against that of a SIMD comparison: where a predicate's conjuncts start before any is measured.
_COSTS = {
    "load": 0, "constant": 0, "like": 20, "ilike": 40, "upper": 20, "lower": 20, "substring": 8, "cast": 2,
    "arrow": 300,
}  # fmt: skip

# One row, for evaluating constants.
_ONE_ROW = pa.record_batch([pa.array([True])], names=["row"])


class Steps:
    """Steps of one program under construction."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.steps: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
        self.types: list[pa.DataType] = []
        self.constants: list[pa.Scalar] = []
        self.known: dict[Any, int] = {}

    def program(self, output_schema: pa.Schema, outputs: list[int]) -> Program:
        """The steps that `outputs` need, renumbered; folding has left others behind."""
        used = sorted(self.needed(outputs))
        number = {step: i for i, step in enumerate(used)}
        steps = []
        arrays: list[pa.Array] = []
        for step in used:
            name, arguments, options = self.steps[step]
            if name == "constant":
                scalar = self.value(step)
                options = {"constant": len(arrays)}
                arrays.append(pa.repeat(scalar, 1) if scalar.is_valid else pa.nulls(1, scalar.type))
            steps.append((name, tuple(number[argument] for argument in arguments), options))
        types = pa.schema([(str(number[step]), self.types[step]) for step in used])
        constants = pa.RecordBatch.from_arrays(arrays, names=list(map(str, range(len(arrays))))) if arrays else None
        return Program(self.schema, output_schema, steps, types, [number[output] for output in outputs], constants)

    def needed(self, outputs: Sequence[int]) -> set[int]:
        found: set[int] = set()
        waiting = list(outputs)
        while waiting:
            step = waiting.pop()
            if step not in found:
                found.add(step)
                waiting.extend(self.steps[step][1])
        return found

    def cost(self, output: int) -> float:
        """Rough cost of a row, in SIMD comparisons."""
        total = 0.0
        for step in self.needed([output]):
            name, arguments, _ = self.steps[step]
            is_text_comparison = name in COMPARISONS and is_text(self.types[arguments[0]])
            total += 3 if is_text_comparison else _COSTS.get(name, 1)
        return total

    # --- steps ---

    def add(self, name: str, arguments: Sequence[int], type_: pa.DataType, **options: Any) -> int:
        """The step that computes this; an earlier one when it is the same."""
        key = (name, tuple(arguments), type_, tuple((k, _hashable(v)) for k, v in options.items()))
        if key in self.known:
            return self.known[key]
        step = None
        if arguments and all(map(self.is_constant, arguments)):
            step = self.folded(name, arguments, type_, options)
        if step is None:
            step = self.append(name, tuple(arguments), type_, options)
        self.known[key] = step
        return step

    def append(self, name: str, arguments: tuple[int, ...], type_: pa.DataType, options: dict[str, Any]) -> int:
        self.steps.append((name, arguments, options))
        self.types.append(type_)
        return len(self.steps) - 1

    def folded(self, name: str, arguments: Sequence[int], type_: pa.DataType, options: dict[str, Any]) -> int | None:
        """The step's value, computed now; None when it fails, so that it fails only if a row needs it."""
        small = Steps(_ONE_ROW.schema)
        inputs = [small.constant(self.value(argument)) for argument in arguments]
        result = small.append(name, tuple(inputs), type_, options)
        program = small.program(pa.schema([("value", type_)]), [result])
        try:
            batch = Evaluator(program, Account()).project_batch(_ONE_ROW)
        except ExecutionError:
            return None
        return self.constant(pa.record_batch(batch).column(0)[0])

    def constant(self, scalar: pa.Scalar) -> int:
        key = ("constant", scalar.type, _hashable(scalar))
        if key not in self.known:
            self.constants.append(scalar)
            self.known[key] = self.append("constant", (), scalar.type, {"constant": len(self.constants) - 1})
        return self.known[key]

    def null(self, type_: pa.DataType) -> int:
        if pa.types.is_nested(type_):
            # Registers hold no nested values: they are made as an output.
            nothing = self.constant(pa.scalar(None, pa.bool_()))
            return self.called("null", lambda rows: pa.nulls(len(rows), type_), [nothing], [None], type_)
        return self.constant(pa.scalar(None, type_))

    def is_constant(self, step: int) -> bool:
        return self.steps[step][0] == "constant"

    def value(self, step: int) -> pa.Scalar:
        """Of a constant step."""
        return self.constants[self.steps[step][2]["constant"]]

    def convert(self, step: int, type_: pa.DataType, safe: bool = True) -> int:
        """The step's values as another type."""
        given, wanted = plain(self.types[step]), plain(type_)
        if given == wanted:
            return step
        if pa.types.is_null(given):
            return self.null(wanted)
        if pa.types.is_decimal(given) and pa.types.is_floating(wanted) and self.is_constant(step):
            # The nearest float, which digits divided by a power of ten are not when there are many.
            number = self.value(step).as_py()
            return self.constant(pa.scalar(None if number is None else float(number), wanted))
        # Steps of one name are one step.
        name = "cast" if safe else "try_cast"
        if given == pa.binary() and wanted == STRING:
            return self.arrow(name, [step], STRING, bytes_as_text if safe else bytes_as_text_or_null)
        if wanted == STRING and (pa.types.is_interval(given) or pa.types.is_duration(given)):
            return self.arrow("cast", [step], STRING, span_as_text)
        if given == STRING and pa.types.is_interval(wanted):
            return self.arrow(name, [step], wanted, by_value(span_of_text if safe else span_of_text_or_null, wanted))
        if pa.types.is_nested(given) and wanted == STRING:
            return self.arrow(
                "cast", [step], STRING, lambda values: nested_text(values, lambda leaf: _cast(leaf, STRING))
            )
        if pa.types.is_nested(given) and pa.types.is_nested(wanted):
            parts = partial(_cast, safe=safe)
            return self.arrow(name, [step], wanted, lambda values: with_type(values, wanted, parts))
        if not _is_instant(given, wanted):
            if is_zoned(given):
                return self.convert_zoned(step, wanted, safe)
            if is_zoned(wanted):
                local = self.convert(step, pa.timestamp(wanted.unit), safe)
                if given == STRING:
                    return self.arrow(name, [step, local], wanted, instants_of_text(wanted.tz))
                return self.arrow("assume_zone", [local], wanted, assume_zone(wanted.tz))
        return self.add("cast", [step], wanted, **{"try": not safe})

    def convert_zoned(self, step: int, wanted: pa.DataType, safe: bool) -> int:
        """A timestamp of a zone other than UTC as another type: what a clock there shows."""
        local = self.convert(self.local(step), wanted, safe)
        if not pa.types.is_string(wanted):
            return local
        return self.add("concat", [local, self.arrow("zone_offset", [step], STRING, zone_offset)], STRING)

    def local(self, step: int) -> int:
        """The step's values, those of a zone other than UTC as what a clock there shows."""
        type_ = self.types[step]
        return self.arrow("local_time", [step], pa.timestamp(type_.unit)) if is_zoned(type_) else step

    def arrow(
        self,
        name: str,
        steps: Sequence[int],
        type_: pa.DataType,
        kernel: Kernel | None = None,
        takes_null: bool = False,
    ) -> int:
        """A step that a function of pyarrow computes over whole batches; its arguments get a program of their own."""
        if not takes_null and any(self.is_constant(step) and not self.value(step).is_valid for step in steps):
            return self.null(type_)
        key = ("arrow", name, tuple(steps), type_)
        if key in self.known:
            return self.known[key]
        kernel = kernel or ARROW_CALLS[name].kernel
        constants = [self.value(step) if self.is_constant(step) else None for step in steps]
        if all(map(self.is_constant, steps)):
            folded = self.folded_arrow(name, kernel, [self.value(step) for step in steps], type_)
            if folded is not None:
                return folded
        self.known[key] = self.called(name, kernel, steps, constants, type_)
        return self.known[key]

    def called(
        self,
        name: str,
        kernel: Kernel,
        steps: Sequence[int],
        constants: list[pa.Scalar | None],
        type_: pa.DataType,
    ) -> int:
        """A new step that calls the kernel. One argument at least is a column, so that there is a number of rows."""
        if None not in constants:
            place = _repeated(name)
            constants[place] = None
            steps = [self.as_column(step) if i == place else step for i, step in enumerate(steps)]
        columns = [step for step, constant in zip(steps, constants, strict=True) if constant is None]
        bound = BoundCall(name, kernel, constants, type_)
        fields = pa.schema([(str(i), self.types[step]) for i, step in enumerate(columns)])
        if len(columns) < len(steps):
            # A wrong constant is found before the first row.
            bound(pa.record_batch([pa.array([], field.type) for field in fields], schema=fields))
        options = {"arguments": self.program(fields, columns), "function": bound, "label": name}
        return self.append("arrow", (), type_, options)

    def as_column(self, step: int) -> int:
        """The step of a constant that is to be a column of a call."""
        return step

    def folded_arrow(self, name: str, kernel: Kernel, constants: list[pa.Scalar], type_: pa.DataType) -> int | None:
        """The value of a call of constants, computed now; None when it fails, as for folded()."""
        given: list[pa.Scalar | None] = list(constants)
        repeated = constants[_repeated(name)]
        given[_repeated(name)] = None
        row = pa.record_batch([pa.array([repeated.as_py()], repeated.type)], names=["0"])
        try:
            made = BoundCall(name, kernel, given, type_)(row)
        except ExecutionError:
            return None
        return self.constant(made.column(0)[0])

    def literal_value(self, name: str, step: int, what: str) -> Any:
        if not self.is_constant(step):
            raise PlanError(f"{name}: {what} must be a literal")
        return self.value(step).as_py()


def _repeated(name: str) -> int:
    """Which of a call's constants becomes a column: the names of a struct's fields stay constants."""
    return 1 if name == "struct_pack" else 0


def _cast(values: pa.Array, type_: pa.DataType, safe: bool = True) -> pa.Array:
    """Values that are not nested as the engine casts them."""
    steps = Steps(pa.schema([("value", values.type)]))
    loaded = steps.add("load", [], plain(values.type), column=0)
    program = steps.program(pa.schema([("value", plain(type_))]), [steps.convert(loaded, type_, safe)])
    batch = pa.record_batch([values], names=["value"])
    return pa.record_batch(Evaluator(program, Account()).project_batch(batch)).column(0)


def _is_instant(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Between timestamps of zones: the instant stays, so the zone does not matter."""
    return bool(pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted) and given.tz and wanted.tz)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, (pa.Date32Scalar, pa.Date64Scalar, pa.TimestampScalar)):
        # Python has no word for those outside the years 1 to 9999.
        return (value.value, value.is_valid)
    if isinstance(value, pa.Scalar):
        # 0.0 and -0.0, or true and 1, are equal in Python and different constants.
        return (repr(value), value.is_valid)
    return value
