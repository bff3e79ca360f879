"""Random aggregates, with and without a window, whose results do not depend on the order of the rows."""

from __future__ import annotations

from dataclasses import replace

from sql_fuzz.expressions import Expressions
from sql_fuzz.tables import BOOL, DECIMALS, ELEMENTS, FLOAT, INT, TEXT, Facts, Kind
from sql_fuzz.tree import Dialects, Fixed, Listed, Part, optional
from sql_fuzz.values import COMPARABLE, HASHABLE, INT_MAX, ROWS_MAX, SELECTABLE, Value, compose


def aggregate_call(make: Expressions) -> Value:
    """A random aggregate call."""
    rng = make.rng
    where = optional(None)
    if rng.random() < 0.2:
        where = optional(make.condition(1).tree, before=" filter (where ", after=")")
    name = rng.choice(
        ["count(*)", "count", "count distinct", "sum", "sum", "sum distinct", "min", "max", "min", "max", "avg"]
        + ["bool_and", "bool_or", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "avg distinct"]
        + ["rare", "rare", "ordered", "ordered"]
    )
    if name == "rare":
        return rare_call(make, where)
    if name == "ordered":
        return ordered_call(make, where)
    counted = Facts(INT, ROWS_MAX)
    if name == "count(*)":
        return compose(counted, "count(*)", where)
    if name in ("count", "count distinct"):
        kinds = [column.facts.kind for column in make.columns if column.facts.exact]
        distinct = "distinct " if " " in name else ""
        kind = rng.choice([*(kind for kind in kinds if kind in HASHABLE), INT])
        return compose(counted, f"count({distinct}", make.exact_value(kind, 1).tree, ")", where)
    if name in ("bool_and", "bool_or"):
        return compose(Facts(BOOL), f"{name}(", make.condition(1).tree, ")", where)
    if name in ("min", "max"):
        kind = make.present_kind(COMPARABLE) if rng.random() < 0.7 else rng.choice(SELECTABLE)
        value = make.exact_value(kind, 1)
        return compose(value.facts, f"{name}(", value.tree, ")", where)
    return sum_of(make, name, where)


def rare_call(make: Expressions, where: Listed) -> Value:
    """A rare aggregate: of bits, of pairs of values, or one that needs all values at once."""
    rng = make.rng
    name = rng.choice(["bit_and", "bit_or", "bit_xor", "median", "mode", "quantile", "corr", "covar_pop", "regr_slope"])
    if name in ("mode", "quantile"):
        return of_all_values(make, name, where)
    if name.startswith("bit_"):
        value = make.exact_value(INT, 1)
        return compose(Facts(INT, INT_MAX), f"{name}(cast(", value.tree, " as bigint))", where)
    numbers = [make.column(INT, lambda facts: facts.limit <= 2**20) or make.literal(INT) for _ in range(2)]
    facts = Facts(FLOAT, 2**60, exact=False)
    if name == "median":
        return compose(facts, "median(cast(", numbers[0].tree, " as double))", where)
    first, second = numbers[0].tree, numbers[1].tree
    return compose(facts, f"{name}(cast(", first, " as double), cast(", second, " as double))", where)


def ordered_call(make: Expressions, where: Listed) -> Value:
    """An aggregate of values in an order. Rows with equal keys are ordered by the values themselves."""
    rng = make.rng
    name = rng.choice(["string_agg", "string_agg", "array_agg", "array_agg", "first", "last"])
    kind = TEXT if name == "string_agg" else rng.choice([INT, TEXT] if name == "array_agg" else COMPARABLE)
    # One parser takes a constant for the position of a column.
    value = make.column(kind, lambda facts: facts.exact) or compose(Facts(TEXT), "upper('a')")
    if value.kind != kind:
        name = "string_agg"
    elif rng.random() < 0.5:
        value = compose(value.facts, "coalesce(", value.tree, ", ", value.tree, ")")
    key = (make.column(make.present_kind(COMPARABLE), lambda facts: facts.exact) or value).tree
    distinct = rng.random() < 0.3 and name in ("string_agg", "array_agg")
    keys: list[Part] = [key, rng.choice([" nulls first, ", " desc nulls last, "])]
    last = rng.choice([" nulls last", " desc nulls first"])
    order = Fixed(" order by ", *([] if distinct else keys), value.tree, last)
    before = f"{name}({'distinct ' if distinct else ''}"
    if name == "string_agg":
        return compose(Facts(TEXT), before, Fixed(value.tree), ", ','", order, ")", where)
    if name == "array_agg":
        of_lists = next(lists for lists, element in ELEMENTS.items() if element == kind)
        if kind == INT:
            # DuckDB does not cast lists of narrow integers to lists of wide ones.
            value = compose(value.facts, "cast(", value.tree, " as bigint)")
            order = Fixed(" order by ", *([] if distinct else keys), value.tree, last)
        return compose(replace(value.facts, kind=of_lists), before, Fixed(value.tree), order, ")", where)
    return compose(value.facts, Dialects(f"{name}(", f"{name}_value("), Fixed(value.tree), order, ")", where)


