"""A plan written as DuckDB SQL: an oracle for frontends and the optimizer that shares no code with the engine."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

from qcore.expression.tree import Alias, Call, Case, Cast, Column, Expr, In, Literal
from qcore.functions.catalogue import expr_type
from qcore.plan import nodes as p

OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "modulo": "%",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "and",
    "or": "or",
    "like": "like",
    "not_like": "not like",
    "ilike": "ilike",
    "not_ilike": "not ilike",
    "is_distinct_from": "is distinct from",
    "is_not_distinct_from": "is not distinct from",
}
SUFFIXES = {"is_null": "is null", "is_not_null": "is not null", "is_true": "is true", "is_false": "is false"}
NAMES = {"position": "strpos", "negate": "-"}
TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.string(): "varchar",
    pa.string_view(): "varchar",
    pa.null(): "integer",
}


def type_sql(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamp"
    return TYPES[type_]


def name_sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal_sql(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return f"cast(null as {type_sql(literal.type)})"
    if isinstance(value, (str, datetime.date)):
        text = str(value).replace("'", "''")
        return f"'{text}'" if isinstance(value, str) else f"cast('{text}' as {type_sql(literal.type)})"
    if pa.types.is_interval(literal.type):
        return f"(interval '{value.months} months' + interval '{value.days} days')"
    if isinstance(value, Decimal):
        return f"cast('{value:f}' as {type_sql(literal.type)})"
    return f"cast({str(value).lower()} as {type_sql(literal.type)})"


def expr_sql(expr: Expr, schema: pa.Schema) -> str:
    if isinstance(expr, Column):
        return name_sql(expr.name)
    if isinstance(expr, Literal):
        return literal_sql(expr)
    if isinstance(expr, Alias):
        return expr_sql(expr.argument, schema)
    if isinstance(expr, Cast):
        return f"{'cast' if expr.safe else 'try_cast'}({expr_sql(expr.argument, schema)} as {type_sql(expr.to)})"
    if isinstance(expr, In):
        return f"({expr_sql(expr.argument, schema)} in ({', '.join(expr_sql(v, schema) for v in expr.values)}))"
    if isinstance(expr, Case):
        body = " ".join(f"when {expr_sql(a, schema)} then {expr_sql(b, schema)}" for a, b in expr.branches)
        otherwise = "" if expr.otherwise is None else f" else {expr_sql(expr.otherwise, schema)}"
        return f"(case {body}{otherwise} end)"
    assert isinstance(expr, Call)
    arguments = [expr_sql(argument, schema) for argument in expr.arguments]
    if expr.function == "divide":
        whole = all(pa.types.is_integer(expr_type(argument, schema)) for argument in expr.arguments)
        return f"({arguments[0]} {'//' if whole else '/'} {arguments[1]})"
    if expr.function == "concat":
        return f"({' || '.join(arguments)})"
    if expr.function in OPERATORS:
        return "(" + f" {OPERATORS[expr.function]} ".join(arguments) + ")"
    if expr.function in SUFFIXES:
        return f"({arguments[0]} {SUFFIXES[expr.function]})"
    return f"{NAMES.get(expr.function, expr.function)}({', '.join(arguments)})"


def plan_sql_text(node: p.PlanNode) -> str:
    """One SELECT that gives the node's columns and rows."""
    names = ", ".join(map(name_sql, node.schema.names))
    if isinstance(node, p.Scan):
        pairs = zip(node.columns, node.schema.names, strict=True)
        picked = [f"{name_sql(of)} as {name_sql(name)}" for of, name in pairs]
        return f"select {', '.join(picked) or '1'} from {name_sql(node.table)}"
    if isinstance(node, p.Values):
        rows = [", ".join(literal_sql(Literal(v, f.type)) for v, f in zip(r.values(), node.schema, strict=True))
                for r in node.data.to_pylist()]  # fmt: skip
        if rows:
            return f"select * from (values {', '.join(f'({row})' for row in rows)}) as v({names})"
        nulls = [f"{literal_sql(Literal(None, field.type))} as {name_sql(field.name)}" for field in node.schema]
        return f"select {', '.join(nulls)} where false"
    if isinstance(node, (p.HashJoin, p.NestedLoopJoin)):
        return join_sql(node)
    if isinstance(node, p.UnionAll):
        return " union all ".join(f"(select * from ({plan_sql_text(child)}))" for child in node.inputs)
    return unary_sql(node, names)


