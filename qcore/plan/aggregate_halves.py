"""An Aggregate as a partial and a final step, for rows in several tasks."""

from __future__ import annotations

from qcore.plan.aggregate_calls import aggregate_steps
from qcore.plan.nodes import Aggregate, AggregateStep, PlanNode, Scan


def partial_step(node: Aggregate, id: str) -> AggregateStep:
    """The step that turns the rows of the node's child into keys and partial states.

    Raises
    ------
    PlanError
        The engine cannot run the aggregate.
    """
    return AggregateStep(id, aggregate_steps(node).partial_schema, node.child, "partial", _whole(node))


def final_step(node: Aggregate, id: str, states: PlanNode) -> AggregateStep:
    """The step that turns the rows of all partial steps into the node's output."""
    return AggregateStep(id, node.schema, states, "final", _whole(node))


def has_partial_states(node: Aggregate) -> bool:
    """Whether an aggregate without grouping sets can run in two steps. PlanError if the engine cannot run it at all."""
    return not aggregate_steps(node).needs_all_rows


def _whole(node: Aggregate) -> Aggregate:
    """The node over a stand-in for its rows, so that a step does not hold its input twice."""
    names = tuple(node.child.schema.names)
    return node.with_fields(child=Scan(f"{node.id}.rows", node.child.schema, "rows", None, names))
