"""Random plans with their SQL for DuckDB. They combine operators, so that barriers and early ends occur together."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
from plan_as_sql import plan_sql_text

import qcore
from operator_plans import LEFT, Case
from qcore import PlanBuilder, agg, col, lit

COLUMNS = ["a", "b", "s", "v"]
JOINS = ("inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti")
# The number of rows of a table is small, because joins multiply it.
ROWS_MAX = 60


class Passing(qcore.Operator):
    """Returns its input."""

    held: pa.RecordBatch | None = None

    def needs_input(self) -> bool:
        return self.held is None

    def add_input(self, batch: pa.RecordBatch) -> None:
        self.held = batch

    def get_output(self) -> pa.RecordBatch | None:
        given, self.held = self.held, None
        return given


class Growing:
    """Adds random nodes to a plan over a table "l". Each step keeps the columns a, b, s and v."""

    def __init__(self, rng: random.Random, source: Callable[[], PlanBuilder]) -> None:
        self.rng = rng
        self.source = source

    def plan(self, depth: int) -> PlanBuilder:
        builder = self.source()
        for _ in range(self.rng.randint(0, depth + 1)):
            step = self.rng.choice(
                (
                    self.filter,
                    self.project,
                    self.aggregate,
                    self.partition,
                    self.order,
                    self.top_n,
                    self.limit,
                    self.user,
                )
                + (self.join, self.nested_loop, self.union) * 2 * (depth > 0)
            )
            builder = step(builder, depth - 1)
        return builder

    def filter(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        name, least = self.rng.choice((("a", 3), ("b", -20), ("v", 0), ("v", 1000)))
        return of.filter(col(name) > lit(least))

    def project(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.project({"a": col("a"), "b": col("b"), "s": col("s"), "v": col("v") + lit(1)})

    def aggregate(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        if self.rng.random() < 0.2:
            total = of.aggregate([], {"a": ("max", "a"), "b": ("min", "b"), "s": ("max", "s"), "v": ("count", "v")})
            return total.project(COLUMNS)
        if self.rng.random() < 0.3:
            return of.aggregate(["a", "b", "s"], {"v": agg("count", "v", distinct=True)})
        return of.aggregate(["a"], {"b": ("max", "b"), "s": ("min", "s"), "v": ("count",)})

    def partition(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        kind = self.rng.choice(("hash", "round_robin", "gather"))
        keys = self.rng.choice((["a"], ["s", "b"])) if kind == "hash" else []
        return of.local_partition(keys, kind=kind, drivers=self.rng.randint(1, 4))

    def order(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.order_by(["s desc", "v", "a"])

    def top_n(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.top_n(["v desc", "a", "b", "s"], self.rng.choice((0, 1, 10, 1000)), self.rng.choice((0, 0, 3)))

    def limit(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.limit(self.rng.choice((0, 10**6, None)))

    def user(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.operator(Passing)

    def join(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        how = self.rng.choice(JOINS)
        condition = (col("v") > col("v_r")) if self.rng.random() < 0.3 else None
        keys = self.rng.choice((["a", "s"], ["a", "b"], ["a"]))
        return self.shape(of.hash_join(self.plan(depth), keys, keys, how=how, suffix="_r", condition=condition), how)

    def nested_loop(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        how = self.rng.choice(JOINS)
        condition = (col("a") + lit(1) < col("a_r")) & (col("v") > lit(30)) & (col("v_r") > lit(30))
        return self.shape(of.nested_loop_join(self.plan(depth), condition, how=how, suffix="_r"), how)

    def shape(self, joined: PlanBuilder, how: str) -> PlanBuilder:
        if "semi" in how or "anti" in how:
            return joined if how.startswith("left") else joined.project({name: col(name + "_r") for name in COLUMNS})
        return joined.project({"a": col("a"), "b": col("b_r"), "s": col("s"), "v": col("v_r")})

    def union(self, of: PlanBuilder, depth: int) -> PlanBuilder:
        return of.union_all(self.plan(depth))


def random_plan(seed: int, source: Callable[[], PlanBuilder]) -> tuple[PlanBuilder, Case]:
    """A plan over `source`, and its case with SQL over the table l."""
    rng = random.Random(seed)
    builder = Growing(rng, source).plan(rng.choice((1, 2, 3)))
    # The SQL for DuckDB is that of the same plan over a plain scan.
    rng = random.Random(seed)
    plain = Growing(rng, lambda: PlanBuilder().scan("l", schema=LEFT)).plan(rng.choice((1, 2, 3)))
    sql = plan_sql_text(plain.build())
    some = None
    if rng.random() < 0.3:
        some = rng.choice((1, 10, 100))
        builder = builder.limit(some)
    return builder, Case(lambda one, two: builder, sql, some=some)
