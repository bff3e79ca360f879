"""Expressions to vector programs: names bound, conversions inserted, constants folded, common parts shared.

The tree is walked once, bottom up. Each distinct part becomes one step of the program, so that what two expressions
have in common is computed once.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import PlanError, SchemaChangeError
from qcore.expression.tree import Alias, Call, Case, Cast, Column, Expr, In, Literal, bounded_depth, conjuncts
from qcore.expression.types import BOOL, INT64, STRING, common_type, plain
from qcore.functions import catalogue as functions
from qcore.functions.nested import ARROW_CALLS
from qcore.lowering.compile_nested import NestedSteps
from qcore.lowering.compile_steps import COMPARISONS
from qcore.lowering.list_lambdas import list_kernel
from qcore.plan import nodes as p
from qcore.plan.schema import element_type, same_type, unnest_schema
from qcore_ext.compute.program import Program
from qcore_ext.data.schema import Schema

_PATTERNS = ("like", "ilike", "starts_with", "ends_with", "contains")


def compile_projection(expressions: Sequence[tuple[str, Expr]], schema: pa.Schema) -> Program:
    """Named expressions over columns of `schema` as a program with one result column each.

    Raises
    ------
    PlanError
        A column or function is unknown, or types do not fit; the message names them.

    Examples
    --------
    >>> from qcore.expression.tree import col
    >>> program = compile_projection([("twice", col("a") * 2)], pa.schema([("a", pa.int32())]))
    """
    compiler = _Compiler(schema)
    with bounded_depth():
        outputs = [compiler.compile(expr) for _, expr in expressions]
    types = [functions.expr_type(expr, schema) for _, expr in expressions]
    outputs = [compiler.made(compiler.convert(step, type_)) for step, type_ in zip(outputs, types, strict=True)]
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
    with bounded_depth():
        for part in conjuncts(expr):
            functions.resolve("and", [functions.expr_type(part, schema)])
            outputs[compiler.convert(compiler.compile(part), BOOL)] = None
    ordered = sorted(outputs, key=compiler.cost)
    return compiler.program(pa.schema([(str(i), BOOL) for i in range(len(ordered))]), ordered)


class _Compiler(NestedSteps):
    """Compiles expressions to steps."""

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
        if expr.value is None:
            return self.null(type_)
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
        if not arguments:
            return steps[-1]
        if pa.types.is_nested(type_):
            return self.nested_case([*arguments, steps[-1]], type_)
        return self.add("case", [*arguments, steps[-1]], type_)

    def suited(self, name: str, arguments: Sequence[Expr]) -> list[int]:
        """Compiled, with integer literals in the types that suit the other arguments."""
        steps = [self.compile(argument) for argument in arguments]
        suited, _ = functions.suit_literals(name, arguments, [self.types[step] for step in steps])
        return [
            self.compile(new) if new is not old else step
            for new, old, step in zip(suited, arguments, steps, strict=True)
        ]

    def call(self, expr: Call) -> int:
        expr = functions.canonical(expr)
        name = expr.function
        if name in functions.LIST_LAMBDAS:
            return self.over_elements(expr)
        steps = self.suited(name, expr.arguments)
        if name in COMPARISONS and len(steps) == 2:
            steps = self.comparable(steps)
        signature = functions.resolve(name, [self.types[step] for step in steps], expr.arguments)
        if name in COMPARISONS and pa.types.is_null(signature.arguments[0]):
            return self.null(BOOL)
        if name in COMPARISONS and any(self.is_constant(step) and not self.value(step).is_valid for step in steps):
            return self.null(BOOL)
        steps = [self.convert(step, type_) for step, type_ in zip(steps, signature.arguments, strict=True)]
        nested = self.nested_call(name, steps, signature.result)
        if nested is not None:
            return nested
        special = getattr(self, f"call_{name}", None)
        if special is not None:
            return int(special(steps, signature.result))
        if name in functions.PARTS:
            return self.part(name, steps[0])
        if name in _PATTERNS:
            return self.pattern(name, steps)
        if name in ARROW_CALLS:
            return self.arrow(name, steps, signature.result, takes_null=ARROW_CALLS[name].takes_null)
        return self.add(name, steps, signature.result)

    def over_elements(self, expr: Call) -> int:
        """A call of a lambda, whose body is a program of its own, for the elements of lists."""
        lists, function, *values = expr.arguments
        steps = [self.compile(argument) for argument in (lists, *values)]
        types = [self.types[step] for step in steps]
        known = functions.list_call(expr.function, [types[0], pa.null(), *types[1:]], function)
        if self.is_constant(steps[0]) and not self.value(steps[0]).is_valid:
            return self.null(known.result)
        kernel = list_kernel(
            expr.function, compile_projection([("value", known.body)], known.parameters), known.parameters
        )
        if all(map(self.is_constant, steps)):
            folded = self.folded_arrow(expr.function, kernel, [self.value(step) for step in steps], known.result)
            if folded is not None:
                return folded
        constants = [self.value(step) if self.is_constant(step) else None for step in steps]
        return self.called(expr.function, kernel, steps, constants, known.result)

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
            tests = [self.compared("equal", [argument, self.constant(scalar)]) for scalar in fitted]
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
        if not all(map(self.is_constant, steps[1:])):
            return self.add(name, steps, BOOL) if len(steps) == 2 else self.arrow(f"{name}_escape", steps, BOOL)
        if not all(self.value(step).is_valid for step in steps[1:]):
            return self.null(BOOL)
        pattern, *escape = (self.value(step).as_py() for step in steps[1:])
        if escape and len(escape[0]) > 1:
            raise PlanError(f"{name}: the escape is one character, not {escape[0]!r}")
        return self.add(name, [steps[0]], BOOL, pattern=pattern, escape=escape[0] if escape else "")

    def call_nullif(self, steps: list[int], type_: pa.DataType) -> int:
        same = self.compared("equal", steps)
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
            wins = self.compared(comparison, [step, best])
            best = self.add("case", [best_is_null, step, wins, step, best], type_)
        return best

    def call_round(self, steps: list[int], type_: pa.DataType) -> int:
        if len(steps) == 1:
            return self.add("round", steps, type_, digits=0)
        if not self.is_constant(steps[1]):
            return self.add("round_by", steps, type_, label="round")
        digits = self.value(steps[1]).as_py()
        return self.null(type_) if digits is None else self.add("round", [steps[0]], type_, digits=digits)

    def call_divide(self, steps: list[int], type_: pa.DataType) -> int:
        """Of uint64 and a signed integer, the quotient of their magnitudes with its sign."""
        if not pa.types.is_decimal(type_):
            return self.add("divide", steps, type_)
        wide = [self.convert(step, type_) for step in steps]
        magnitudes = [self.convert(self.add("abs", [step], type_), pa.uint64()) for step in wide]
        quotient = self.convert(self.add("divide", magnitudes, pa.uint64()), type_)
        zero = self.constant(pa.scalar(0, type_))
        signs = [self.add("less", [step, zero], BOOL) for step in wide]
        differ = self.add("not_equal", signs, BOOL)
        return self.add("case", [differ, self.add("negate", [quotient], type_), quotient], type_)

    def call_bit_length(self, steps: list[int], type_: pa.DataType) -> int:
        return self.add("multiply", [self.add("octet_length", steps, INT64), self.constant(pa.scalar(8))], INT64)

    def call_concat(self, steps: list[int], type_: pa.DataType) -> int:
        return steps[0] if len(steps) == 1 else self.add("concat", steps, STRING)

    def call_coalesce(self, steps: list[int], type_: pa.DataType) -> int:
        steps = [step for step in steps if not (self.is_constant(step) and not self.value(step).is_valid)]
        if not steps:
            return self.null(type_)
        return steps[0] if len(steps) == 1 else self.add("coalesce", steps, type_)


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


def compile_unnest(node: p.Unnest, schema: pa.Schema) -> tuple[Schema, list[int], list[int]]:
    """What the Unnest operator wants to know of an input of this schema."""
    names = dict(node.lists)
    for name, of in names.items():
        wanted, found = node.schema.field(of).type, element_type(schema.field(name).type)
        if found is None or not same_type(wanted, found):
            raise SchemaChangeError(f"column {name!r} was a list of {wanted} and is {schema.field(name).type} now")
    ordered = pa.schema([schema.field(name) for name in node.child.schema.names])
    origins = [-1 - list(names).index(name) if name in names else schema.names.index(name) for name in ordered.names]
    if node.ordinality is not None:
        origins.append(-1 - len(names))
    positions = [schema.names.index(name) for name in names]
    return Schema(unnest_schema(ordered, node.lists, node.ordinality)), positions, origins
