"""Lists, structs, maps and intervals as keys, in windows and in aggregates that keep values: which nodes get encoders.

The engine passes nested values on but does not read them. It does not compare intervals either, because equal ones have
several spellings. An encoder (nested_values) adds a binary column for each such key, whose bytes are equal and ordered
as the values are. The engine's operators use these columns. A decoder reads values from bytes in their output.

If the schema of a source may change, equal values of different types have equal bytes, columns that are null so far
are treated as nested, and operators that copy rows may get new nested columns.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from qcore.expression.tree import Expr, call, col, same
from qcore.expression.types import compares_by_bytes
from qcore.functions.catalogue import expr_type
from qcore.lowering.nested_values import DecodedValues, EncodedValues, encoded_schema
from qcore.plan import nodes as p
from qcore.plan.projections import add_columns, select_columns
from qcore.plan.schema import aggregate_schema, join_schema
from qcore.plan.window_calls import VALUES, window_type

# Aggregates that return one or all of a group's values, of any type.
_KEEP_A_VALUE = frozenset({"min", "max", "any_value", "first", "last", "array_agg"})
# Functions over a window that return a value of another row.
_OF_A_ROW = VALUES | {"any_value", "first", "last"}
_WITH_KEYS = (p.HashJoin, p.Aggregate, p.OrderBy, p.TopN, p.Window, p.LocalPartition)


def may_widen(root: p.PlanNode) -> bool:
    """Whether a source of the plan may give wider types than it declares: the rows of a recursion's round do."""
    return any(
        (isinstance(node, p.UserSource) and node.on_schema_change == "evolve")
        or (isinstance(node, p.Values) and node.data.schema.types != node.schema.types)
        for node in root.walk()
    )


def replace_nested_keys(node: p.PlanNode, widens: bool = False) -> p.PlanNode | None:
    """The node as nodes without nested keys. None if the node has none.

    `widens`: the columns of its inputs may get wider types than their schemas say.
    """
    if not isinstance(node, _WITH_KEYS) or any(isinstance(child, EncodedValues) for child in node.children):
        return None  # It has no keys, or they were replaced before.
    return _Replacing(node.id, widens).replace_node(node)


