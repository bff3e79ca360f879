"""Vector programs under construction: equal steps shared, constants folded, values converted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError
from qcore.expression.interval_values import parse_span, parse_span_or_null, span_as_text
from qcore.expression.scalars import array_of, scalar_of
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

# Estimated cost of a step relative to a SIMD comparison. It orders a predicate's conjuncts until costs are measured.
_COSTS = {
    "load": 0, "constant": 0, "like": 20, "ilike": 40, "upper": 20, "lower": 20, "substring": 8, "cast": 2,
    "arrow": 300,
}  # fmt: skip

# Estimated bytes that a step of constants may read or make while a query is planned. It takes some milliseconds. A
# driver computes what takes longer, since only a driver can be stopped.
_PLANNING_WORK_MAX = 1_000_000

# One row, for evaluating constants. pa.array() would import pandas.
_ONE_ROW = pa.record_batch([pa.nulls(1, pa.bool_())], names=["row"])


class ConstantCall:
    """An arrow call that returns a constant of a nested type, which no register can hold."""

    gives_one_row = True

    def __init__(self, value: pa.Scalar) -> None:
        self.value = value

    def __call__(self, batch: Any) -> pa.RecordBatch:
        return pa.record_batch([pa.repeat(self.value, 1)], names=["value"])


class ProgramBuilder:
    """The steps of one program under construction. Methods that add a step return its number.

    Parameters
    ----------
    schema : pyarrow.Schema
        The input's.
    while_planning : bool
        Whether a step of constants that may take long is left as it is. Other programs compute it.
    """

    def __init__(self, schema: pa.Schema, while_planning: bool = False) -> None:
        self.schema = schema
        self._while_planning = while_planning
        #: Name, arguments and options of each step.
        self.steps: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
        self.types: list[pa.DataType] = []
        self._constants: list[pa.Scalar] = []
        self._known: dict[Any, int] = {}

    def build(self, output_schema: pa.Schema, outputs: list[int]) -> Program:
        """The program of the steps that `outputs` need, renumbered. Steps left over from folding are dropped."""
        used = sorted(self._needed_steps(outputs))
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

    def _needed_steps(self, outputs: Sequence[int]) -> set[int]:
        found: set[int] = set()
        waiting = list(outputs)
        while waiting:
            step = waiting.pop()
            if step not in found:
                found.add(step)
                waiting.extend(self.steps[step][1])
        return found

    def cost(self, output: int) -> float:
        """Estimated cost of an output for one row, in SIMD comparisons."""
        total = 0.0
        for step in self._needed_steps([output]):
            name, arguments, _ = self.steps[step]
            is_text_comparison = name in COMPARISONS and is_text(self.types[arguments[0]])
            total += 3 if is_text_comparison else _COSTS.get(name, 1)
        return total

    # --- steps ---

    def add(self, name: str, arguments: Sequence[int], type_: pa.DataType, **options: Any) -> int:
        """Add a step, unless there is an equal one. A step whose arguments are constants is computed now."""
        key = (name, tuple(arguments), type_, tuple((k, _hashable(v)) for k, v in options.items()))
        if key in self._known:
            return self._known[key]
        step = None
        if arguments and all(map(self.is_constant, arguments)):
            step = self._fold(name, arguments, type_, options)
        if step is None:
            step = self._append(name, tuple(arguments), type_, options)
        self._known[key] = step
        return step

    def _append(self, name: str, arguments: tuple[int, ...], type_: pa.DataType, options: dict[str, Any]) -> int:
        self.steps.append((name, arguments, options))
        self.types.append(type_)
        return len(self.steps) - 1

    def _fold(self, name: str, arguments: Sequence[int], type_: pa.DataType, options: dict[str, Any]) -> int | None:
        """Compute a step of constants. None if it fails: the query then fails only if a row needs the step."""
        if self._takes_long(list(map(self.value, arguments)), type_):
            return None
        small = ProgramBuilder(_ONE_ROW.schema)
        inputs = [small.constant(self.value(argument)) for argument in arguments]
        result = small._append(name, tuple(inputs), type_, options)
        program = small.build(pa.schema([("value", type_)]), [result])
        try:
            batch = Evaluator(program, Account()).project_batch(_ONE_ROW)
        except ExecutionError:
            return None
        return self.constant(pa.record_batch(batch).column(0)[0])

    def _takes_long(self, constants: Sequence[pa.Scalar], type_: pa.DataType) -> bool:
        """Whether a step of these constants, of type `type_`, is left to the drivers."""
        return self._while_planning and _work(constants, type_) > _PLANNING_WORK_MAX

    def constant(self, scalar: pa.Scalar) -> int:
        key = ("constant", scalar.type, _hashable(scalar))
        if key not in self._known:
            self._constants.append(scalar)
            self._known[key] = self._append("constant", (), scalar.type, {"constant": len(self._constants) - 1})
        return self._known[key]

    def null(self, type_: pa.DataType) -> int:
        if pa.types.is_nested(type_):
            # Registers hold no nested values, so an arrow call makes the column.
            nothing = self.constant(scalar_of(None, pa.bool_()))
            return self.append_arrow_call("null", lambda rows: pa.nulls(len(rows), type_), [nothing], [None], type_)
        return self.constant(scalar_of(None, type_))

    def is_constant(self, step: int) -> bool:
        return self.steps[step][0] == "constant"

    def is_null(self, step: int) -> bool:
        """Whether the step is a constant null."""
        return self.is_constant(step) and not self.value(step).is_valid

    def value(self, step: int) -> pa.Scalar:
        """The value of a constant step."""
        return self._constants[self.steps[step][2]["constant"]]

    def literal_value(self, name: str, step: int, what: str) -> Any:
        """The value of a constant argument of the function `name`. PlanError for another step."""
        if not self.is_constant(step):
            raise PlanError(f"{name}: {what} must be a literal")
        return self.value(step).as_py()

    def as_column(self, step: int) -> int:
        """The step itself; for a nested constant an arrow call that returns it as a column."""
        if not self.is_constant(step) or not pa.types.is_nested(self.types[step]) or self.is_null(step):
            return step
        key = ("column", step)
        if key not in self._known:
            row = self.constant(scalar_of(True))
            arguments = self.build(pa.schema([("0", self.types[row])]), [row])
            value = self.value(step)
            options = {"arguments": arguments, "function": ConstantCall(value), "label": "literal"}
            self._known[key] = self._append("arrow", (), value.type, options)
        return self._known[key]

    # --- conversions ---

    def convert(self, step: int, type_: pa.DataType, safe: bool = True) -> int:
        """The step's values as another type. A value that does not fit is an error, or null if not `safe`."""
        given, wanted = plain(self.types[step]), plain(type_)
        if given == wanted:
            return step
        if pa.types.is_null(given):
            return self.null(wanted)
        if pa.types.is_decimal(given) and pa.types.is_floating(wanted) and self.is_constant(step):
            # The nearest float. The engine divides digits by a power of ten, which rounds twice if there are many.
            number = self.value(step).as_py()
            return self.constant(scalar_of(None if number is None else float(number), wanted))
        # Equal names make equal steps, so a safe and an unsafe cast need different ones.
        name = "cast" if safe else "try_cast"
        if given == pa.binary() and wanted == STRING:
            return self.arrow_call(name, [step], STRING, bytes_as_text if safe else bytes_as_text_or_null)
        if wanted == STRING and (pa.types.is_interval(given) or pa.types.is_duration(given)):
            return self.arrow_call("cast", [step], STRING, span_as_text)
        if given == STRING and pa.types.is_interval(wanted):
            parse = parse_span if safe else parse_span_or_null
            return self.arrow_call(name, [step], wanted, by_value(parse, wanted))
        if pa.types.is_nested(given) and wanted == STRING:
            return self.arrow_call(
                "cast", [step], STRING, lambda values: nested_text(values, lambda leaf: _cast(leaf, STRING))
            )
        if pa.types.is_nested(given) and pa.types.is_nested(wanted):
            cast_leaf = partial(_cast, safe=safe)
            return self.arrow_call(name, [step], wanted, lambda values: with_type(values, wanted, cast_leaf))
        if not _is_instant(given, wanted):
            if is_zoned(given):
                return self._convert_zoned(step, wanted, safe)
            if is_zoned(wanted):
                # Only an instant takes the UTC offset in a text into account.
                local = self.convert(step, pa.timestamp(wanted.unit, "UTC" if given == STRING else None), safe)
                if given == STRING:
                    return self.arrow_call(name, [step, local], wanted, instants_of_text(wanted.tz))
                return self.arrow_call("assume_zone", [local], wanted, assume_zone(wanted.tz))
        return self.add("cast", [step], wanted, **{"try": not safe})

    def _convert_zoned(self, step: int, wanted: pa.DataType, safe: bool) -> int:
        """A timestamp with a time zone other than UTC as another type: its local time, converted."""
        local = self.convert(self.local_time(step), wanted, safe)
        if not pa.types.is_string(wanted):
            return local
        return self.add("concat", [local, self.arrow_call("zone_offset", [step], STRING, zone_offset)], STRING)

    def local_time(self, step: int) -> int:
        """The step itself; for a timestamp with a time zone other than UTC its local time there."""
        type_ = self.types[step]
        return self.arrow_call("local_time", [step], pa.timestamp(type_.unit)) if is_zoned(type_) else step

    # --- arrow calls ---

    def arrow_call(
        self,
        name: str,
        steps: Sequence[int],
        type_: pa.DataType,
        kernel: Kernel | None = None,
        takes_null: bool = False,
    ) -> int:
        """A step that a Python function computes over whole batches; its arguments are a separate program."""
        if not takes_null and any(map(self.is_null, steps)):
            return self.null(type_)
        key = ("arrow", name, tuple(steps), type_)
        if key not in self._known:
            step = self.new_arrow_call(name, kernel or ARROW_CALLS[name].kernel, steps, type_)
            if self.is_constant(step):
                return step
            self._known[key] = step
        return self._known[key]

    def new_arrow_call(self, name: str, kernel: Kernel, steps: Sequence[int], type_: pa.DataType) -> int:
        """Like arrow_call, but never shared with an equal call. A call of constants is computed now unless it fails."""
        if all(map(self.is_constant, steps)):
            folded = self._fold_arrow_call(name, kernel, list(map(self.value, steps)), type_)
            if folded is not None:
                return folded
        constants = [self.value(step) if self.is_constant(step) else None for step in steps]
        return self.append_arrow_call(name, kernel, steps, constants, type_)

    def append_arrow_call(
        self,
        name: str,
        kernel: Kernel,
        steps: Sequence[int],
        constants: list[pa.Scalar | None],
        type_: pa.DataType,
    ) -> int:
        """A new step that calls the kernel. At least one argument is a column, which gives the number of rows."""
        if None not in constants:
            position = _column_position(name)
            constants[position] = None
            steps = [self.as_column(step) if i == position else step for i, step in enumerate(steps)]
        columns = [step for step, constant in zip(steps, constants, strict=True) if constant is None]
        bound = BoundCall(name, kernel, constants, type_)
        fields = pa.schema([(str(i), self.types[step]) for i, step in enumerate(columns)])
        if len(columns) < len(steps):
            # A call over no rows raises the error for a wrong constant before the query runs.
            bound(pa.record_batch([pa.nulls(0, field.type) for field in fields], schema=fields))
        options = {"arguments": self.build(fields, columns), "function": bound, "label": name}
        return self._append("arrow", (), type_, options)

    def _fold_arrow_call(
        self, name: str, kernel: Kernel, constants: Sequence[pa.Scalar], type_: pa.DataType
    ) -> int | None:
        """The constant that a call of constants gives; None if it fails, as in _fold."""
        if self._takes_long(constants, type_):
            return None
        given: list[pa.Scalar | None] = list(constants)
        value = constants[_column_position(name)]
        given[_column_position(name)] = None
        row = pa.record_batch([array_of([value.as_py()], value.type)], names=["0"])
        try:
            result = BoundCall(name, kernel, given, type_)(row)
        except ExecutionError:
            return None
        return self.constant(result.column(0)[0])


