"""random(): a column of its own below what reads it, so that a row has one value wherever it is named. Floor P2.

No rule of the optimizer copies, moves or shares an operator in Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from qcore.language.naming import NodeIds
from qcore.language.plan import PlanNode, UserOperator
from qcore.protocols import Context, StatelessOperator

RANDOM = "random"


@dataclass(frozen=True)
class RandomColumn(StatelessOperator):
    """Adds a column of numbers from 0 up to, not including, 1."""

    name: str

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns and the numbers."""
        return None if input_schema is None else input_schema.append(pa.field(self.name, pa.float64()))

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its numbers."""
        numbers = pa.array(np.random.default_rng().random(batch.num_rows))
        schema = batch.schema.append(pa.field(self.name, pa.float64()))
        return pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)


def with_random_column(node: PlanNode, ids: NodeIds) -> tuple[PlanNode, str]:
    """The node with such a column, and the column's name."""
    id = ids.new()
    operator = RandomColumn(f"${RANDOM}{id}")
    schema = operator.output_schema(node.schema)
    assert schema is not None
    return UserOperator(id, schema, node, operator), operator.name