def of_all_values(make: Expressions, name: str, where: Listed) -> Value:
    """mode, with the first in an order if several values are most frequent, or a quantile."""
    rng = make.rng
    value = make.exact_value(make.present_kind(COMPARABLE), 1)
    if name == "mode":
        # One parser refuses constants in ORDER BY.
        value = make.column(make.present_kind(COMPARABLE), lambda facts: facts.exact) or compose(
            Facts(TEXT), "upper('a')"
        )
        order = rng.choice([" order by ", " order by "]), value.tree, rng.choice(["", " desc"])
        return compose(value.facts, "mode(", Fixed(value.tree, *order), ")", where)
    return compose(
        value.facts, "quantile_disc(", value.tree, f", {rng.choice(['0', '0.25', '0.5', '0.9', '1'])})", where
    )


def sum_of(make: Expressions, name: str, where: Listed) -> Value:
    """sum, avg and similar aggregates, of values whose sums are exact in any order."""
    rng = make.rng
    kind = rng.choice([INT, INT, FLOAT, rng.choice(DECIMALS)])
    value = make.exact_value(kind, 2)
    if kind == INT and value.facts.limit > 2**38:
        value = make.literal(INT)
    if kind == FLOAT and (value.facts.limit > 2**20 or (not value.facts.finite and name not in ("sum", "avg"))):
        value = make.column(FLOAT, lambda facts: facts.finite and facts.limit <= 2**20) or make.literal(FLOAT)
    if name in ("sum", "sum distinct"):
        distinct = "distinct " if " " in name else ""
        if kind in (INT, FLOAT):
            facts = Facts(kind, value.facts.limit * ROWS_MAX, value.facts.finite)
            # DuckDB returns a wider type for narrow integers. Both return doubles for floats.
            text = "bigint" if kind == INT else "double"
            return compose(facts, f"cast(sum({distinct}", value.tree, ")", where, f" as {text})")
        # The sum has 38 digits in DuckDB, and ten more than the argument in qcore.
        wide = Kind("decimal", 38, kind.scale)
        return compose(Facts(wide, 10**37), f"cast(sum({distinct}", value.tree, ")", where, f" as {wide})")
    if name.startswith(("stddev", "var")) and value.facts.limit > 2**20:
        value = make.literal(INT)
    # The average of decimals is a double in DuckDB and a decimal in qcore.
    facts = Facts(FLOAT, 2**60, value.facts.finite, exact=False)
    name, distinct = name.split(" ")[0], "distinct " if " " in name else ""
    return compose(facts, f"{name}({distinct}cast(", value.tree, " as double))", where)


def call_in_window(make: Expressions) -> Value:
    """An aggregate to write before OVER. Sums of infinities are NaN in every frame."""
    rng = make.rng
    where = optional(None)
    if rng.random() < 0.15:
        where = optional(make.condition(1).tree, before=" filter (where ", after=")")
    name = rng.choice(
        ["count(*)", "count", "count distinct", "sum", "min", "max", "avg", "bool_and", "bool_or"]
        + ["median", "mode", "quantile"]
    )
    if name in ("mode", "quantile"):
        return of_all_values(make, name, where)
    if name == "median":
        value = make.column(INT, lambda facts: facts.limit <= 2**20) or make.literal(INT)
        return compose(Facts(FLOAT, 2**60, exact=False), "median(cast(", value.tree, " as double))", where)
    if name == "count(*)":
        return compose(Facts(INT, ROWS_MAX), "count(*)", where)
    if name in ("bool_and", "bool_or"):
        return compose(Facts(BOOL), f"{name}(", make.condition(1).tree, ")", where)
    if name == "count distinct":
        value = make.exact_value(make.present_kind(COMPARABLE), 1)
        return compose(Facts(INT, ROWS_MAX), "count(distinct ", value.tree, ")", where)
    kind = rng.choice([INT, INT, FLOAT, DECIMALS[0], DECIMALS[2]]) if name in ("sum", "avg") else None
    if kind is None:
        kind = make.present_kind(COMPARABLE)
        value = make.exact_value(kind, 1)
        return compose(Facts(INT, ROWS_MAX) if name == "count" else value.facts, f"{name}(", value.tree, ")", where)
    value = make.exact_value(kind, 1)
    if value.facts.limit > 2**30:
        value = make.literal(kind)
    if name == "avg":
        facts = Facts(FLOAT, 2**60, value.facts.finite, exact=False)
        return compose(facts, "avg(cast(", value.tree, " as double))", where)
    if kind.family == "decimal":
        return compose(Facts(Kind("decimal", 38, kind.scale), 10**20), "sum(", value.tree, ")", where)
    return compose(Facts(kind, value.facts.limit * ROWS_MAX, value.facts.finite), "sum(", value.tree, ")", where)