def _work(constants: Sequence[pa.Scalar], type_: pa.DataType) -> int:
    """Estimated bytes that a step of constants reads or makes.

    A function may compare each part of one argument with each part of another, so the two longest lengths are
    multiplied. An integer beside a text may be the length of a result: repeat('ab', 1000000).
    """
    sizes = [_size(scalar) for scalar in constants if _has_length(scalar.type) and scalar.is_valid]
    if sizes and _has_length(type_):
        sizes += [abs(scalar.as_py()) for scalar in constants if scalar.is_valid and pa.types.is_integer(scalar.type)]
    return math.prod(sorted(sizes)[-2:])


def _size(scalar: pa.Scalar) -> int:
    """The bytes of a value, offsets included."""
    return int(pa.repeat(scalar, 1).nbytes if pa.types.is_nested(scalar.type) else 8 + scalar.as_buffer().size)


def _has_length(type_: pa.DataType) -> bool:
    return is_text(type_) or pa.types.is_binary(type_) or pa.types.is_nested(type_)


def _column_position(name: str) -> int:
    """Which of a call's constants becomes a column. The first of struct_pack's are names, which stay constants."""
    return 1 if name == "struct_pack" else 0


def _cast(values: pa.Array, type_: pa.DataType, safe: bool = True) -> pa.Array:
    """Values that are not nested, cast by the engine."""
    program = ProgramBuilder(pa.schema([("value", values.type)]))
    loaded = program.add("load", [], plain(values.type), column=0)
    cast = program.build(pa.schema([("value", plain(type_))]), [program.convert(loaded, type_, safe)])
    batch = pa.record_batch([values], names=["value"])
    return pa.record_batch(Evaluator(cast, Account()).project_batch(batch)).column(0)


def _is_instant(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether both are timestamps with a time zone. A cast keeps the instant, so the zones do not matter."""
    return bool(pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted) and given.tz and wanted.tz)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, (pa.Date32Scalar, pa.Date64Scalar, pa.TimestampScalar)):
        # Python has no values for those outside the years 1 to 9999.
        return (value.value, value.is_valid)
    if isinstance(value, pa.Scalar):
        # 0.0 and -0.0, or true and 1, are equal in Python but are different constants.
        return (repr(value), value.is_valid)
    return value
