"""Compiles expressions to vector programs: binds names, inserts conversions, folds constants and shares equal parts.

The tree is walked once, bottom up. Each distinct part becomes one step of the program, so a part that two expressions
have in common is computed once. Functions that need more than a step of their name are in the tables of scalar_calls
and temporal_calls.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError, SchemaChangeError
from qcore.expression.recursion import bounded_depth
from qcore.expression.scalars import scalar_of
from qcore.expression.tree import Alias, Call, Case, Cast, Column, Expr, In, Literal, conjuncts
from qcore.expression.types import BOOL, DATE, UUID, common_type, is_text, plain
from qcore.functions import catalogue as functions
from qcore.functions.nested import ARROW_CALLS
from qcore.lowering.list_lambdas import list_kernel
from qcore.lowering.nested_calls import compare, nested_call, nested_case
from qcore.lowering.program_builder import COMPARISONS, ProgramBuilder
from qcore.lowering.scalar_calls import SCALAR_CALLS
from qcore.lowering.temporal_calls import TEMPORAL_CALLS
from qcore.plan import nodes as p
from qcore.plan.schema import element_type, unnest_schema
from qcore_ext.compute.program import Program
from qcore_ext.data.schema import Schema

_CALLS = {**SCALAR_CALLS, **TEMPORAL_CALLS}
_EPOCH = datetime.date(1970, 1, 1)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


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
    program = ProgramBuilder(schema)
    with bounded_depth():
        outputs = [_compile(program, expr) for _, expr in expressions]
        types = [functions.expr_type(expr, schema) for _, expr in expressions]
    outputs = [program.as_column(program.convert(step, type_)) for step, type_ in zip(outputs, types, strict=True)]
    fields = [pa.field(name, type_) for (name, _), type_ in zip(expressions, types, strict=True)]
    return program.build(pa.schema(fields), outputs)


def compile_predicate(expr: Expr, schema: pa.Schema) -> Program:
    """A condition over columns of `schema` as a program with one boolean result for each conjunct, the cheapest first.

    Raises
    ------
    PlanError
        As compile_projection, and when the expression is not boolean.
    """
    program = ProgramBuilder(schema)
    outputs: dict[int, None] = {}
    with bounded_depth():
        for part in conjuncts(expr):
            functions.resolve("and", [functions.expr_type(part, schema)])
            outputs[program.convert(_compile(program, part), BOOL)] = None
    ordered = sorted(outputs, key=program.cost)
    return program.build(pa.schema([(str(i), BOOL) for i in range(len(ordered))]), ordered)


def constant_value(expr: Expr, type_: pa.DataType) -> Literal | None:
    """Value of an expression without columns, of type `type_`, as the engine computes it.

    None if the computation may take long, if no Python literal has the value, or if the computation fails. A query then
    fails only if a row needs the value.
    """
    if pa.types.is_nested(type_):
        return None
    if isinstance(expr, Cast) and isinstance(expr.argument, Literal) and (date := _date_of(expr.argument, type_)):
        return Literal(date, type_)
    program = ProgramBuilder(_NO_COLUMNS, while_planning=True)
    try:
        step = program.convert(_compile(program, expr), type_)
        if not program.is_constant(step):
            return None
        scalar = program.value(step)
        literal = Literal(scalar.as_py(), type_)
        again = scalar_of(literal.value, plain(type_))
    except (PlanError, ExecutionError, pa.ArrowException, ValueError, OverflowError):
        return None
    return literal if again.equals(scalar) else None


_NO_COLUMNS = pa.schema([])


def _date_of(literal: Literal, type_: pa.DataType) -> datetime.date | None:
    """The date of a text such as '1994-01-01'. The kernel, which takes far longer, reads other texts."""
    if type_ != DATE or not is_text(literal.type) or literal.value is None or not _ISO_DATE.fullmatch(literal.value):
        return None
    try:
        return datetime.date.fromisoformat(literal.value)
    except ValueError:
        return None


def _compile(program: ProgramBuilder, expr: Expr) -> int:
    """Add the steps of an expression; the last one has its value."""
    if isinstance(expr, Column):
        index = functions.column_index(expr.name, program.schema)
        return program.add("load", [], plain(program.schema.field(index).type), column=index)
    if isinstance(expr, Literal):
        return _literal(program, expr)
    if isinstance(expr, Alias):
        return _compile(program, expr.argument)
    if isinstance(expr, Cast):
        return program.convert(_compile(program, expr.argument), expr.to, expr.safe)
    if isinstance(expr, In):
        return _in(program, expr)
    if isinstance(expr, Case):
        return _case(program, expr)
    if isinstance(expr, Call):
        return _call(program, expr)
    raise PlanError(f"{expr!r} is not an expression")


def _literal(program: ProgramBuilder, expr: Literal) -> int:
    type_ = plain(expr.type)
    if expr.value is None:
        return program.null(type_)
    try:
        return program.constant(scalar_of(expr.value, type_))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
        raise PlanError(f"the literal {expr.value!r} is not of type {type_}: {error}") from None


def _case(program: ProgramBuilder, expr: Case) -> int:
    values = [value for _, value in expr.branches]
    values += [] if expr.otherwise is None else [expr.otherwise]
    steps = _compile_arguments(program, "case", values)
    type_ = common_type([program.types[step] for step in steps])
    steps = [program.convert(step, type_) for step in steps]
    if expr.otherwise is None:
        steps.append(program.null(type_))
    arguments: list[int] = []
    for (condition, _), value in zip(expr.branches, steps[:-1], strict=True):
        test = program.convert(_compile(program, condition), BOOL)
        if program.is_constant(test):
            if not program.value(test).as_py():
                continue
            # Always true: later branches are never reached.
            steps[-1] = value
            break
        arguments += [test, value]
    if not arguments:
        return steps[-1]
    if pa.types.is_nested(type_):
        return nested_case(program, [*arguments, steps[-1]], type_)
    return program.add("case", [*arguments, steps[-1]], type_)


def _compile_arguments(program: ProgramBuilder, name: str, arguments: Sequence[Expr]) -> list[int]:
    """The arguments of a function. Integer literals get the types that suit the other arguments."""
    steps = [_compile(program, argument) for argument in arguments]
    suited, _ = functions.suit_literals(name, arguments, [program.types[step] for step in steps])
    return [
        _compile(program, new) if new is not old else step
        for new, old, step in zip(suited, arguments, steps, strict=True)
    ]


def _call(program: ProgramBuilder, expr: Call) -> int:
    expr = functions.canonical(expr)
    name = expr.function
    if name in functions.LIST_LAMBDAS:
        return _lambda_call(program, expr)
    steps = _compile_arguments(program, name, expr.arguments)
    if name in COMPARISONS and len(steps) == 2:
        steps = _convert_constant_side(program, steps)
    signature = functions.resolve(name, [program.types[step] for step in steps], expr.arguments)
    if name in COMPARISONS and (pa.types.is_null(signature.arguments[0]) or any(map(program.is_null, steps))):
        return program.null(BOOL)
    steps = [program.convert(step, type_) for step, type_ in zip(steps, signature.arguments, strict=True)]
    nested = nested_call(program, name, steps, signature.result)
    if nested is not None:
        return nested
    if name in _CALLS:
        return _CALLS[name](program, steps, signature.result)
    if name in ARROW_CALLS:
        return program.arrow_call(name, steps, signature.result, takes_null=ARROW_CALLS[name].takes_null)
    return program.add(name, steps, signature.result)


def _lambda_call(program: ProgramBuilder, expr: Call) -> int:
    """A call with a lambda over the elements of lists. The lambda's body is a separate program."""
    lists, function, *values = expr.arguments
    steps = [_compile(program, argument) for argument in (lists, *values)]
    types = [program.types[step] for step in steps]
    resolved = functions.list_call(expr.function, [types[0], pa.null(), *types[1:]], function)
    if program.is_null(steps[0]):
        return program.null(resolved.result)
    body = compile_projection([("value", resolved.body)], resolved.parameters)
    kernel = list_kernel(expr.function, body, resolved.parameters)
    return program.new_arrow_call(expr.function, kernel, steps, resolved.result)


