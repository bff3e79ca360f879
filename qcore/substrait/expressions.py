"""Translation of Substrait expressions to bound expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Column, Literal
from qcore.expression.types import STRING, UUID
from qcore.functions.calls import VOLATILE, bind_call, is_moment, is_volatile, moment_name
from qcore.functions.casts import bind_case, bind_cast, bind_in
from qcore.functions.current_moment import current_moment
from qcore.functions.lambdas import LAMBDA_CALLS, bind_lambda
from qcore.functions.typed import cast, constant, derive, engine_call
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.random_column import add_random_column
from qcore.substrait.dropped import FUNCTION_ARGUMENTS, dropped_fields
from qcore.substrait.functions import bind_function
from qcore.substrait.literals import read_literal
from qcore.substrait.scope import FieldScope, OpenSubquery
from qcore.substrait.standard_functions import choose_behaviours, standard_aggregate
from qcore.substrait.types import read_type

# Values of enums.
_RETURN_NULL = 1
DISTINCT = 2

SubqueryReader = Callable[[Any, FieldScope], Bound]


class WindowValues(Protocol):
    """Computes the window functions of a projection below it."""

    def read(self, message: Any, partitions: Any, sorts: Any) -> Bound:
        """The value of a window function over these partitions and this order."""


class ExpressionReader:
    """Reads expressions of one plan.

    `functions` are names by anchor. With `is_standard` they have the meaning of Substrait's standard extensions.
    `read_subquery` joins a subquery's value as a column.
    """

    def __init__(
        self,
        functions: Mapping[int, str],
        read_subquery: SubqueryReader,
        is_standard: bool,
        ids: NodeIds,
        names: ColumnNames,
    ) -> None:
        self.functions = functions
        self.is_standard = is_standard
        self.ids = ids
        self.names = names
        #: The subqueries around the expressions that are read, the outermost first.
        self.subqueries: list[OpenSubquery] = []
        #: The object that computes the window functions of the current projection; None: they are not allowed here.
        self.windows: WindowValues | None = None
        self._readers: dict[str, Callable[[Any, FieldScope], Bound]] = {
            "selection": self.field,
            "literal": lambda message, scope: _bound(read_literal(message)),
            "scalar_function": self._scalar_function,
            "cast": self._cast,
            "if_then": self._if_then,
            "switch_expression": self._switch,
            "singular_or_list": self._in,
            "multi_or_list": self._in_rows,
            "subquery": read_subquery,
            "nested": self._read_nested,
            "window_function": self._window_function,
        }

    def read(self, message: Any, scope: FieldScope) -> Bound:
        """The value of a Substrait Expression message."""
        kind = message.WhichOneof("rex_type")
        reader = self._readers.get(kind)
        if reader is None:
            raise PlanError(f"a Substrait expression of kind {kind or 'none'} is not supported yet")
        return reader(getattr(message, kind), scope)

    def field(self, message: Any, scope: FieldScope) -> Bound:
        """The value of a FieldReference message."""
        if message.WhichOneof("reference_type") != "direct_reference":
            raise PlanError("masked field references are not supported")
        segment, root = message.direct_reference, message.WhichOneof("root_type")
        if root == "expression":
            return self._part(self.read(message.expression, scope), segment)
        if segment.WhichOneof("reference_type") != "struct_field":
            raise PlanError("a field reference must begin with a field of the input")
        position = segment.struct_field.field
        if root == "lambda_parameter_reference":
            value = scope.parameter(message.lambda_parameter_reference.steps_out, position)
        elif root == "outer_reference":
            value = self._outer(message.outer_reference.steps_out, position)
        else:
            value = scope.column(position)
        return self._part(value, segment.struct_field.child) if segment.struct_field.HasField("child") else value

    def _outer(self, steps_out: int, position: int) -> Bound:
        if not 1 <= steps_out <= len(self.subqueries):
            raise PlanError(f"a field {steps_out} queries out is referred to inside {len(self.subqueries)} subqueries")
        return self.subqueries[-steps_out].outer(position, self.names)

    def _part(self, value: Bound, segment: Any) -> Bound:
        """A part of a nested value: a struct's field by position, a list's element by index from 0, a map's value."""
        kind = segment.WhichOneof("reference_type")
        if kind is None:
            return value
        body = getattr(segment, kind)
        if kind == "struct_field":
            if not pa.types.is_struct(value.type) or not 0 <= body.field < value.type.num_fields:
                raise PlanError(f"field {body.field} is referred to within {value.expr!r}, which is {value.type}")
            part = engine_call("struct_extract", value, constant(value.type.field(body.field).name))
        elif kind == "list_element":
            part = engine_call("list_extract", value, constant(body.offset + 1 if body.offset >= 0 else body.offset))
        else:
            part = engine_call("struct_extract", value, _bound(read_literal(body.map_key)))
        return self._part(part, body.child) if body.HasField("child") else part

    def _window_function(self, message: Any, scope: FieldScope) -> Bound:
        if self.windows is None or scope.parameters:
            name = self.function_name(message.function_reference)
            raise PlanError(f"the window function {name} is outside a projection")
        return self.windows.read(message, message.partitions, message.sorts)

    def _read_nested(self, message: Any, scope: FieldScope) -> Bound:
        """A struct, list or map constructor."""
        kind = message.WhichOneof("nested_type")
        body = getattr(message, kind or "struct")
        if kind == "struct":
            return engine_call("row", *(self.read(field, scope) for field in body.fields))
        if kind == "list":
            return engine_call("list_value", *(self.read(value, scope) for value in body.values))
        if kind == "map":
            pairs = [(self.read(pair.key, scope), self.read(pair.value, scope)) for pair in body.key_values]
            return engine_call("map", *(engine_call("list_value", *part) for part in zip(*pairs, strict=True)))
        raise PlanError(f"a nested value of kind {kind or 'none'} is not supported")

    def function_name(self, reference: int) -> str:
        """The name of the function with this anchor, without its signature."""
        name = self.functions.get(reference)
        if name is None:
            raise PlanError(f"function anchor {reference} is not declared in the plan's extensions")
        return name

    def arguments(self, messages: Any, scope: FieldScope) -> list[Bound]:
        """The values of function arguments. Enum arguments become text."""
        result = []
        for message in messages:
            kind = message.WhichOneof("arg_type")
            if kind == "value":
                result.append(self.read(message.value, scope))
            elif kind == "enum":
                result.append(constant(message.enum, pa.string()))
            else:
                raise PlanError(f"function arguments of kind {kind} are not supported")
        return result

    def aggregate(self, message: Any, scope: FieldScope) -> tuple[str, list[Bound]]:
        """Name and arguments of an AggregateFunction or WindowFunction message."""
        name, arguments = self.function_name(message.function_reference), self.arguments(message.arguments, scope)
        if self.is_standard:
            name, arguments = standard_aggregate(name, arguments, _choices(name, message))
        if name == "count" and len(arguments) == 1 and isinstance(arguments[0].expr, Literal):
            # A constant that is not null counts rows.
            arguments = [] if arguments[0].expr.value is not None and message.invocation != DISTINCT else arguments
        return name, arguments

    def _scalar_function(self, message: Any, scope: FieldScope) -> Bound:
        name = self.function_name(message.function_reference)
        if not message.arguments and dropped_fields(message, FUNCTION_ARGUMENTS):
            raise PlanError(f"the arguments of {name} are written as before Substrait 0.20; use a newer producer")
        if any(argument.value.HasField("lambda") for argument in message.arguments):
            return self._lambda_call(name, message.arguments, scope)
        arguments = self.arguments(message.arguments, scope)
        if not arguments and is_volatile(name):
            if scope.parameters:
                raise PlanError(
                    f"{name}() in a lambda would have one value for all elements of a row; make rows with unnest"
                )
            scope.node, column = add_random_column(scope.node, self.ids, VOLATILE[name])
            made = Bound(Column(column), scope.node.schema.field(column).type)
            # DataFusion, which makes such plans, has no type for UUIDs.
            return cast(made, STRING) if made.type == UUID else made
        if not arguments and is_moment(name):
            return derive(current_moment(moment_name(name), self.ids.began_nanos), [])
        return bind_function(name, arguments, self.is_standard, _choices(name, message))

    def _lambda_call(self, name: str, messages: Sequence[Any], scope: FieldScope) -> Bound:
        """A call whose second argument is a lambda."""
        if name not in LAMBDA_CALLS:
            raise PlanError(f"the function {name} is not supported yet")
        function = getattr(messages[1].value, "lambda") if len(messages) == 2 else None
        if function is None or not messages[1].value.HasField("lambda"):
            raise PlanError(f"{name} takes a list and a lambda")

        def body(values: Sequence[Bound]) -> Bound:
            scope.parameters.append(list(values))
            try:
                return self.read(function.body, scope)
            finally:
                scope.parameters.pop()

        lists, n_parameters = self.read(messages[0].value, scope), len(function.parameters.types)
        return bind_lambda(name, lists, n_parameters, body, lambda: self.names.new("$element"))

    def _cast(self, message: Any, scope: FieldScope) -> Bound:
        or_null = message.failure_behavior == _RETURN_NULL
        return bind_cast(self.read(message.input, scope), read_type(message.type), or_null=or_null)

    def _if_then(self, message: Any, scope: FieldScope) -> Bound:
        clauses = list(message.ifs)
        base: Bound | None = None
        # DataFusion writes `case x when …` with x as a first condition that has no value.
        if clauses and not clauses[0].HasField("then"):
            base = self.read(getattr(clauses.pop(0), "if"), scope)
        branches = []
        for clause in clauses:
            condition = self.read(getattr(clause, "if"), scope)
            if base is not None:
                condition = bind_call("equal", [base, condition])
            branches.append((condition, self.read(clause.then, scope)))
        return bind_case(branches, self._else(message, scope))

    def _switch(self, message: Any, scope: FieldScope) -> Bound:
        value = self.read(message.match, scope)
        branches = [
            (
                bind_call("equal", [value, _bound(read_literal(getattr(branch, "if")))]),
                self.read(branch.then, scope),
            )
            for branch in message.ifs
        ]
        return bind_case(branches, self._else(message, scope))

    def _else(self, message: Any, scope: FieldScope) -> Bound | None:
        return self.read(getattr(message, "else"), scope) if message.HasField("else") else None

    def _in(self, message: Any, scope: FieldScope) -> Bound:
        value = self.read(message.value, scope)
        options = [self.read(option, scope) for option in message.options]
        return bind_in(value, options) if options else constant(False)

    def _in_rows(self, message: Any, scope: FieldScope) -> Bound:
        """Whether several values are equal, in pairs, to those of one of the options."""
        values = [self.read(value, scope) for value in message.value]
        rows = [[self.read(part, scope) for part in option.fields] for option in message.options]
        if not values or any(len(row) != len(values) for row in rows):
            raise PlanError(f"a list of rows must have rows of as many values as are looked for, {len(values)}")
        found = [bind_call("and", [bind_call("equal", pair) for pair in zip(values, row, strict=True)]) for row in rows]
        return bind_call("or", found) if found else constant(False)


def _bound(literal: Literal) -> Bound:
    return Bound(literal, literal.type)


def _choices(name: str, message: Any) -> dict[str, str]:
    return choose_behaviours(name, [(option.name, option.preference) for option in message.options])
