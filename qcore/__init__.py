"""qcore: a query execution engine for Python.

- `qcore.sql(text, tables={...})` runs SQL over files, Arrow data and frames. `Session` keeps tables between queries.
- `PlanBuilder` builds plans in Python; `Session.execute` and `Task` run them.
- `Operator`, `SourceOperator`, `SinkOperator`, `StatelessOperator` and `BatchIterator` are base classes of operators
  written in Python.

Every error is a `QcoreError`.

>>> import pyarrow as pa, qcore
>>> qcore.sql("select sum(a) as s from t", {"t": pa.table({"a": [1, 2, 3]})}).to_arrow().to_pylist()
[{'s': 6}]
"""

from qcore.builder.aggregate_steps import agg
from qcore.builder.plan_builder import PlanBuilder
from qcore.builder.window_steps import window
from qcore.config import VERSION as __version__
from qcore.connectors.base import FileSplit, Split
from qcore.errors import (
    Cancelled,
    ExecutionError,
    MemoryLimitError,
    PlanError,
    QcoreError,
    SchemaChangeError,
    Timeout,
)
from qcore.expression.tree import Expr, col, lit
from qcore.functions.dialect import Dialect
from qcore.protocols import (
    BatchIterator,
    Blocked,
    IterOutcome,
    Operator,
    PollPull,
    PollPush,
    SinkOperator,
    SourceOperator,
    StatelessOperator,
)
from qcore.session.output_buffers import OutputBufferManager, OutputBuffers, Pages
from qcore.session.polled_query import NativeOperator, PolledQuery, polled
from qcore.session.result import Result
from qcore.session.session import Session, sql
from qcore.session.task import Task
from qcore.writing.partition_files import PartitionManifest

__all__ = [
    "BatchIterator",
    "Blocked",
    "Cancelled",
    "ExecutionError",
    "Expr",
    "FileSplit",
    "IterOutcome",
    "MemoryLimitError",
    "NativeOperator",
    "Operator",
    "OutputBufferManager",
    "OutputBuffers",
    "Pages",
    "PartitionManifest",
    "PlanBuilder",
    "PlanError",
    "PollPull",
    "PollPush",
    "PolledQuery",
    "QcoreError",
    "Result",
    "SchemaChangeError",
    "Session",
    "Dialect",
    "SinkOperator",
    "SourceOperator",
    "Split",
    "StatelessOperator",
    "Task",
    "Timeout",
    "__version__",
    "agg",
    "col",
    "lit",
    "polled",
    "sql",
    "window",
]
