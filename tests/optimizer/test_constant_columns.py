"""References to constant columns of projections are replaced by the constants. Plans, and answers against DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.expression.tree import Call, Column, Expr, Literal, col, lit
from qcore.optimizer import optimize
from qcore.optimizer.constant_columns import replace_constant_columns
from qcore.plan import nodes as p

I64, TEXT = pa.int64(), pa.string()
LEFT = p.Values("l", pa.schema([("k", I64), ("s", TEXT)]), pa.table({"k": [1, 2], "s": ["x", "y"]}))
RIGHT = p.Values("r", pa.schema([("k2", I64)]), pa.table({"k2": [1]}))
ONE: Expr = lit("x")


def with_constant(child: p.PlanNode, name: str = "c", value: Expr = ONE) -> p.Project:
    """`child` with an additional constant column."""
    names = child.schema.names
    assert isinstance(value, Literal)
    schema = child.schema.append(pa.field(name, value.type))
    return p.Project(f"{child.id}+{name}", schema, child, (*map(col, names), value))


def filter_rows(child: p.PlanNode, predicate: Expr) -> p.Filter:
    return p.Filter("f", child.schema, child, predicate)


def join_rows(kind: str, right: p.PlanNode, condition: Expr | None = None) -> p.HashJoin:
    schema = LEFT.schema if kind == "left_semi" else pa.schema([*LEFT.schema, *right.schema])
    return p.HashJoin("j", schema, LEFT, right, kind, ("k",), ("k2",), condition)


def predicates(plan: p.PlanNode) -> list[str]:
    return [repr(node.predicate) for node in plan.walk() if isinstance(node, p.Filter)]


def test_through_filters_limits_and_orders() -> None:
    below = filter_rows(with_constant(LEFT), col("k") > 0)
    above = p.Limit("n", below.schema, p.OrderBy("o", below.schema, below, (p.SortKey("k"),)), 5)
    plan = replace_constant_columns(filter_rows(above, col("s") == col("c")))
    assert predicates(plan) == ["(s = 'x')", "(k > 0)"]


def test_equalities_with_constants_are_gathered() -> None:
    below = with_constant(LEFT)
    plan = optimize(filter_rows(below, (col("s") == col("c")) | (col("s") == "y")))
    assert predicates(plan) == ["s in ('x', 'y')"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("inner", "(s = 'x')"), ("right", "(s = 'x')"), ("left", "(s = c)"), ("full", "(s = c)")],
)
def test_columns_that_an_outer_join_makes_null_stay_columns(kind: str, expected: str) -> None:
    plan = filter_rows(join_rows(kind, with_constant(RIGHT)), col("s") == col("c"))
    assert predicates(replace_constant_columns(plan)) == [expected]


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "left_semi"])
def test_conditions_of_joins_are_asked_before_rows_become_null(kind: str) -> None:
    (join,) = [
        node
        for node in replace_constant_columns(join_rows(kind, with_constant(RIGHT), col("s") == col("c"))).walk()
        if isinstance(node, p.HashJoin)
    ]
    assert repr(join.condition) == "(s = 'x')"


def test_keys_of_groups_are_constant_above_unless_in_sets() -> None:
    for sets, expected in ((None, "(k = 7)"), (((0, 1), (0,)), "(k = c)")):
        below = with_constant(LEFT, value=lit(7))
        keys = (("k", col("k")), ("c", col("c")))
        schema = pa.schema([("k", I64), ("c", I64)])
        plan = filter_rows(p.Aggregate("a", schema, below, keys, (), sets), col("k") == col("c"))
        assert predicates(replace_constant_columns(plan)) == [expected]


def test_a_constant_that_would_change_a_type_stays_a_column() -> None:
    """Next to decimals a column of integers has 19 digits, and the constant 2 has one."""
    price = pa.decimal128(9, 2)
    values = p.Values("v", pa.schema([("d", price)]), pa.table({"d": pa.array([1], price)}))
    product = col("d") * col("c")
    below = with_constant(values, value=lit(2))
    plan = replace_constant_columns(filter_rows(below, product > lit(3)))
    (node,) = [node for node in plan.walk() if isinstance(node, p.Filter)]
    assert isinstance(node.predicate, Call) and isinstance(node.predicate.arguments[0], Call)
    assert isinstance(node.predicate.arguments[0].arguments[1], Column)


QUERIES = [
    "select sum(case when w = c or w = 'b' then 1 else 0 end) as n from (select 'a' as c, k from u) u join t using (k)",
    "select t.k, c, c = 'a' as e from t left join (select 'a' as c, k from u) u on t.k = u.k and w = c",
    "select t.k, c from t left join (select 'a' as c, k from u) u on t.k = u.k where coalesce(c, 'b') = w",
    "select t.k, c, u.k as uk from t full join (select 'a' as c, k from u where k > 1) u on t.k = u.k where c is null",
    "select c, count(*) as n from (select 'a' as c, w from t) t where w >= c group by c having c = 'a'",
    "select x, count(*) as n from (select 7 as x, k from t) t group by rollup (x) having x is null or x = 7",
    "select k, d, sum(x) over (partition by k) as s from (select k, 2 as x, date '2020-01-31' as d from t) t "
    "where d + interval 1 month = date '2020-02-29'",
    "select x * 1.5 as y from (select cast(2 as bigint) as x, k from t) t where k * x > 3",
    "select c from (select 'a' as c from t union all select w from t) t where c = 'a'",
]


@pytest.mark.parametrize("text", QUERIES)
def test_answers(text: str, duck: duckdb.DuckDBPyConnection) -> None:
    tables = {
        "t": pa.table({"k": [1, 2, 3, 4], "w": ["a", "b", "a", None]}),
        "u": pa.table({"k": [1, 2, 2, 5]}),
    }
    for name, table in tables.items():
        duck.register(name, table)
    assert_same_rows(qcore.sql(text, tables, threads=2).to_arrow(), duck.sql(text).to_arrow_table())
