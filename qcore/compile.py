"""Expressions to vector programs: names bound, conversions inserted, constants folded, common parts shared. Floor P2.

The tree is walked once, bottom up. Each distinct part becomes one step of the program, so that what two expressions
have in common is computed once.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from qcore import functions
from qcore.data_types import BOOL, INT64, STRING, common_type, is_temporal, is_text, plain
from qcore.expression import Alias, Call, Case, Cast, Column, Expr, In, Literal, conjuncts
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.compute.program import Program
from qcore_ext.ground.memory import Account
from qcore_ext.ground.status import ExecutionError, PlanError

_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_DISTINCT = ("is_distinct_from", "is_not_distinct_from")
_PATTERNS = ("like", "ilike", "starts_with", "ends_with", "contains")

# Rough cost of a step against that of a SIMD comparison: where a predicate's conjuncts start before any is measured.
_COSTS = {"load": 0, "constant": 0, "like": 20, "ilike": 40, "upper": 20, "lower": 20, "substring": 8, "cast": 2}

# One row, for evaluating constants.
_ONE_ROW = pa.record_batch([pa.array([True])], names=["row"])


def compile_projection(expressions: Sequence[tuple[str, Expr]], schema: pa.Schema) -> Program:
    """Named expressions over columns of `schema` as a program with one result column each.

    Raises
    ------
    PlanError
        A column or function is unknown, or types do not fit; the message names them.

    Examples
    --------
    >>> from qcore.expression import col
    >>> program = compile_projection([("twice", col("a") * 2)], pa.schema([("a", pa.int32())]))
    """
    compiler = _Compiler(schema)
    outputs = [compiler.compile(expr) for _, expr in expressions]
    types = [functions.expr_type(expr, schema) for _, expr in expressions]
    outputs = [compiler.convert(step, type_) for step, type_ in zip(outputs, types, strict=True)]
    fields = [pa.field(name, type_) for (name, _), type_ in zip(expressions, types, strict=True)]
    return compiler.program(pa.schema(fields), outputs)


def compile_predicate(expr: Expr, schema: pa.Schema) -> Program:
    """A condition over columns of `schema` as a program with one boolean result for each of its conjuncts, cheap ones
    first.

    Raises
    ------
    PlanError
        As compile_projection, and when the expression is no condition.
    """
    compiler = _Compiler(schema)
    outputs: dict[int, None] = {}
    for part in conjuncts(expr):
        functions.resolve("and", [functions.expr_type(part, schema)])
        outputs[compiler.convert(compiler.compile(part), BOOL)] = None
    ordered = sorted(outputs, key=compiler.cost)
    return compiler.program(pa.schema([(str(i), BOOL) for i in range(len(ordered))]), ordered)


class _Compiler:
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
            is_text_comparison = name in _COMPARISONS and is_text(self.types[arguments[0]])
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
        small = _Compiler(_ONE_ROW.schema)
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
        for side in (given, wanted):
            if (
                pa.types.is_timestamp(side)
                and side.tz not in (None, "UTC", "Etc/UTC", "+00:00")
                and not _is_instant(given, wanted)
            ):
                raise PlanError(
                    f"cannot cast {given} to {wanted}: only the time zone UTC is known; convert it at the source"
                )
        return self.add("cast", [step], wanted, **{"try": not safe})

    # --- expressions ---

    def compile(self, expr: Expr) -> int:
        if isinstance(expr, Column):
            index = functions.column_index(expr.name, self.schema)
            return self.add("load", [], plain(self.schema.field(index).type), column=index)
        if isinstance(expr, Literal):
            return self.literal(expr)
        if isinstance(expr, Alias):
            return self.compile(expr.argument)
        if isinstance(expr, Cast):
            return self.convert(self.compile(expr.argument), expr.to, expr.safe)
        if isinstance(expr, In):
            return self.membership(expr)
        if isinstance(expr, Case):
            return self.case(expr)
        if isinstance(expr, Call):
            return self.call(expr)
        raise PlanError(f"{expr!r} is no expression")

    def literal(self, expr: Literal) -> int:
        type_ = plain(expr.type)
        try:
            return self.constant(pa.scalar(expr.value, type_))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
            raise PlanError(f"the literal {expr.value!r} is no {type_}: {error}") from None

    def case(self, expr: Case) -> int:
        values = [value for _, value in expr.branches]
        values += [] if expr.otherwise is None else [expr.otherwise]
        steps = self.suited("case", values)
        type_ = common_type([self.types[step] for step in steps])
        steps = [self.convert(step, type_) for step in steps]
        if expr.otherwise is None:
            steps.append(self.null(type_))
        arguments: list[int] = []
        for (condition, _), value in zip(expr.branches, steps[:-1], strict=True):
            test = self.convert(self.compile(condition), BOOL)
            if self.is_constant(test):
                if not self.value(test).as_py():
                    continue
                steps[-1] = value  # always true: nothing behind it counts
                break
            arguments += [test, value]
        return self.add("case", [*arguments, steps[-1]], type_) if arguments else steps[-1]

    def suited(self, name: str, arguments: Sequence[Expr]) -> list[int]:
        """Compiled, with integer literals in the types that suit the other arguments."""
        steps = [self.compile(argument) for argument in arguments]
        suited, _ = functions.suit_literals(name, arguments, [self.types[step] for step in steps])
        return [
            self.compile(new) if new is not old else step
            for new, old, step in zip(suited, arguments, steps, strict=True)
        ]

    def call(self, expr: Call) -> int:
        name = expr.function
        steps = self.suited(name, expr.arguments)
        if name in _COMPARISONS and len(steps) == 2:
            steps = self.comparable(steps)
        signature = functions.resolve(name, [self.types[step] for step in steps])
        if name in _COMPARISONS and any(self.is_constant(step) and not self.value(step).is_valid for step in steps):
            return self.null(BOOL)
        steps = [self.convert(step, type_) for step, type_ in zip(steps, signature.arguments, strict=True)]
        special = getattr(self, f"call_{name}", None)
        if special is not None:
            return int(special(steps, signature.result))
        if name in functions.PARTS:
            return self.part(name, steps[0])
        if name in _PATTERNS:
            return self.pattern(name, steps)
        return self.add(name, steps, signature.result)

    def comparable(self, steps: list[int]) -> list[int]:
        """Both sides of a comparison, with a constant in the other side's type when it has that value exactly."""
        for i in (0, 1):
            if self.is_constant(steps[i]) and not self.is_constant(steps[1 - i]):
                fitted = self.fitted(self.value(steps[i]), self.types[steps[1 - i]])
                if fitted is not None:
                    return [self.constant(fitted) if j == i else steps[j] for j in (0, 1)]
        return steps

    @staticmethod
    def fitted(value: pa.Scalar, type_: pa.DataType) -> pa.Scalar | None:
        """The same number in another numeric type, or None."""
        exact = pa.types.is_integer(value.type) or pa.types.is_decimal(value.type)
        if not value.is_valid or not exact or not (pa.types.is_integer(type_) or pa.types.is_decimal(type_)):
            return None
        number = decimal.Decimal(value.as_py())
        try:
            if pa.types.is_decimal(type_):
                return pa.scalar(number, type_)
            return pa.scalar(int(number), type_) if number == int(number) else None
        except (pa.ArrowInvalid, OverflowError):
            return None

    def membership(self, expr: In) -> int:
        steps = self.suited("in", [expr.argument, *expr.values])
        argument, values = steps[0], steps[1:]
        if not all(map(self.is_constant, values)):
            tests = [self.call(Call("equal", (expr.argument, value))) for value in expr.values]
            return self.any_of(tests)
        given = self.types[argument]
        fitted = [self.fitted(self.value(value), given) for value in values if self.value(value).is_valid]
        has_null = any(not self.value(value).is_valid for value in values)
        if None in fitted:
            given = common_type([self.types[step] for step in steps])
            argument = self.convert(argument, given)
            present = [value for value in values if self.value(value).is_valid]
            converted = [self.convert(value, given) for value in present]
            if not all(map(self.is_constant, converted)):
                return self.any_of([self.call(Call("equal", (expr.argument, value))) for value in expr.values])
            fitted = [self.value(value) for value in converted]
        stored = [_stored(scalar) for scalar in fitted]
        if len(stored) == 1 or any(value is None for value in stored):
            tests = [self.add("equal", [argument, self.constant(scalar)], BOOL) for scalar in fitted]
        elif stored:
            tests = [self.add("in_set", [argument], BOOL, values=stored, label="in")]
        else:
            tests = []
        if has_null:
            # Not among the others: unknown.
            tests.append(self.null(BOOL))
        return self.any_of(tests)

    def any_of(self, tests: list[int]) -> int:
        if not tests:
            return self.constant(pa.scalar(False))
        return tests[0] if len(tests) == 1 else self.add("or", tests, BOOL)

    # --- functions that are more than one step of their own name ---

    def connect(self, name: str, steps: list[int]) -> int:
        """AND or OR without nesting and without constants that decide nothing."""
        deciding = name == "or"
        kept: dict[int, None] = {}
        for step in steps:
            parts = self.steps[step][1] if self.steps[step][0] == name else (step,)
            for part in parts:
                if self.is_constant(part) and self.value(part).as_py() is deciding:
                    return part
                if not (self.is_constant(part) and self.value(part).as_py() is (not deciding)):
                    kept[part] = None
        if not kept:
            return self.constant(pa.scalar(not deciding))
        return next(iter(kept)) if len(kept) == 1 else self.add(name, list(kept), BOOL)

    def call_and(self, steps: list[int], type_: pa.DataType) -> int:
        return self.connect("and", steps)

    def call_or(self, steps: list[int], type_: pa.DataType) -> int:
        return self.connect("or", steps)

    def call_not_like(self, steps: list[int], type_: pa.DataType) -> int:
        return self.add("not", [self.pattern("like", steps)], BOOL)

    def call_not_ilike(self, steps: list[int], type_: pa.DataType) -> int:
        return self.add("not", [self.pattern("ilike", steps)], BOOL)

    def pattern(self, name: str, steps: list[int]) -> int:
        """LIKE and its kin; a constant pattern is compiled into the step."""
        if self.is_constant(steps[1]):
            if not self.value(steps[1]).is_valid:
                return self.null(BOOL)
            return self.add(name, [steps[0]], BOOL, pattern=self.value(steps[1]).as_py().encode())
        return self.add(name, steps, BOOL)

    def call_nullif(self, steps: list[int], type_: pa.DataType) -> int:
        same = self.add("equal", steps, BOOL)
        return self.convert(
            self.add("case", [same, self.null(self.types[steps[0]]), steps[0]], self.types[steps[0]]), type_
        )

    def call_greatest(self, steps: list[int], type_: pa.DataType) -> int:
        return self.extreme("greater_equal", steps, type_)

    def call_least(self, steps: list[int], type_: pa.DataType) -> int:
        return self.extreme("less_equal", steps, type_)

    def extreme(self, comparison: str, steps: list[int], type_: pa.DataType) -> int:
        """The first of `steps` that stands so to all others; nulls are passed over."""
        best = steps[0]
        for step in steps[1:]:
            best_is_null = self.add("is_null", [best], BOOL)
            wins = self.add(comparison, [step, best], BOOL)
            best = self.add("case", [best_is_null, step, wins, step, best], type_)
        return best

    def call_round(self, steps: list[int], type_: pa.DataType) -> int:
        digits = 0
        if len(steps) == 2:
            digits = self.literal_value("round", steps[1], "the number of digits")
            if digits is None:
                return self.null(type_)
        return self.add("round", [steps[0]], type_, digits=digits)

    def literal_value(self, name: str, step: int, what: str) -> Any:
        if not self.is_constant(step):
            raise PlanError(f"{name}: {what} must be a literal")
        return self.value(step).as_py()

    def call_extract(self, steps: list[int], type_: pa.DataType) -> int:
        part = self.literal_value("extract", steps[0], "the part")
        name = _PART_NAMES.get(str(part).lower(), str(part).lower())
        if name not in functions.PARTS:
            raise PlanError(f"extract: unknown part {part!r}; there are {', '.join(functions.PARTS)}")
        return self.part(name, steps[1])

    def part(self, name: str, step: int) -> int:
        type_ = self.types[step]
        self.require_utc(name, type_)
        if pa.types.is_date(type_) and name in ("hour", "minute", "second"):
            step = self.convert(step, pa.timestamp("s"))
        if pa.types.is_time(type_) and name not in ("hour", "minute", "second", "epoch"):
            raise PlanError(f"{name}({type_}) is not defined: a time of day has no date")
        return self.add("part", [step], INT64, part=name, label=name)

    def require_utc(self, name: str, type_: pa.DataType) -> None:
        if pa.types.is_timestamp(type_) and type_.tz not in (None, "UTC", "Etc/UTC", "+00:00"):
            raise PlanError(f"{name}({type_}): only the time zone UTC is known; convert the timestamps at the source")

    def call_date_trunc(self, steps: list[int], type_: pa.DataType) -> int:
        unit = str(self.literal_value("date_trunc", steps[0], "the unit")).lower()
        if unit not in _TRUNC_UNITS:
            raise PlanError(f"date_trunc: unknown unit {unit!r}; there are {', '.join(_TRUNC_UNITS)}")
        self.require_utc("date_trunc", type_)
        return self.add("date_trunc", [steps[1]], type_, unit=unit)

    def call_add(self, steps: list[int], type_: pa.DataType) -> int:
        return self.sum("add", steps, type_)

    def call_subtract(self, steps: list[int], type_: pa.DataType) -> int:
        return self.sum("subtract", steps, type_)

    def sum(self, name: str, steps: list[int], type_: pa.DataType) -> int:
        """+ and -, of dates and intervals too."""
        a, b = (self.types[step] for step in steps)
        if not is_temporal(a) and is_temporal(b):
            steps, a, b = steps[::-1], b, a
        if pa.types.is_date(a) and pa.types.is_date(b):
            return self.add("days_between", steps, type_, label=name)
        if pa.types.is_date(a):
            operation = "shift_days" if pa.types.is_integer(b) else "shift_interval"
            return self.add(operation, steps, type_, sign=-1 if name == "subtract" else 1, label=name)
        if pa.types.is_interval(b):
            operation = "shift_interval" if pa.types.is_timestamp(a) else "interval_add"
            return self.add(operation, steps, type_, sign=-1 if name == "subtract" else 1, label=name)
        return self.add(name, steps, type_)

    def call_multiply(self, steps: list[int], type_: pa.DataType) -> int:
        if pa.types.is_interval(type_):
            steps = steps if pa.types.is_interval(self.types[steps[0]]) else steps[::-1]
            return self.add("interval_multiply", steps, type_, label="multiply")
        return self.add("multiply", steps, type_)

    def call_concat(self, steps: list[int], type_: pa.DataType) -> int:
        return steps[0] if len(steps) == 1 else self.add("concat", steps, STRING)

    def call_coalesce(self, steps: list[int], type_: pa.DataType) -> int:
        steps = [step for step in steps if not (self.is_constant(step) and not self.value(step).is_valid)]
        if not steps:
            return self.null(type_)
        return steps[0] if len(steps) == 1 else self.add("coalesce", steps, type_)


