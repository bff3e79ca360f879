"""qcore: a query execution core for Python.

`qcore.sql(text, tables={...})` runs SQL; `PlanBuilder` and `Task` run plans of one's own.
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
from qcore.plan.dialect import Dialect
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
