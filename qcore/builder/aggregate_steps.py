"""The step of a plan that groups. SPEC Q2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import pyarrow as pa

from qcore.builder.plan_steps import Expression, PlanSteps, check_boolean, in_step, listed
from qcore.errors import PlanError
from qcore.expression.tree import Expr, col
from qcore.plan.nodes import Aggregate, AggregateCall
from qcore.plan.schema import aggregate_schema, check_unique, unknown

# A cube has 2**n sets, each of which reads every row.
CUBE_KEYS_MAX = 10


@dataclass(frozen=True)
class Agg:
    """An aggregate of aggregate(); made by agg()."""

    function: str
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    filter: Expression | None = None
    order_by: tuple[str, ...] = ()


def agg(
    function: str,
    *arguments: Any,
    distinct: bool = False,
    filter: Expression | None = None,
    order_by: Sequence[str] | str = (),
) -> Agg:
    """An aggregate with everything it can have.

    Parameters
    ----------
    function : str
        count, sum, avg, min, max, …
    arguments : Expr or str
        Columns or expressions; none for count of rows. Constants such as a separator are lit(…), or numbers.
    distinct : bool
        Each value once.
    filter : Expr or str, optional
        Only rows for which this is true.
    order_by : list of str, optional
        Columns that order a group's rows, for functions to which that matters: ["day desc", "id"].

    Examples
    --------
    >>> agg("sum", "x", filter=col("y") > 1).function
    'sum'
    """
    return Agg(function, arguments, distinct, filter, tuple(listed(order_by)))  # type: ignore[arg-type]


class AggregateSteps(PlanSteps):
    """The part of PlanBuilder for grouping."""

    def aggregate(
        self,
        keys: Sequence[Expression] = (),
        aggs: Mapping[str, Agg | str | tuple[Any, ...]] | None = None,
        id: str | None = None,
        grouping_sets: Sequence[Sequence[str] | str] | str | None = None,
    ) -> Self:
        """One row a group; without keys, one row.

        Parameters
        ----------
        keys : list of Expr or str
            What to group by: columns, aliased expressions, or text such as "year(d) as y".
        aggs : dict
            Output name → ("sum", "x"), ("count",), agg(…), or text such as "sum(x * 2)".
        grouping_sets : "rollup", "cube" or list of lists of key names, optional
            Group once for each; the keys that a set lacks are null in its rows.
        """
        node = self._input("aggregate")
        if isinstance(keys, (str, Expr)):
            keys = [keys]
        named = tuple(self._named(key, node.schema, f"aggregate(), key {i + 1}") for i, key in enumerate(keys))
        calls = tuple(self._call(name, spec, node.schema) for name, spec in (aggs or {}).items())
        if not named and not calls:
            raise PlanError("aggregate() needs keys or aggs")
        check_unique([name for name, _ in named] + [call.name for call in calls], "aggregate()")
        schema = in_step("aggregate()", lambda: aggregate_schema(named, calls, node.schema))
        sets = None if grouping_sets is None else _grouping_sets(grouping_sets, [name for name, _ in named])
        return self._continued(Aggregate(id or self._new_id(), schema, node, named, calls, sets))

    def distinct(self, id: str | None = None) -> Self:
        """Every row once; nulls are equal."""
        node = self._input("distinct")
        keys = tuple((name, col(name)) for name in node.schema.names)
        return self._continued(Aggregate(id or self._new_id(), node.schema, node, keys, ()))

    def _call(self, name: str, spec: Agg | str | tuple[Any, ...], schema: pa.Schema) -> AggregateCall:
        where = f"aggregate(), {name!r}"
        if isinstance(spec, str):
            from qcore.frontends.expression_text import parse_aggregate

            return parse_aggregate(spec, name, schema, where)
        if isinstance(spec, tuple) and spec and isinstance(spec[0], str):
            spec = Agg(spec[0], tuple(spec[1:]))
        if not isinstance(spec, Agg):
            raise PlanError(f'{where}: give ("sum", "x"), agg("sum", "x") or "sum(x)", not {spec!r}')
        arguments = tuple(self._expression(argument, schema, where) for argument in spec.arguments)
        kept = None if spec.filter is None else self._expression(spec.filter, schema, f"{where}, filter")
        if kept is not None:
            check_boolean(kept, schema, f"{where}, filter")
        keys = self._sort_keys(spec.order_by, schema, where) if spec.order_by else ()
        order = tuple((key.descending, key.nulls_first) for key in keys)
        arguments += tuple(col(key.column) for key in keys)
        call = AggregateCall(name, spec.function, arguments, spec.distinct, kept, order)
        in_step(where, lambda: aggregate_schema((), (call,), schema))
        return call


def _grouping_sets(given: Any, keys: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Positions of the keys of each set."""
    if given == "rollup":
        return tuple(tuple(range(n)) for n in range(len(keys), -1, -1))
    if given == "cube":
        if len(keys) > CUBE_KEYS_MAX:
            raise PlanError(f"aggregate(): a cube of {len(keys)} keys; up to {CUBE_KEYS_MAX} are possible")
        return tuple(part for n in range(len(keys), -1, -1) for part in combinations(range(len(keys)), n))
    if isinstance(given, str) or not given:
        raise PlanError(f'aggregate(), grouping_sets: give "rollup", "cube" or lists of keys, not {given!r}')
    sets = []
    for names in given:
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            if name not in keys:
                raise unknown("key", str(name), keys, "aggregate(), grouping_sets")
        sets.append(tuple(sorted({keys.index(name) for name in names})))
    return tuple(sets)