def _convert_constant_side(program: ProgramBuilder, steps: list[int]) -> list[int]:
    """Both sides of a comparison. A constant gets the other side's type if that holds its exact value."""
    for i in (0, 1):
        if program.is_constant(steps[i]) and not program.is_constant(steps[1 - i]):
            exact = _convert_exactly(program.value(steps[i]), program.types[steps[1 - i]])
            if exact is not None:
                return [program.constant(exact) if j == i else steps[j] for j in (0, 1)]
    return steps


def _convert_exactly(value: pa.Scalar, type_: pa.DataType) -> pa.Scalar | None:
    """The same number in another numeric type, or None."""
    exact = pa.types.is_integer(value.type) or pa.types.is_decimal(value.type)
    if not value.is_valid or not exact or not (pa.types.is_integer(type_) or pa.types.is_decimal(type_)):
        return None
    number = decimal.Decimal(value.as_py())
    try:
        if pa.types.is_decimal(type_):
            return scalar_of(number, type_)
        return scalar_of(int(number), type_) if number == int(number) else None
    except (pa.ArrowInvalid, OverflowError):
        return None


def _in(program: ProgramBuilder, expr: In) -> int:
    """IN of a list: a step with a set of values if all are constants, else comparisons."""
    argument, *values = _compile_arguments(program, "in", [expr.argument, *expr.values])
    if not all(map(program.is_constant, values)):
        return _equals_any(program, expr)
    present = [value for value in values if not program.is_null(value)]
    constants = [_convert_exactly(program.value(value), program.types[argument]) for value in present]
    if None in constants:
        common = common_type([program.types[step] for step in (argument, *values)])
        argument = program.convert(argument, common)
        converted = [program.convert(value, common) for value in present]
        if not all(map(program.is_constant, converted)):
            return _equals_any(program, expr)
        constants = [program.value(value) for value in converted]
    stored = [_stored_value(scalar) for scalar in constants]
    tests = []
    if len(stored) == 1 or None in stored:
        tests = [compare(program, "equal", [argument, program.constant(scalar)]) for scalar in constants]
    elif stored:
        tests = [program.add("in_set", [argument], BOOL, values=stored, label="in")]
    if len(present) < len(values):
        # If no other value is equal, a null in the list makes the result unknown.
        tests.append(program.null(BOOL))
    return _any_of(program, tests)


