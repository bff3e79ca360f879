"""Dependent joins of every kind in every clause, written as plans, against the same query in DuckDB (SPEC Q2)."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from qcore.connectors.arrow import ArrowTable
from qcore.errors import PlanError
from qcore.expression.tree import Expr, OuterColumn, call, col, lit
from qcore.plan import nodes as p
from qcore.plan.dependent_joins import replace_dependent_joins
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.projections import project, rename_columns, select_columns
from qcore.plan.random_column import add_random_column
from qcore.plan.schema import aggregate_schema, join_schema, unnest_schema
from qcore.plan.set_operations import distinct, union_all
from qcore.session.session import Session

I64 = pa.int64()
TABLES = {
    "t": pa.table(
        {
            "i": pa.array([1, 2, 3, 4, None, 6, 7, 2], I64),
            "g": pa.array([1, 2, 1, None, 2, 1, 3, 2], I64),
            "l": pa.array([[1, 2], [], None, [2, None], [5], [2, 2], [1], []], pa.list_(I64)),
        }
    ),
    "u": pa.table(
        {
            "i": pa.array([1, 2, 2, 9, None, 3], I64),
            "n": pa.array([10, 20, 30, 40, 50, None], I64),
        }
    ),
    "v": pa.table({"i": pa.array([1, 2, None, 7], I64), "n": pa.array([10, 30, 40, 15], I64)}),
}


class Plans:
    """Makes the nodes of one plan. Columns of table t under the name a are a_i, a_g …"""

    def __init__(self) -> None:
        self.ids, self.names = NodeIds(), ColumnNames()

    def table(self, name: str, alias: str = "") -> p.PlanNode:
        source = ArrowTable(TABLES[name])
        scan = p.Scan(self.ids.new(), source.schema, name, source, tuple(source.schema.names))
        return rename_columns(
            self.ids.new(), scan, [self.names.new(f"{alias or name}_{c}") for c in source.schema.names]
        )

    def outer(self, name: str) -> Expr:
        return OuterColumn(f"outer {name}", I64)

    def filter(self, node: p.PlanNode, predicate: Expr) -> p.PlanNode:
        return p.Filter(self.ids.new(), node.schema, node, predicate)

    def project(self, node: p.PlanNode, **columns: Expr) -> p.PlanNode:
        return project(self.ids.new(), node, list(columns), list(columns.values()))

    def select(self, node: p.PlanNode, *names: str) -> p.PlanNode:
        return select_columns(self.ids.new(), node, names)

    def aggregate(
        self, node: p.PlanNode, name: str, function: str, *arguments: Expr, by: Expr | None = None
    ) -> p.PlanNode:
        calls = (p.AggregateCall(name, function, arguments),)
        keys = () if by is None else ((f"{name}_key", by),)
        return p.Aggregate(self.ids.new(), aggregate_schema(keys, calls, node.schema), node, keys, calls)

    def dependent(
        self, kind: str, left: p.PlanNode, right: p.PlanNode, *conditions: Expr, reads: str = "", mark: str = "m"
    ) -> p.PlanNode:
        arguments = tuple((f"outer {name}", name) for name in reads.split())
        schema = join_schema(kind, left.schema, right.schema, mark)
        return p.DependentJoin(self.ids.new(), schema, left, right, arguments, kind, conditions)

    def values(self) -> p.PlanNode:
        """One row, none of whose columns is needed."""
        data = pa.table({"one": pa.array([1], I64)})
        return p.Values(self.ids.new(), data.schema, data)


Case = tuple[Callable[[Plans], p.PlanNode], str]


def _of_row(q: Plans) -> p.PlanNode:
    """The rows of u with the same i as the row of t."""
    return q.filter(q.table("u"), col("u_i") == q.outer("t_i"))


def _below_row(q: Plans) -> p.PlanNode:
    """The rows of u with a smaller i."""
    return q.filter(q.table("u"), col("u_i") < q.outer("t_i"))


def _join(
    kind: str, right: Callable[[Plans], p.PlanNode], *conditions: Expr, reads: str = "t_i t_g"
) -> Callable[[Plans], p.PlanNode]:
    def make(q: Plans) -> p.PlanNode:
        left = q.select(q.table("t"), "t_i", "t_g")
        return q.dependent(kind, left, right(q), *conditions, reads=reads)

    return make


def _in_subquery(kind: str) -> Callable[[Plans], p.PlanNode]:
    """NOT IN of a query that reads a column two levels up, inside a scalar subquery."""

    def make(q: Plans) -> p.PlanNode:
        inner = q.filter(q.table("v"), col("v_n") > q.outer("t_i") * 5)
        rows = q.dependent(kind, q.table("u"), inner, col("u_i") == col("v_i"))
        if kind == "null_aware_mark":
            rows = q.filter(rows, call("is_null", col("m")))
        count = q.aggregate(rows, "c", "count")
        return q.dependent("scalar", q.select(q.table("t"), "t_i"), count, reads="t_i")

    return make


def _recursive(distinct_rows: bool, step: Callable[[Plans, p.PlanNode], p.PlanNode]) -> Callable[[Plans], p.PlanNode]:
    """The sum of a recursive query that begins with t.i."""

    def make(q: Plans) -> p.PlanNode:
        first = q.project(q.values(), x=q.outer("t_i"))
        schema = pa.schema([("w", I64)])
        second = step(q, p.WorkingTable(q.ids.new(), schema, "r"))
        union = p.RecursiveUnion(q.ids.new(), first.schema, "r", (first, second), distinct_rows)
        return q.dependent(
            "scalar", q.select(q.table("t"), "t_i"), q.aggregate(union, "s", "sum", col("x")), reads="t_i"
        )

    return make


def _count_up(q: Plans, table: p.PlanNode) -> p.PlanNode:
    return q.project(q.filter(table, col("w") < 5), y=col("w") + 1)


def _step_by_subquery(q: Plans, table: p.PlanNode) -> p.PlanNode:
    """The row of a round is the number of rows of u above the last one. The rounds end when it is 0."""
    count = q.aggregate(q.filter(q.table("u"), col("u_i") > q.outer("w")), "c", "count")
    both = q.filter(q.dependent("scalar", table, count, reads="w"), col("c") > 0)
    return q.project(both, y=col("w") + col("c"))


def _step_by_total(q: Plans, table: p.PlanNode) -> p.PlanNode:
    """A total over the rows of a round. Rounds that ended for a row of t must not continue."""
    total = q.aggregate(q.filter(table, col("w") < 5), "m", "max", col("w"))
    return q.project(q.filter(total, col("m").is_not_null()), y=col("m") + 2)


def _step_by_itself(q: Plans, table: p.PlanNode) -> p.PlanNode:
    """A subquery that also reads the working table."""
    again = p.WorkingTable(q.ids.new(), pa.schema([("w2", I64)]), "r")
    inner = q.filter(again, col("w2") == q.outer("w"))
    return q.project(q.filter(q.dependent("left_semi", table, inner, reads="w"), col("w") < 4), y=col("w") + 1)


def _lateral_list(kind: str) -> Callable[[Plans], p.PlanNode]:
    def make(q: Plans) -> p.PlanNode:
        left = q.select(q.table("t"), "t_i", "t_l")
        one = q.project(q.values(), l=OuterColumn("outer t_l", pa.list_(I64)))
        schema = unnest_schema(one.schema, [("l", "x")], None)
        elements = p.Unnest(q.ids.new(), schema, one, (("l", "x"),))
        return q.select(q.dependent(kind, left, elements, reads="t_l"), "t_i", "x")

    return make


def _union(q: Plans) -> p.PlanNode:
    one = q.project(_of_row(q), n=col("u_n"))
    other = q.project(q.values(), k=q.outer("t_i") * 100)
    return distinct(q.ids, union_all(q.ids, [one, other]))


def _top(q: Plans) -> p.PlanNode:
    rows = q.project(_below_row(q), n=col("u_n"))
    return p.TopN(q.ids.new(), rows.schema, rows, (p.SortKey("n", True),), 2)


def _levels(q: Plans) -> p.PlanNode:
    """Three levels of EXISTS. The innermost one reads columns of all levels."""
    innermost = q.filter(
        q.table("v"), (col("v_i") >= q.outer("u_i")) & (col("v_n") > q.outer("t_i")) & (col("v_n") != q.outer("b_n"))
    )
    middle = q.dependent("left_semi", q.table("u", "b"), innermost, reads="b_n")
    middle = q.filter(middle, col("b_i") == q.outer("u_i"))
    outer = q.dependent("left_semi", q.table("u"), middle, reads="u_i")
    return q.dependent(
        "left_semi", q.select(q.table("t"), "t_i"), q.filter(outer, col("u_i") >= q.outer("t_i")), reads="t_i"
    )


def _full_join(q: Plans) -> p.PlanNode:
    """A subquery with a full join, one side of which reads the outer row."""
    a, b = _below_row(q), q.table("v")
    schema = join_schema("full", a.schema, b.schema)
    joined = p.NestedLoopJoin(
        q.ids.new(), schema, a, b, "full", (col("u_i") == col("v_i")) & (col("v_n") > q.outer("t_i"))
    )
    return q.dependent("scalar", q.select(q.table("t"), "t_i"), q.aggregate(joined, "c", "count"), reads="t_i")


def _twice_shared(q: Plans) -> p.PlanNode:
    """A shared subplan that reads the outer row, and that a nested subquery reads too."""
    below = _below_row(q)
    shared = p.Shared(q.ids.number_word("cte"), below.schema, below)
    schema = pa.schema([("x_i", I64), ("x_n", I64)])
    read = p.SharedRead(q.ids.new(), schema, shared.id, ("u_i", "u_n"), shared)
    larger = q.filter(read, col("x_n") > q.outer("u_n"))
    rows = q.dependent("left_semi", shared, larger, reads="u_n")
    return q.dependent("scalar", q.select(q.table("t"), "t_i"), q.aggregate(rows, "c", "count"), reads="t_i")


def _joined_rows(q: Plans) -> p.PlanNode:
    a, b = q.table("u"), q.filter(q.table("v"), col("v_i") == q.outer("t_i"))
    joined = p.NestedLoopJoin(
        q.ids.new(), join_schema("inner", a.schema, b.schema), a, b, "inner", col("u_i") == col("v_i")
    )
    return q.project(q.filter(joined, col("u_n") > q.outer("t_g") * 5), one=lit(1))


def _or_rows(q: Plans) -> p.PlanNode:
    own = col("u_i") == q.outer("t_i")
    return q.filter(q.table("u"), (own & (col("u_n") > 20)) | (own & (q.outer("t_g") == 1)))


def _total_of_total(q: Plans) -> p.PlanNode:
    total = q.aggregate(_of_row(q), "s", "sum", col("u_n"))
    rows = q.filter(q.table("v"), col("v_n") > q.outer("s") + q.outer("t_g"))
    return q.select(q.dependent("scalar", total, q.aggregate(rows, "c", "count"), reads="s"), "c")


def _guard_division(q: Plans) -> p.PlanNode:
    rows = q.filter(q.project(q.values(), x=q.outer("t_i") - 2), col("x") != 0)
    return q.project(rows, y=call("divide", lit(10), col("x")))


def _semi_rows(q: Plans) -> p.PlanNode:
    inner = q.filter(q.table("v"), col("v_i") == q.outer("u_i"))
    return q.filter(q.dependent("left_semi", q.table("u"), inner, reads="u_i"), col("u_i") == q.outer("t_i"))


N = col("u_n")
CASES: dict[str, Case] = {
    "exists": (_join("left_semi", _of_row), "select i, g from t where exists (select 1 from u where u.i = t.i)"),
    "not exists": (
        _join("left_anti", _below_row),
        "select i, g from t where not exists (select 1 from u where u.i < t.i)",
    ),
    "exists as a value": (_join("mark", _below_row), "select i, g, exists (select 1 from u where u.i < t.i) from t"),
    "in": (
        _join("left_semi", _below_row, col("t_g") * 10 == N),
        "select i, g from t where g * 10 in (select n from u where u.i < t.i)",
    ),
    "in as a value": (
        _join("null_aware_mark", _below_row, col("t_g") * 10 == N),
        "select i, g, g * 10 in (select n from u where u.i < t.i) from t",
    ),
    "not in": (
        _join("null_aware_anti", _below_row, col("t_g") * 10 == N),
        "select i, g from t where g * 10 not in (select n from u where u.i < t.i)",
    ),
    "in, of no row": (
        _join("null_aware_mark", lambda q: q.table("u"), col("t_i") == col("u_i"), reads=""),
        "select i, g, i in (select i from u) from t",
    ),
    "in, of two columns of no row": (
        _join("null_aware_mark", lambda q: q.table("u"), col("t_i") == col("u_i"), col("t_g") * 10 == N, reads=""),
        "select i, g, (select case when bool_or(x) then true when count(*) = count(x) then false end from "
        "(select t.i = u.i and t.g * 10 = u.n as x from u)) from t",
    ),
    "not in, of two columns": (
        _join("null_aware_anti", lambda q: q.table("u"), col("t_i") == col("u_i"), col("t_g") * 10 == N, reads=""),
        "select i, g from t where not (select case when bool_or(x) then true when count(*) = count(x) then false "
        "end from (select t.i = u.i and t.g * 10 = u.n as x from u))",
    ),
    "any": (
        _join("null_aware_mark", _of_row, col("t_g") * 10 < N),
        "select i, g, (select coalesce(bool_or(t.g * 10 < n), case when count(*) > 0 then null else false end) "
        "from u where u.i = t.i) from t",
    ),
    "a constant in": (
        _join("null_aware_mark", _below_row, lit(10) == N),
        "select i, g, 10 in (select n from u where u.i < t.i) from t",
    ),
    "in, without conditions": (
        _join("null_aware_mark", _of_row),
        "select i, g, exists (select 1 from u where u.i = t.i) from t",
    ),
    "not in, without conditions": (
        _join("null_aware_anti", _of_row),
        "select i, g from t where not exists (select 1 from u where u.i = t.i)",
    ),
    "exists, of no row": (
        _join("mark", lambda q: q.filter(q.table("u"), N > 45), reads=""),
        "select i, g, true from t",
    ),
    "lateral": (
        _join("inner", _below_row, col("t_g") < N),
        "select t.i, t.g, u.i, u.n from t join u on u.i < t.i and u.n > t.g",
    ),
    "left lateral": (
        _join("left", _below_row, col("t_g") * 15 < N),
        "select t.i, t.g, u.i, u.n from t left join u on u.i < t.i and u.n > t.g * 15",
    ),
    "left lateral with a computed column": (
        _join("left", lambda q: q.project(_of_row(q), x=q.outer("t_i") + 1, n=N)),
        "select t.i, t.g, x, x.n from t left join lateral (select t.i + 1 as x, n from u where u.i = t.i) x on true",
    ),
    "left lateral, of no row": (
        _join("left", lambda q: q.table("u"), col("u_i") == col("t_i"), reads=""),
        "select t.i, t.g, u.i, u.n from t left join u on t.i = u.i",
    ),
    "lateral top n": (
        _join("inner", _top),
        "select i, g, x.n from t, lateral (select n from u where u.i < t.i order by n desc nulls last limit 2) x",
    ),
    "left lateral top n": (
        _join("left", _top),
        "select i, g, x.n from t left join lateral (select n from u where u.i < t.i order by n desc nulls last "
        "limit 2) x on true",
    ),
    "scalar": (
        _join("scalar", lambda q: q.project(q.filter(_of_row(q), (N > 20) | (col("u_i") == 1)), n=N)),
        "select i, g, (select n from u where u.i = t.i and (n > 20 or i = 1)) from t",
    ),
    "scalar of an aggregate": (
        _join("scalar", lambda q: q.aggregate(_of_row(q), "c", "count", N)),
        "select i, g, (select count(n) from u where u.i = t.i) from t",
    ),
    "scalar of a computed aggregate": (
        _join(
            "scalar", lambda q: q.project(q.aggregate(_of_row(q), "c", "sum", N), x=call("coalesce", col("c"), -1) + 1)
        ),
        "select i, g, (select coalesce(sum(n), -1) + 1 from u where u.i = t.i) from t",
    ),
    "scalar of groups": (
        _join("scalar", lambda q: q.aggregate(q.aggregate(_of_row(q), "c", "count", by=N), "k", "count")),
        "select i, g, (select count(*) from (select count(*) from u where u.i = t.i group by n) z) from t",
    ),
    "scalar of a total with a condition": (
        _join("scalar", lambda q: q.filter(q.aggregate(_of_row(q), "c", "count"), col("c") < 2)),
        "select i, g, (select count(*) from u where u.i = t.i having count(*) < 2) from t",
    ),
    "exists of a total": (
        _join("mark", lambda q: q.filter(q.aggregate(_of_row(q), "c", "count"), col("c") < 2)),
        "select i, g, (select count(*) < 2 from u where u.i = t.i) from t",
    ),
    "scalar of no row": (
        _join("scalar", lambda q: q.project(q.filter(q.table("u"), N > 60), n=N), reads=""),
        "select i, g, null::bigint from t",
    ),
    "union": (
        _join("inner", _union),
        "select i, g, n from t, lateral (select n from u where u.i = t.i union select t.i * 100) x",
    ),
    "group by the row": (
        _join("left", lambda q: q.aggregate(_below_row(q), "c", "count", by=N + q.outer("t_i"))),
        "select i, g, k, c from t left join lateral (select n + t.i as k, count(*) as c from u where u.i < t.i "
        "group by 1) x on true",
    ),
    "three levels": (
        _levels,
        "select i from t where exists (select 1 from u where u.i >= t.i and exists (select 1 from u b where b.i "
        "= u.i and "
        "exists (select 1 from v where v.i >= u.i and v.n > t.i and v.n <> b.n)))",
    ),
    "not in, two levels": (
        _in_subquery("null_aware_anti"),
        "select i, (select count(*) from u where u.i not in (select v.i from v where v.n > t.i * 5)) from t",
    ),
    "in, two levels": (
        _in_subquery("null_aware_mark"),
        "select i, (select count(*) from u where (u.i in (select v.i from v where v.n > t.i * 5)) is null) from t",
    ),
    "full join": (
        _full_join,
        "select i, (select count(*) from (select * from u where u.i < t.i) u full join v on u.i = v.i and v.n > "
        "t.i) from t",
    ),
    "a shared subplan in two levels": (
        _twice_shared,
        "select i, (select count(*) from u where u.i < t.i and exists (select 1 from u x where x.i < t.i and x.n "
        "> u.n)) from t",
    ),
    "unnest": (_lateral_list("inner"), "select i, unnest(l) from t"),
    "unnest, left": (_lateral_list("left"), "select i, x from t left join lateral (select unnest(t.l) as x) on true"),
    "exists through a projection and an inner join": (
        _join("left_semi", _joined_rows),
        "select i, g from t where exists (select 1 from u join v on u.i = v.i where v.i = t.i and u.n > t.g * 5)",
    ),
    "what all branches of or have": (
        _join("left_anti", _or_rows),
        "select i, g from t where not exists (select 1 from u where (u.i = t.i and n > 20) or (u.i = t.i and t.g = 1))",
    ),
    "in of a computed value": (
        _join("null_aware_mark", lambda q: q.project(_below_row(q), x=N + q.outer("t_i")), col("t_g") * 12 == col("x")),
        "select i, g, g * 12 in (select n + t.i from u where u.i < t.i) from t",
    ),
    "lateral with a computed column": (
        _join("inner", lambda q: q.project(_of_row(q), x=q.outer("t_i") + N)),
        "select t.i, t.g, t.i + u.n from t join u on u.i = t.i",
    ),
    "lateral groups of the row": (
        _join("left", lambda q: q.aggregate(_of_row(q), "c", "count", by=N)),
        "select i, g, n, c from t left join lateral (select n, count(*) c from u where u.i = t.i group by n) x on true",
    ),
    "lateral total": (
        _join("left", lambda q: q.aggregate(_of_row(q), "c", "count"), col("c") > 1),
        "select i, g, c from t left join lateral (select count(*) c from u where u.i = t.i) x on c > 1",
    ),
    "not in of a total": (
        _join("null_aware_anti", lambda q: q.aggregate(_of_row(q), "c", "sum", N), col("t_g") * 10 == col("c")),
        "select i, g from t where g * 10 not in (select sum(n) from u where u.i = t.i)",
    ),
    "not exists of a total with a condition": (
        _join("left_anti", lambda q: q.filter(q.aggregate(_of_row(q), "c", "count"), col("c") < 2)),
        "select i, g from t where not exists (select count(*) from u where u.i = t.i having count(*) < 2)",
    ),
    "a subquery over a total": (
        _join("scalar", _total_of_total),
        "select i, g, (select (select count(*) from v where v.n > x.s + t.g) from (select sum(n) s from u where "
        "u.i = t.i) "
        "x) from t",
    ),
    "values of the row": (
        _join("scalar", lambda q: q.filter(q.project(q.values(), x=q.outer("t_i") + 1), col("x") > 3)),
        "select i, g, case when i + 1 > 3 then i + 1 end from t",
    ),
    "a condition before what it guards": (
        _join("scalar", _guard_division),
        "select i, g, case when i <> 2 then 10 // (i - 2) end from t",
    ),
    "exists below a semi join": (
        _join("mark", _semi_rows),
        "select i, g, exists (select 1 from u where u.i = t.i and exists (select 1 from v where v.i = u.i)) from t",
    ),
    "recursion": (
        _recursive(False, _count_up),
        "select i, case when i is null then null when i > 5 then i else (select sum(x) from range(i, 6) r(x)) "
        "end from t",
    ),
    "recursion of distinct rows": (
        _recursive(True, lambda q, table: q.project(table, y=call("modulo", col("w") + 1, 3))),
        "select i, case when i is not null then case when i < 3 then 3 else i + 3 end end from t",
    ),
    "recursion with a subquery": (
        _recursive(False, _step_by_subquery),
        "with recursive r as (select i, i as w from t union all select r.i, w + (select count(*) from u where "
        "u.i > w) from r "
        "where (select count(*) from u where u.i > w) > 0) select i, sum(w) s from (select distinct * from r) z "
        "group by i "
        "union all select 2, s from (select sum(w) s from (select distinct * from r) z where i = 2) z",
    ),
    "recursion with a total": (
        _recursive(False, _step_by_total),
        "select i, case when i is null then null when i >= 5 then i when i % 2 = 0 then (select sum(x) from "
        "range(i, 7, 2) "
        "r(x)) else (select sum(x) from range(i, 6, 2) r(x)) end from t",
    ),
    "recursion with a subquery of its own rows": (
        _recursive(False, _step_by_itself),
        "select i, case when i is null then null when i > 4 then i else (select sum(x) from range(i, 5) r(x)) "
        "end from t",
    ),
}


def run(plan: p.PlanNode, threads: int = 2) -> pa.Table:
    return Session(threads=threads).execute(plan).to_arrow()


@pytest.fixture(scope="module")
def known() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, rows in TABLES.items():
        connection.register(name, rows)
    return connection


@pytest.mark.parametrize("name", CASES)
def test_as_duckdb(name: str, known: duckdb.DuckDBPyConnection) -> None:
    make, query = CASES[name]
    q = Plans()
    plan = make(q)
    replaced = replace_dependent_joins(plan, q.ids, q.names)
    assert replaced.schema.names == plan.schema.names
    nodes = list(replaced.walk())
    assert not any(isinstance(node, p.DependentJoin) for node in nodes)
    assert {node.of for node in nodes if isinstance(node, p.SharedRead)} <= {
        node.id for node in nodes if isinstance(node, p.Shared)
    }
    expected = known.sql(query).to_arrow_table()
    for threads in (1, 4):
        assert_same_rows(run(replaced, threads), expected)


# Cases that need no domain, with the joins of their plans from the root down.
PLAIN = {
    "exists": ["HashJoin left_semi"],
    "not exists": ["NestedLoopJoin left_anti"],
    "in": ["HashJoin left_semi"],
    "not in": ["NestedLoopJoin left_anti"],
    "in, of no row": ["HashJoin null_aware_mark"],
    "lateral": ["NestedLoopJoin inner"],
    "left lateral": ["NestedLoopJoin left"],
    "scalar": ["HashJoin left"],
    "scalar of an aggregate": ["HashJoin left"],
    "scalar of a computed aggregate": ["HashJoin left"],
    "scalar of a total with a condition": ["HashJoin left"],
    "exists of a total": ["HashJoin left"],
    "exists through a projection and an inner join": ["HashJoin left_semi", "NestedLoopJoin inner"],
    "what all branches of or have": ["HashJoin left_anti"],
    "lateral with a computed column": ["HashJoin inner"],
    "lateral groups of the row": ["HashJoin left"],
    "lateral total": ["HashJoin left"],
    "not in of a total": ["HashJoin left"],
    "values of the row": [],
    "a condition before what it guards": [],
    "exists below a semi join": ["HashJoin mark", "HashJoin left_semi"],
    "unnest": [],
    "unnest, left": [],
}


@pytest.mark.parametrize("name", PLAIN)
def test_without_a_domain(name: str) -> None:
    """The plan has the expected kind of join, or none, and does not compute distinct values of outer columns."""
    q = Plans()
    plan = replace_dependent_joins(CASES[name][0](q), q.ids, q.names)
    joins = [node for node in plan.walk() if isinstance(node, (p.HashJoin, p.NestedLoopJoin))]
    assert [f"{type(node).__name__} {node.kind}" for node in joins] == PLAIN[name]
    assert not any(isinstance(node, p.SharedRead) for node in plan.walk())


def test_more_than_one_row() -> None:
    """The join checks that a scalar subquery has at most one row."""
    q = Plans()
    plan = q.dependent("scalar", q.table("t"), q.project(_of_row(q), n=N), reads="t_i")
    with pytest.raises(qcore.ExecutionError, match=r"scalar subquery returned 2 rows.*LIMIT 1"):
        run(replace_dependent_joins(plan, q.ids, q.names))


def test_refused() -> None:
    q = Plans()
    numbered, _ = add_random_column(_below_row(q), q.ids)
    with pytest.raises(PlanError, match=r"correlated subquery with random\(\)"):
        replace_dependent_joins(q.dependent("left_semi", q.table("t"), numbered, reads="t_i"), q.ids, q.names)
    q = Plans()
    total = q.aggregate(q.table("u"), "s", "sum", q.outer("t_i"))
    with pytest.raises(PlanError, match=r"sum of the outer query's columns .* belongs to the outer query"):
        replace_dependent_joins(q.dependent("scalar", q.table("t"), total, reads="t_i"), q.ids, q.names)