def unary_sql(node: p.PlanNode, names: str) -> str:
    child = node.children[0]
    source = f"({plan_sql_text(child)}) as t"
    if isinstance(node, p.Filter):
        return f"select * from {source} where {expr_sql(node.predicate, child.schema)}"
    if isinstance(node, p.Project):
        items = [
            f"{expr_sql(expr, child.schema)} as {name_sql(name)}"
            for name, expr in zip(node.schema.names, node.expressions, strict=True)
        ]
        return f"select {', '.join(items) or '1'} from {source}"
    if isinstance(node, p.Aggregate):
        return aggregate_sql(node, source)
    if isinstance(node, (p.OrderBy, p.TopN)):
        keys = [
            name_sql(key.column)
            + (" desc" if key.descending else " asc")
            + (" nulls first" if key.nulls_first else " nulls last")
            for key in node.keys
        ]
        limit = f" limit {node.count} offset {node.offset}" if isinstance(node, p.TopN) else ""
        return f"select * from {source} order by {', '.join(keys)}{limit}"
    if isinstance(node, p.Limit):
        return f"select * from {source} {'' if node.count is None else f'limit {node.count}'} offset {node.offset}"
    if isinstance(node, p.EnforceSingleRow):
        return f"select {names} from (select 1) left join {source} on true"
    return f"select * from {source}"


def aggregate_sql(node: p.Aggregate, source: str) -> str:
    schema = node.child.schema
    items = [f"{expr_sql(expr, schema)} as {name_sql(name)}" for name, expr in node.keys]
    for call in node.aggregates:
        arguments = ", ".join(expr_sql(argument, schema) for argument in call.arguments) or "*"
        distinct = "distinct " if call.distinct else ""
        where = "" if call.filter is None else f" filter (where {expr_sql(call.filter, schema)})"
        items.append(f"{call.function}({distinct}{arguments}){where} as {name_sql(call.name)}")
    by = ", ".join(expr_sql(expr, schema) for _, expr in node.keys)
    return f"select {', '.join(items)} from {source}{f' group by {by}' if by else ''}"


def join_sql(node: p.HashJoin | p.NestedLoopJoin) -> str:
    left, right = node.left, node.right
    kind = node.kind
    both = pa.schema(list(left.schema) + list(right.schema))
    parts = []
    if isinstance(node, p.HashJoin):
        parts = [f"l.{name_sql(a)} = r.{name_sql(b)}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    if kind == "null_aware_anti":
        assert len(parts) == 1 and node.condition is None
        return (
            f"select * from ({plan_sql_text(left)}) as l where {name_sql(node.left_keys[0])} not in "
            f"(select {name_sql(node.right_keys[0])} from ({plan_sql_text(right)}))"
        )
    if node.condition is not None:
        parts.append(expr_sql(node.condition, both))
    on = " and ".join(parts) or "true"
    left_sql, right_sql = f"({plan_sql_text(left)}) as l", f"({plan_sql_text(right)}) as r"
    if kind in ("inner", "left", "right", "full"):
        return f"select l.*, r.* from {left_sql} {kind} join {right_sql} on {on}"
    if kind.startswith("right_"):
        left_sql, right_sql = right_sql, left_sql
    exists = f"exists (select 1 from {right_sql} where {on})"
    if kind == "mark":
        return f"select *, {exists} as {name_sql(node.schema.names[-1])} from {left_sql}"
    return f"select * from {left_sql} where {'not ' if 'anti' in kind else ''}{exists}"