def _equals_any(program: ProgramBuilder, expr: In) -> int:
    return _any_of(program, [_call(program, Call("equal", (expr.argument, value))) for value in expr.values])


def _any_of(program: ProgramBuilder, tests: list[int]) -> int:
    if not tests:
        return program.constant(scalar_of(False))
    return tests[0] if len(tests) == 1 else program.add("or", tests, BOOL)


def _stored_value(scalar: pa.Scalar) -> int | bytes | None:
    """A constant as the engine stores it, if that is an integer of 64 bits or bytes; else None."""
    type_ = scalar.type
    if pa.types.is_string(type_):
        return str(scalar.as_py()).encode()
    if pa.types.is_binary(type_):
        return bytes(scalar.as_py())
    if type_ == UUID:
        return bytes(scalar.as_py().bytes)
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
    """The arguments of the Unnest operator for an input schema: the output schema, for each output column its input
    column (or -1 - i for the elements of list i), and the positions of the lists.
    """
    names = dict(node.lists)
    for name, of in names.items():
        if element_type(schema.field(name).type) is None:
            wanted = node.schema.field(of).type
            raise SchemaChangeError(f"column {name!r} was a list of {wanted} and is {schema.field(name).type} now")
    ordered = pa.schema([schema.field(name) for name in node.child.schema.names])
    origins = [-1 - list(names).index(name) if name in names else schema.names.index(name) for name in ordered.names]
    if node.ordinality is not None:
        origins.append(-1 - len(names))
    positions = [schema.names.index(name) for name in names]
    return Schema(unnest_schema(ordered, node.lists, node.ordinality)), positions, origins
