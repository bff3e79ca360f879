"""Substrait expressions → Expr."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.tree import Call, Case, Cast, Column, Expr, In, Literal, call, children
from qcore.expression.types import is_text, is_zoned
from qcore.functions.catalogue import expr_type
from qcore.functions.current_moment import MOMENTS, current_moment, moment
from qcore.functions.dialect import QCORE, Dialect
from qcore.functions.operators import is_of_whole_days
from qcore.plan.naming import NodeIds
from qcore.plan.random_column import RANDOM, UUID, add_random_column
from qcore.plan.schema import same_type
from qcore.substrait.dropped import FUNCTION_ARGUMENTS, dropped_fields
from qcore.substrait.functions import scalar_call
from qcore.substrait.lambdas import Scope, check_not_in_lambda, lambda_parameter, read_list_call
from qcore.substrait.literals import read_literal
from qcore.substrait.standard_functions import choose_behaviours, standard_aggregate, standard_call
from qcore.substrait.types import read_type

_RETURN_NULL = 1
_NANOSECONDS = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
_ORDERINGS = frozenset({"less", "less_equal", "greater", "greater_equal"})
_UNITS = ("s", "ms", "us", "ns")
# A time with more than six digits after the point.
_FINER = re.compile(r"\.\d{7}")
_DAY_SECONDS = 86_400
_LENGTHS = frozenset({"length", "char_length", "character_length"})
_ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide"})
_QUOTIENTS = frozenset({"divide", "modulo"})
_INTEGER_ARITHMETIC = _ARITHMETIC | _QUOTIENTS
# The planner's common type of uint64 and signed integers.
_UINT64_DIGITS = pa.decimal128(20, 0)
_COMPARISONS = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_distinct_from", "is_not_distinct_from"}
)


SubqueryReader = Callable[[Any, Scope], Expr]
# Reads a call that the query's frontend wrote: name, arguments and scope.
FrontendCallReader = Callable[[str, tuple[Expr, ...], Scope], Expr]
# The prefix of the names of such functions.
FRONTEND_PREFIX = "$"


class ExpressionReader:
    """Reads expressions of one plan.

    `functions` are names by anchor. `read_subquery` joins a subquery's value as a column. `read_frontend_call` reads a
    call that the query's frontend wrote. `dialect` is the meaning of functions where engines differ. `asked` are the
    decimal types in casts of the query. None: all casts are the query's. Otherwise a cast of a float to another decimal
    type is one of the planner, which compares floats with decimals as decimals, and those cannot hold all floats. With
    `is_standard` names have the meaning of Substrait's standard extensions.
    """

    def __init__(
        self,
        functions: Mapping[int, str],
        read_subquery: SubqueryReader,
        dialect: Dialect = QCORE,
        asked: Collection[pa.DataType] | None = None,
        is_standard: bool = False,
        ids: NodeIds | None = None,
        read_frontend_call: FrontendCallReader | None = None,
    ) -> None:
        self.functions = functions
        self.ids = NodeIds() if ids is None else ids
        self.is_standard = is_standard
        self._read_frontend_call = read_frontend_call
        self.dialect = dialect
        self.asked = asked
        # Values of the window functions of the current projection, by window_key().
        self.windows: Mapping[bytes, Expr] = {}
        self._read_subquery = read_subquery
        self._readers: dict[str, Callable[[Any, Scope], Expr]] = {
            "selection": self._selection,
            "literal": lambda message, scope: read_literal(message),
            "scalar_function": self._scalar_function,
            "cast": self._cast,
            "if_then": self._if_then,
            "switch_expression": self._switch,
            "singular_or_list": self._in,
            "multi_or_list": self._in_rows,
            "subquery": self._read_subquery,
            "nested": self._nested,
            "window_function": self._window_function,
        }

    def read(self, message: Any, scope: Scope) -> Expr:
        """The Expr of a Substrait Expression message."""
        kind = message.WhichOneof("rex_type")
        reader = self._readers.get(kind)
        if reader is None:
            raise PlanError(f"a Substrait expression of kind {kind or 'none'} is not supported yet")
        return reader(getattr(message, kind), scope)

    def field(self, message: Any, scope: Scope) -> Expr:
        """The column of a FieldReference message."""
        return self._selection(message, scope)

    def _selection(self, message: Any, scope: Scope) -> Expr:
        if message.HasField("outer_reference"):
            raise PlanError("a correlated subquery is left in the plan; rewrite it as a join")
        if message.WhichOneof("reference_type") != "direct_reference":
            raise PlanError("masked field references are not supported")
        segment = message.direct_reference
        if message.WhichOneof("root_type") == "expression":
            return self._part(self.read(message.expression, scope), segment, scope)
        if segment.WhichOneof("reference_type") != "struct_field":
            raise PlanError("a field reference must begin with a field of the input")
        position = segment.struct_field.field
        if message.WhichOneof("root_type") == "lambda_parameter_reference":
            value = lambda_parameter(message.lambda_parameter_reference.steps_out, position, scope)
            child = segment.struct_field
            return self._part(value, child.child, scope) if child.HasField("child") else value
        if not 0 <= position < len(scope.columns):
            raise PlanError(f"field {position} is referred to, but the input has {len(scope.columns)} columns")
        column = Column(scope.columns[position])
        return (
            self._part(column, segment.struct_field.child, scope) if segment.struct_field.HasField("child") else column
        )

    def _part(self, value: Expr, segment: Any, scope: Scope) -> Expr:
        """A part of a nested value: a struct's field by position, a list's element by index from 0, a map's value."""
        kind = segment.WhichOneof("reference_type")
        if kind is None:
            return value
        body, type_ = getattr(segment, kind), expr_type(value, scope.schema)
        if kind == "struct_field":
            if not pa.types.is_struct(type_) or not 0 <= body.field < type_.num_fields:
                raise PlanError(f"field {body.field} is referred to within {value!r}, which is {type_}")
            part = call("struct_extract", value, type_.field(body.field).name)
        elif kind == "list_element":
            part = call("list_extract", value, body.offset + 1 if body.offset >= 0 else body.offset)
        else:
            part = Call("struct_extract", (value, read_literal(body.map_key)))
        expr_type(part, scope.schema)
        return self._part(part, body.child, scope) if body.HasField("child") else part

    def _window_function(self, message: Any, scope: Scope) -> Expr:
        """The value that WindowReader computes below the current projection."""
        value = self.windows.get(window_key(message))
        if value is None:
            name = self.function_name(message.function_reference)
            raise PlanError(f"the window function {name} stands outside of a projection")
        return value

    def _nested(self, message: Any, scope: Scope) -> Expr:
        """A struct, list or map constructor."""
        kind = message.WhichOneof("nested_type")
        body = getattr(message, kind or "struct")
        if kind == "struct":
            return Call("row", tuple(self.read(field, scope) for field in body.fields))
        if kind == "list":
            return Call("list_value", tuple(self.read(value, scope) for value in body.values))
        if kind == "map":
            pairs = [(self.read(pair.key, scope), self.read(pair.value, scope)) for pair in body.key_values]
            lists = (Call("list_value", tuple(part)) for part in zip(*pairs, strict=True))
            return Call("map", tuple(lists))
        raise PlanError(f"a nested value of kind {kind or 'none'} is not supported")

    def function_name(self, reference: int) -> str:
        """The name of the function with this anchor, without its signature."""
        name = self.functions.get(reference)
        if name is None:
            raise PlanError(f"function anchor {reference} is not declared in the plan's extensions")
        return name

    def arguments(self, messages: Any, scope: Scope) -> tuple[Expr, ...]:
        """The values of function arguments. Enum arguments become text."""
        result: list[Expr] = []
        for message in messages:
            kind = message.WhichOneof("arg_type")
            if kind == "value":
                result.append(self.read(message.value, scope))
            elif kind == "enum":
                result.append(Literal(message.enum, pa.string()))
            else:
                raise PlanError(f"function arguments of kind {kind} are not supported")
        return tuple(result)

    def aggregate(self, message: Any, scope: Scope) -> tuple[str, tuple[Expr, ...]]:
        """Name and arguments of an AggregateFunction message."""
        name, arguments = self.function_name(message.function_reference), self.arguments(message.arguments, scope)
        if not self.is_standard:
            return name, arguments
        return standard_aggregate(name, arguments, _choices(name, message))

    def _scalar_function(self, message: Any, scope: Scope) -> Expr:
        name = self.function_name(message.function_reference)
        if not message.arguments and dropped_fields(message, FUNCTION_ARGUMENTS):
            raise PlanError(f"the arguments of {name} are written as before Substrait 0.20; use a newer producer")
        if any(argument.value.HasField("lambda") for argument in message.arguments):
            return read_list_call(name, message.arguments, scope, self.read)
        arguments = self.arguments(message.arguments, scope)
        if name in (RANDOM, UUID) and not arguments:
            check_not_in_lambda(name, scope)
            scope.node, column = add_random_column(scope.node, self.ids, name)
            return Column(column)
        if name in MOMENTS and not arguments:
            return current_moment(name, self.ids.began_nanos)
        if name.startswith(FRONTEND_PREFIX) and self._read_frontend_call is not None:
            return self._read_frontend_call(name, arguments, scope)
        if name == "make_array":
            arguments = tuple(_as_float(argument, scope.schema) for argument in arguments)
        if name in _LENGTHS:
            arguments = tuple(_list_of_text(argument, scope.schema) for argument in arguments)
        result = standard_call(name, arguments, _choices(name, message)) if self.is_standard else None
        if result is None:
            result = scalar_call(name, arguments, self.dialect, lambda expr: expr_type(expr, scope.schema))
        if isinstance(result, Call) and result.function in ("add", "subtract"):
            result = _dates_as_timestamps(result, scope.schema)
        if isinstance(result, Call) and result.function in _INTEGER_ARITHMETIC and self.asked is not None:
            result = result if _asks_of_integers(self.asked) else _integer_arithmetic(result, scope.schema)
        if isinstance(result, Call) and (result.function in _ARITHMETIC or result.function in _COMPARISONS):
            return _compare_in_micros(_drop_coercions(result, scope.schema), scope.schema)
        return result

    def _cast(self, message: Any, scope: Scope) -> Expr:
        argument = self.read(message.input, scope)
        to = read_type(message.type)
        if pa.types.is_timestamp(to) and to.unit == "ns" and not _has_nanoseconds(argument, scope.schema):
            to = pa.timestamp("us", to.tz)
        from_type = expr_type(argument, scope.schema)
        if is_zoned(from_type) and pa.types.is_timestamp(to) and to.tz is not None:
            # An instant keeps its time zone, which Substrait's types lack.
            to = pa.timestamp(to.unit, from_type.tz)
        if same_type(from_type, to) or self._is_coercion(from_type, to, message):
            return argument
        if self.asked is not None:
            _check_no_ticks(from_type, to)
        if pa.types.is_time(from_type) and pa.types.is_integer(to) and self.asked is not None:
            # The planner's times of day count nanoseconds.
            argument = Cast(argument, pa.time64("ns"))
        is_fraction = _kind(from_type) != "other"
        if is_fraction and pa.types.is_integer(to) and self.dialect.float_to_integer == "truncate":
            argument = Call("trunc", (argument,))
        return Cast(argument, to, safe=message.failure_behavior != _RETURN_NULL)

    def _is_coercion(self, from_type: pa.DataType, to: pa.DataType, message: Any) -> bool:
        """Whether the planner, not the query, casts a float to a decimal."""
        if self.asked is None or to in self.asked or message.failure_behavior == _RETURN_NULL:
            return False
        return _makes_decimals(from_type, to)

    def _if_then(self, message: Any, scope: Scope) -> Expr:
        clauses = list(message.ifs)
        base: Expr | None = None
        # DataFusion writes `case x when …` with x as a first condition that has no value.
        if clauses and not clauses[0].HasField("then"):
            base = self.read(getattr(clauses.pop(0), "if"), scope)
        branches = []
        for clause in clauses:
            condition = self.read(getattr(clause, "if"), scope)
            if base is not None:
                condition = Call("equal", (base, condition))
            branches.append((condition, self.read(clause.then, scope)))
        return self._case(branches, message, scope)

    def _switch(self, message: Any, scope: Scope) -> Expr:
        value = self.read(message.match, scope)
        branches = [
            (Call("equal", (value, read_literal(getattr(branch, "if")))), self.read(branch.then, scope))
            for branch in message.ifs
        ]
        return self._case(branches, message, scope)

    def _case(self, branches: list[Any], message: Any, scope: Scope) -> Expr:
        otherwise = self.read(getattr(message, "else"), scope) if message.HasField("else") else None
        if isinstance(otherwise, Literal) and otherwise.value is None:
            otherwise = None
        return Case(tuple(branches), otherwise)

    def _in(self, message: Any, scope: Scope) -> Expr:
        value = self.read(message.value, scope)
        value = _drop_time_cast(value, scope.schema)
        options = tuple(self.read(option, scope) for option in message.options)
        if all(isinstance(option, Literal) for option in options):
            return In(value, options)
        return Call("or", tuple(Call("equal", (value, option)) for option in options))

    def _in_rows(self, message: Any, scope: Scope) -> Expr:
        """Whether several values are equal, in pairs, to those of one of the options."""
        values = [self.read(value, scope) for value in message.value]
        rows = [[self.read(part, scope) for part in option.fields] for option in message.options]
        if not values or any(len(row) != len(values) for row in rows):
            raise PlanError(f"a list of rows must have rows of as many values as are looked for, {len(values)}")
        if not rows:
            return Literal(False, pa.bool_())
        found = [Call("and", tuple(Call("equal", pair) for pair in zip(values, row, strict=True))) for row in rows]
        return found[0] if len(found) == 1 else Call("or", tuple(found))