class _Replacing:
    """Replaces one node."""

    def __init__(self, id: str, widens: bool) -> None:
        self.id = id
        self.widens = widens
        self.token = object()

    def replace_node(self, node: p.PlanNode) -> p.PlanNode | None:
        if isinstance(node, (p.OrderBy, p.TopN)):
            return self.sort(node)
        if isinstance(node, p.HashJoin):
            return self.join(node)
        if isinstance(node, p.Aggregate) and node.grouping_sets is None:
            return self.aggregate(node)
        if isinstance(node, p.Window):
            return self.window(node)
        if isinstance(node, p.LocalPartition):
            return self.partition(node)
        return None

    def is_compared(self, type_: pa.DataType) -> bool:
        """Whether values of the type, or of one that it widens into, are compared by bytes."""
        return compares_by_bytes(type_) or (self.widens and pa.types.is_null(type_))

    def is_nested(self, type_: pa.DataType) -> bool:
        """Whether the type, or one that it widens into, is nested."""
        return bool(pa.types.is_nested(type_) or (self.widens and pa.types.is_null(type_)))

    def encode(
        self, node: p.PlanNode, names: Iterable[str], mark: str, carries: bool = False, refused: Iterable[str] = ()
    ) -> tuple[p.PlanNode, dict[str, str]]:
        """The node with a column of bytes for each of these columns, and the names of both."""
        keys = {name: f"${mark}{i}" for i, name in enumerate(dict.fromkeys(names))}
        if not keys and not carries:
            return node, {}
        made = EncodedValues(
            self.id, node.schema, node, tuple(keys.items()), carries, frozenset(refused), self.widens, self.token
        )
        return made.with_fields(schema=encoded_schema(made, node.schema)), keys

    def decode(
        self,
        node: p.PlanNode,
        schema: pa.Schema,
        sources: dict[str, str],
        blocks: Sequence[str] = (),
        dropped: Iterable[str] = (),
        carries: bool = False,
    ) -> p.PlanNode:
        """The node with the values of its bytes: `sources` has the encoder's column for each of its columns."""
        kept = frozenset(dropped)
        pairs, planned = tuple(sources.items()), tuple((name, schema.field(name).type) for name in sources)
        return DecodedValues(
            self.id, schema, node, pairs, planned, frozenset(blocks), kept, carries, self.widens, self.token
        )

    def select_compared(self, schema: pa.Schema, names: Iterable[str]) -> list[str]:
        """Those of the columns that are compared by bytes."""
        return [name for name in names if self.is_compared(schema.field(name).type)]

    # --- nodes ---

    def sort(self, node: p.OrderBy | p.TopN) -> p.PlanNode | None:
        """OrderBy keeps nested columns. TopN carries those that may come."""
        carries = self.widens and isinstance(node, p.TopN)
        named = self.select_compared(node.schema, (key.column for key in node.keys))
        child, keys = self.encode(node.child, named, "order", carries)
        if child is node.child:
            return None
        by = tuple(replace(key, column=keys.get(key.column, key.column)) for key in node.keys)
        ordered = node.with_fields(child=child, schema=child.schema, keys=by)
        return self.decode(ordered, node.schema, {}, dropped=keys.values(), carries=carries)

    def partition(self, node: p.LocalPartition) -> p.PlanNode | None:
        child, keys = self.encode(node.child, self.select_compared(node.schema, node.keys), "by")
        if not keys:
            return None
        by = tuple(keys.get(name, name) for name in node.keys)
        moved = node.with_fields(child=child, schema=child.schema, keys=by)
        return self.decode(moved, node.schema, {}, dropped=keys.values())

    def join(self, node: p.HashJoin) -> p.PlanNode | None:
        """Both columns of a pair of keys are bytes if one of them may be."""
        pairs = [
            (left, right)
            for left, right in zip(node.left_keys, node.right_keys, strict=True)
            if self.select_compared(node.left.schema, [left]) or self.select_compared(node.right.schema, [right])
        ]
        if not pairs:
            return None
        left, left_keys = self.encode(node.left, (name for name, _ in pairs), "left")
        right, right_keys = self.encode(node.right, (name for _, name in pairs), "right")
        mark = next((name for name in node.schema.names if name not in {*left.schema.names, *right.schema.names}), "")
        joined = replace(
            node,
            left=left,
            right=right,
            left_keys=tuple(left_keys.get(name, name) for name in node.left_keys),
            right_keys=tuple(right_keys.get(name, name) for name in node.right_keys),
            schema=join_schema(node.kind, left.schema, right.schema, mark),
        )
        return select_columns(node.id, joined, node.schema.names)

    def aggregate(self, node: p.Aggregate) -> p.PlanNode | None:
        return _Aggregation(self, node).replace_node()

    def window(self, node: p.Window) -> p.PlanNode | None:
        """Windows over bytes. Keys become bytes that are equal if the values are; other nested columns become blocks,
        which keep the exact value.
        """
        schema = node.child.schema
        by = self.select_compared(schema, [*node.partition_by, *(key.column for key in node.order_by)])
        calls = [(one, self.is_compared(self.argument_type(one, schema))) for one in node.calls]
        by += [one.argument for one, is_compared in calls if is_compared and one.argument and _needs_order(one)]
        by += self.select_compared(schema, (key.column for one in node.calls for key in one.order_by))
        carries = self.widens or any(map(pa.types.is_nested, schema.types))
        if not carries and not by:
            return None
        refused = [one.argument for one, is_compared in calls if is_compared and one.argument and not _takes_any(one)]
        child, keys = self.encode(node.child, by, "by", carries, refused)
        sources: dict[str, str] = {}
        made = [self.window_call(one, keys, sources) if is_compared else one for one, is_compared in calls]
        made = [
            replace(one, order_by=tuple(replace(key, column=keys.get(key.column, key.column)) for key in one.order_by))
            for one in made
        ]
        window = node.with_fields(
            child=child,
            schema=pa.schema([*child.schema, *(pa.field(one.name, window_type(one, child.schema)) for one in made)]),
            partition_by=tuple(keys.get(name, name) for name in node.partition_by),
            order_by=tuple(replace(key, column=keys.get(key.column, key.column)) for key in node.order_by),
            calls=tuple(made),
        )
        blocks = [name for name, of in sources.items() if of in schema.names]
        return self.decode(window, node.schema, sources, blocks, keys.values(), carries)

    def argument_type(self, one: p.WindowCall, schema: pa.Schema) -> pa.DataType:
        return pa.int64() if one.argument is None else schema.field(one.argument).type

    def window_call(self, one: p.WindowCall, keys: dict[str, str], sources: dict[str, str]) -> p.WindowCall:
        """A call whose argument is compared by bytes."""
        assert one.argument is not None
        if one.function in ("min", "max"):
            sources[one.name] = one.argument
            key = p.SortKey(keys[one.argument], descending=one.function == "max", nulls_first=False)
            return replace(one, function="first", order_by=(key,), distinct=False)
        if one.function in _OF_A_ROW:
            sources[one.name] = one.argument
        elif one.function == "mode":
            sources[one.name] = keys[one.argument]
            return replace(one, argument=keys[one.argument])
        elif one.function == "count" and one.distinct:
            return replace(one, argument=keys[one.argument])
        return one


