"""Further shapes of queries, from other modules, and the weight of each."""

from __future__ import annotations

from sql_fuzz import clauses, correlated, laterals, merged_joins
from sql_fuzz.queries import Shape

SHAPES: dict[Shape, float] = {
    **clauses.SHAPES,
    merged_joins.merged_join: 1.5,
    merged_joins.select_star: 0.3,
    laterals.lateral: 1.0,
    correlated.correlate_subqueries: 2.0,
}
