"""Programs of an aggregation whose input columns have wider types than the plan declares."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Cast, Expr
from qcore.functions.catalogue import expr_type
from qcore.lowering.compile import compile_projection
from qcore.lowering.retyping import Programs
from qcore.plan.aggregate_calls import AggregateSteps, Named


def compile_inputs(steps: AggregateSteps, declared: pa.Schema) -> Programs:
    """The Programs of an aggregation's keys, arguments and filters.

    Parameters
    ----------
    steps : AggregateSteps
        Those for `declared`.
    declared : pyarrow.Schema
        The input's schema in the plan.
    """

    def inputs(schema: pa.Schema) -> Named:
        result = list(steps.inputs)
        for position, of in steps.integer_sums.items():
            if not pa.types.is_integer(expr_type(of, schema)):
                result[position] = (result[position][0], of)
        return result

    # Casts of integers before a sum are left out for other types.
    declared_inputs = [steps.integer_sums.get(position, expr) for position, (_, expr) in enumerate(steps.inputs)]
    return Programs(lambda schema: compile_projection(inputs(schema), schema), declared_inputs, declared)


def compile_post(steps: AggregateSteps) -> Programs:
    """The Programs of the node's outputs over an aggregation's results.

    A result that is wider than declared is not cast to the type in the plan.
    """

    def outputs(schema: pa.Schema) -> Named:
        return [(name, _uncast(expr, schema) if name in steps.cast else expr) for name, expr in steps.post]

    def _uncast(expr: Expr, schema: pa.Schema) -> Expr:
        assert isinstance(expr, Cast)
        argument = expr.argument
        return expr if expr_type(argument, schema) == expr_type(argument, steps.final_schema) else argument

    return Programs(lambda schema: compile_projection(outputs(schema), schema), [], steps.final_schema)