_PART_NAMES = {
    "dow": "day_of_week",
    "dayofweek": "day_of_week",
    "doy": "day_of_year",
    "dayofyear": "day_of_year",
    "years": "year",
    "months": "month",
    "days": "day",
}
_TRUNC_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _is_instant(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Between timestamps of zones: the instant stays, so the zone does not matter."""
    return bool(pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted) and given.tz and wanted.tz)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, pa.Scalar):
        # 0.0 and -0.0, or true and 1, are equal in Python and different constants.
        return (repr(value), value.is_valid)
    return value


_EPOCH = datetime.date(1970, 1, 1)


def _stored(scalar: pa.Scalar) -> int | bytes | None:
    """A constant as the engine stores it, when that is an integer of 64 bits or bytes; else None."""
    type_ = scalar.type
    if pa.types.is_string(type_):
        return str(scalar.as_py()).encode()
    if pa.types.is_binary(type_):
        return bytes(scalar.as_py())
    if pa.types.is_date32(type_):
        return int((scalar.as_py() - _EPOCH).days)
    if pa.types.is_decimal(type_):
        digits = int(scalar.as_py().scaleb(type_.scale, decimal.Context(prec=50)))
        return digits if -(2**63) <= digits < 2**63 else None
    if pa.types.is_integer(type_):
        value = int(scalar.as_py())
        return value if value < 2**63 else None
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_) or pa.types.is_duration(type_):
        return int(scalar.value)
    return None
