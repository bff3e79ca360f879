"""Apache Spark: DataFrames as tables of the engine, and queries in Spark's tasks. This package needs pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qcore.plan.nodes import PlanNode
    from qcore.spark.mapped_stage import MappedStage


def stage(plan: PlanNode) -> MappedStage:
    """Return a function for DataFrame.mapInArrow that runs a plan over each partition of a DataFrame.

    Rows cross from the JVM to Python and back, about 1 µs a row each way. For DataFrames of files `qcore.sql(…,
    on=spark)` is faster: its tasks read the files themselves. An aggregate, a join or an order in the plan is one of
    each partition alone.

    Parameters
    ----------
    plan : PlanNode
        A plan with one scan without a source, which reads the DataFrame's columns by name.

    Returns
    -------
    MappedStage
        The function. Its attribute `schema` is the StructType of the rows that it returns.

    Raises
    ------
    PlanError
        The plan has no such scan or several, or something that runs in this process only.

    Examples
    --------
    >>> from qcore import PlanBuilder, col
    >>> import pyarrow as pa, qcore.spark
    >>> scan = PlanBuilder().scan("rows", schema=pa.schema([("id", pa.int64())]))
    >>> function = qcore.spark.stage(scan.filter(col("id") > 5).build())
    >>> batch = pa.record_batch({"id": [4, 5, 6, 7]})
    >>> [row for out in function(iter([batch])) for row in out.to_pylist()]
    [{'id': 6}, {'id': 7}]

    With Spark: `df.mapInArrow(function, function.schema)`.
    """
    from qcore.spark.mapped_stage import MappedStage

    return MappedStage(plan)
