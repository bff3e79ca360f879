"""The result of planning a query."""

from __future__ import annotations

from dataclasses import field

from qcore.plan.nodes import PlanNode
from qcore.record import record


@record(frozen=True)
class PlanResult:
    """A plan that a frontend has read.

    Attributes
    ----------
    plan : PlanNode
        Its column names are unique.
    output_names : list of str
        The query's names of the result's columns. A name may occur more than once.
    files : dict
        Paths by table name, for tables that are files named in the plan.
    """

    plan: PlanNode
    output_names: list[str]
    files: dict[str, list[str]] = field(default_factory=dict)