def window_key(message: Any) -> bytes:
    """A key that identifies a window function of a projection."""
    return bytes(message.SerializeToString(deterministic=True))


def _check_no_ticks(from_type: pa.DataType, to: pa.DataType) -> None:
    """PlanError for casts between numbers and times, because engines differ in the unit."""
    if pa.types.is_integer(from_type) and (pa.types.is_timestamp(to) or pa.types.is_time(to)):
        raise PlanError("an integer is not cast to a time; write to_timestamp(seconds) or to_timestamp_millis(x)")
    if pa.types.is_timestamp(from_type) and pa.types.is_integer(to):
        raise PlanError("a timestamp is not cast to an integer; write epoch(x), epoch_ms(x) or epoch_us(x)")


def _choices(name: str, message: Any) -> dict[str, str]:
    return choose_behaviours(name, [(option.name, option.preference) for option in message.options])


def _list_of_text(argument: Expr, schema: pa.Schema) -> Expr:
    """A list without the planner's cast to text."""
    if isinstance(argument, Cast) and pa.types.is_nested(expr_type(argument.argument, schema)):
        return argument.argument
    return argument


def _as_float(argument: Expr, schema: pa.Schema) -> Expr:
    """A float that the planner has cast to a decimal, because of other arguments, without the cast."""
    if not isinstance(argument, Cast) or not pa.types.is_decimal(argument.to):
        return argument
    return argument.argument if pa.types.is_floating(expr_type(argument.argument, schema)) else argument