def _needs_order(one: p.WindowCall) -> bool:
    """Whether a function over a window compares its argument's values."""
    return one.function in ("min", "max", "mode") or (one.function == "count" and one.distinct)


def _takes_any(one: p.WindowCall) -> bool:
    """Whether a function over a window takes nested values."""
    return one.function in _OF_A_ROW or one.function in ("min", "max", "mode", "count")


class _Aggregation:
    """An aggregation by bytes. The output's nested values are decoded from bytes."""

    def __init__(self, replacing: _Replacing, node: p.Aggregate) -> None:
        self.replacing = replacing
        self.node = node
        self.child = node.child.schema
        self.inputs: list[Expr] = []
        self.keys: list[tuple[str, Expr]] = []
        self.calls: list[p.AggregateCall] = []
        self.sources: dict[str, str] = {}

    def replace_node(self) -> p.PlanNode | None:
        for name, expr in self.node.keys:
            self.add_key(name, expr)
        for one in self.node.aggregates:
            self.add_call(one)
        node, replacing = self.node, self.replacing
        if not self.inputs:
            same_calls = all(map(operator.is_, self.calls, node.aggregates))
            return None if same_calls else replace(node, aggregates=tuple(self.calls))
        below = add_columns(node.id, node.child, {f"$of{i}": expr for i, expr in enumerate(self.inputs)})
        made, _ = replacing.encode(below, (f"$of{i}" for i in range(len(self.inputs))), "bytes")
        grouped = p.Aggregate(
            node.id,
            aggregate_schema(self.keys, self.calls, made.schema),
            made,
            tuple(self.keys),
            tuple(self.calls),
            partition_keys=node.partition_keys,
        )
        wanted = {field.name: field for field in node.schema}
        schema = pa.schema([wanted.get(field.name, field) for field in grouped.schema])
        decoded = replacing.decode(grouped, schema, self.sources)
        return select_columns(node.id, decoded, node.schema.names)

    def encode_expr(self, expr: Expr) -> str:
        """The encoder's column for an expression over the child."""
        number = next((i for i, other in enumerate(self.inputs) if same(other, expr)), len(self.inputs))
        if number == len(self.inputs):
            self.inputs.append(expr)
        return f"$bytes{number}"

    def type_of(self, expr: Expr) -> pa.DataType:
        return expr_type(expr, self.child)

    def add_key(self, name: str, expr: Expr) -> None:
        type_ = self.type_of(expr)
        if not self.replacing.is_compared(type_):
            self.keys.append((name, expr))
        elif self.replacing.is_nested(type_):
            self.sources[name] = self.encode_expr(expr)
            self.keys.append((name, col(self.sources[name])))
        else:
            # Equal intervals have several spellings. The output has one of the group's.
            by = col(self.encode_expr(expr))
            self.keys.append((f"$key{len(self.keys)}", by))
            self.calls.append(p.AggregateCall(name, "first", (expr, by), order=((False, False),)))

    def add_call(self, one: p.AggregateCall) -> None:
        values, order, keys = one.values, one.order, one.order_keys
        function, is_distinct = one.function, one.distinct
        is_compared = bool(values) and self.replacing.is_compared(self.type_of(values[0]))
        keys = tuple(col(self.encode_expr(key)) if self.is_compared(key) else key for key in keys)
        is_nested = bool(values) and self.replacing.is_nested(self.type_of(values[0]))
        if (function in _KEEP_A_VALUE and is_nested) or (function == "mode" and is_compared):
            self.sources[one.name] = self.encode_expr(values[0])
            values = (col(self.sources[one.name]), *values[1:])
        elif function in ("min", "max") and is_compared:
            # The shortest interval of a group, or the longest; null if there is none.
            order, keys = ((function == "max", False),), (col(self.encode_expr(values[0])),)
            function, is_distinct = "first", False
        elif function == "any_value" and is_compared:
            # The first value that is not null.
            function, order, keys = "first", ((False, False),), (call("is_null", values[0]),)
        elif function == "count" and is_distinct:
            values = tuple(col(self.encode_expr(value)) if self.is_compared(value) else value for value in values)
        arguments = (*values, *keys)
        is_same = (function, order, is_distinct) == (one.function, one.order, one.distinct)
        if is_same and all(map(operator.is_, arguments, one.arguments)):
            self.calls.append(one)
        else:
            self.calls.append(replace(one, function=function, arguments=arguments, order=order, distinct=is_distinct))

    def is_compared(self, expr: Expr) -> bool:
        return self.replacing.is_compared(self.type_of(expr))
