"""random() and uuid(): an operator below the expression adds a column, so that all uses in a row have the same value.

The operator is written in Python, because no rule of the optimizer copies, moves or shares such operators.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from qcore.plan.naming import NodeIds
from qcore.plan.nodes import PlanNode, UserOperator
from qcore.protocols import Context, StatelessOperator
from qcore.record import record

RANDOM = "random"
UUID = "uuid"
_TYPES = {RANDOM: pa.float64(), UUID: pa.uuid()}


@record(frozen=True)
class RandomColumn(StatelessOperator):
    """Adds a column of random numbers from 0 (included) to 1 (excluded), or of random UUIDs."""

    name: str
    function: str = RANDOM

    def output_schema(self, input_schema: pa.Schema | None) -> pa.Schema | None:
        """The input's columns, then the random one."""
        return None if input_schema is None else input_schema.append(self._field())

    def execute(self, cx: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, then the random column."""
        schema = batch.schema.append(self._field())
        return pa.RecordBatch.from_arrays([*batch.columns, self._values(batch.num_rows)], schema=schema)

    def _field(self) -> pa.Field:
        return pa.field(self.name, _TYPES[self.function])

    def _values(self, n: int) -> pa.Array:
        if self.function == UUID:
            return _random_uuids(n)
        return pa.array(np.random.default_rng().random(n))


def _random_uuids(n: int) -> pa.Array:
    """UUIDs of version 4: of their 128 bits six are fixed."""
    raw = np.frombuffer(bytearray(os.urandom(16 * n)), np.uint8).reshape(n, 16)
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    return pa.Array.from_buffers(pa.uuid(), n, [None, pa.py_buffer(raw)])


def add_random_column(node: PlanNode, ids: NodeIds, function: str = RANDOM) -> tuple[PlanNode, str]:
    """The node with a random column, and the column's name."""
    id = ids.new()
    operator = RandomColumn(f"${function}{id}", function)
    schema = operator.output_schema(node.schema)
    assert schema is not None
    return UserOperator(id, schema, node, operator), operator.name