def _drop_coercions(operation: Call, schema: pa.Schema) -> Call:
    """Arithmetic or a comparison without the casts that the planner's types require.

    qcore.functions.catalogue converts arguments, to narrower decimals. A cast is dropped if the value, and the kind of
    arithmetic (decimal or float), are the same without it.
    """
    bare = tuple(_drop_lossless_cast(argument, schema) for argument in operation.arguments)
    if all(a is b for a, b in zip(bare, operation.arguments, strict=True)):
        return operation
    kinds = [_kind(expr_type(argument, schema)) for argument in bare]
    if operation.function in _ARITHMETIC and "float" not in kinds and "decimal" not in kinds:
        return operation
    return Call(operation.function, bare)


def _asks_of_integers(asked: Collection[pa.DataType]) -> bool:
    """Whether the query itself may cast integers to decimals."""
    return any(type_.scale == 0 for type_ in asked)


def _integer_arithmetic(operation: Call, schema: pa.Schema) -> Call:
    """Arithmetic of uint64 and signed integers without the planner's casts to decimals. Constants become uint64, as in
    DuckDB.
    """
    bare = [_integer_in_decimal(argument, schema) for argument in operation.arguments]
    types = [expr_type(argument, schema) for argument in bare]
    if not all(map(pa.types.is_integer, types)) or pa.uint64() not in types:
        return operation
    sides = [
        Literal(side.value, pa.uint64()) if isinstance(side, Literal) and (side.value or 0) >= 0 else side
        for side in bare
    ]
    is_uint64 = all(expr_type(side, schema) == pa.uint64() for side in sides)
    # Sums and products of uint64 and a signed type stay decimals, which have enough digits.
    return Call(operation.function, tuple(sides)) if is_uint64 or operation.function in _QUOTIENTS else operation


