"""A plan over the batches that Spark passes to mapInArrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qcore.connectors.arrow import StreamTable
from qcore.errors import PlanError
from qcore.plan import nodes as p
from qcore.session.task import LoweredPlans, Task
from qcore.spark.frames import in_layout, spark_arrow_schema, spark_schema
from qcore.spark.plan_bytes import plan_from_bytes, plan_to_bytes


class MappedStage:
    """The function that qcore.spark.stage() returns. Executors need qcore to call it.

    Attributes
    ----------
    plan : bytes
        The plan (qcore.spark.plan_bytes).
    """

    def __init__(self, plan: p.PlanNode) -> None:
        sources = [node for node in plan.walk() if isinstance(node, p.Scan) and node.source is None]
        if len(sources) != 1:
            raise PlanError(
                f"a stage for mapInArrow has one scan without a source, which reads the DataFrame, and this plan has "
                f"{len(sources)}: PlanBuilder().scan(name, schema=…)"
            )
        self.plan = plan_to_bytes(plan)
        self._layout = spark_arrow_schema(LoweredPlans(plan).schema)

    @property
    def schema(self) -> Any:
        """The pyspark.sql.types.StructType of the rows, the second argument of mapInArrow."""
        return spark_schema(self._layout)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the plan over the batches of one partition."""
        plan = _with_rows(plan_from_bytes(self.plan), batches)
        for batch in Task(plan, drivers=1).run_on_caller():
            yield in_layout(batch, self._layout)


def _with_rows(node: p.PlanNode, batches: Iterator[pa.RecordBatch]) -> p.PlanNode:
    if isinstance(node, p.Scan) and node.source is None:
        held = pa.schema([field.with_name(name) for field, name in zip(node.schema, node.columns, strict=True)])
        rows = (pa.RecordBatch.from_arrays([_as(batch, field) for field in held], schema=held) for batch in batches)
        return node.with_fields(source=StreamTable(pa.RecordBatchReader.from_batches(held, rows)))
    if not node.children:
        return node
    return node.with_children(*(_with_rows(child, batches) for child in node.children))


def _as(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        raise PlanError(f"the DataFrame has no column {field.name!r}; it has {', '.join(batch.schema.names)}")
    column = batch.column(field.name)
    return column if column.type.equals(field.type) else column.cast(field.type)