def _integer_in_decimal(argument: Expr, schema: pa.Schema) -> Expr:
    """An integer that the planner has cast to decimal(20, 0), without the cast. Others are returned unchanged."""
    if isinstance(argument, Literal) and pa.types.is_decimal(argument.type) and argument.type.scale == 0:
        return Literal(None if argument.value is None else int(argument.value), pa.int64())
    if isinstance(argument, Cast) and argument.safe and argument.to == _UINT64_DIGITS:
        return argument.argument if pa.types.is_integer(expr_type(argument.argument, schema)) else argument
    return argument


def _compare_in_micros(comparison: Call, schema: pa.Schema) -> Call:
    """A comparison of a date or time without nanoseconds with a constant that has nanoseconds, such as now(): the
    constant is rounded to microseconds, because years after 2262 have no nanoseconds.
    """
    for position, argument in enumerate(comparison.arguments):
        if not isinstance(argument, Literal) or not isinstance(argument.value, int):
            continue
        other = expr_type(comparison.arguments[1 - position], schema)
        is_fine = pa.types.is_timestamp(other) and other.unit == "ns"
        if argument.type not in _NANOSECONDS or is_fine or comparison.function not in _ORDERINGS:
            continue
        # A number of whole microseconds is below the constant if it is below the constant rounded up.
        up = (comparison.function in ("less", "greater_equal")) == (position == 1)
        micros = -(-argument.value // 1000) if up else argument.value // 1000
        constant = moment(micros, pa.timestamp("us", argument.type.tz))
        arguments = (comparison.arguments[0], constant) if position == 1 else (constant, comparison.arguments[1])
        return Call(comparison.function, arguments)
    return comparison


def _dates_as_timestamps(operation: Call, schema: pa.Schema) -> Call:
    """A sum of a date and an interval that may have hours or smaller parts: the date becomes a timestamp."""
    spans = [part for part in operation.arguments if pa.types.is_interval(expr_type(part, schema))]
    if all(_is_of_days_as_seconds(span) or is_of_whole_days(span) for span in spans):
        return operation
    return Call(
        operation.function,
        tuple(
            Cast(argument, pa.timestamp("us")) if pa.types.is_date(expr_type(argument, schema)) else argument
            for argument in operation.arguments
        ),
    )


def _is_of_days_as_seconds(duration: Expr) -> bool:
    """Whether the planner has made the duration from an integer that is added to a date."""
    if not isinstance(duration, Cast):
        return False
    while isinstance(duration, Cast):
        duration = duration.argument
    is_product = isinstance(duration, Call) and duration.function == "multiply"
    return is_product and any(isinstance(part, Literal) and part.value == _DAY_SECONDS for part in children(duration))


def _makes_decimals(from_type: pa.DataType, to: pa.DataType) -> bool:
    """Whether a cast converts floats to decimals, also as parts of a struct."""
    if pa.types.is_struct(from_type) and pa.types.is_struct(to) and from_type.num_fields == to.num_fields:
        return any(_makes_decimals(one.type, other.type) for one, other in zip(from_type, to, strict=True))
    return bool(pa.types.is_floating(from_type) and pa.types.is_decimal(to))


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return "decimal"
    return "float" if pa.types.is_floating(type_) else "other"


def _has_nanoseconds(argument: Expr, schema: pa.Schema) -> bool:
    """Whether a value that the planner casts to a timestamp has nanoseconds. The planner's timestamps always have them,
    so that they only cover the years 1677 to 2262.
    """
    if isinstance(argument, Literal):
        return _FINER.search(str(argument.value)) is not None
    type_ = expr_type(argument, schema)
    return not (pa.types.is_date(type_) or is_text(type_) or (pa.types.is_timestamp(type_) and type_.unit != "ns"))


def _drop_time_cast(argument: Expr, schema: pa.Schema) -> Expr:
    """The argument without a cast of a timestamp to a finer unit."""
    if not isinstance(argument, Cast) or not pa.types.is_timestamp(argument.to) or argument.to.tz is not None:
        return argument
    from_type = expr_type(argument.argument, schema)
    if not pa.types.is_timestamp(from_type) or from_type.tz is not None:
        return argument
    return argument.argument if _UNITS.index(from_type.unit) <= _UNITS.index(argument.to.unit) else argument


def _drop_lossless_cast(argument: Expr, schema: pa.Schema) -> Expr:
    """The argument without a lossless cast to decimal, or of a timestamp to a finer unit."""
    argument = _drop_time_cast(argument, schema)
    if not isinstance(argument, Cast) or not argument.safe or not pa.types.is_decimal(argument.to):
        return argument
    from_type = expr_type(argument.argument, schema)
    lossless = pa.types.is_integer(from_type) or (
        pa.types.is_decimal(from_type) and from_type.scale <= argument.to.scale
    )
    return argument.argument if lossless else argument
