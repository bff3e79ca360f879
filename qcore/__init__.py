"""qcore: a query execution core for Python. Floor P4.

`qcore.sql(text, tables={...})` runs SQL; `PlanBuilder` and `Task` run plans of one's own.
"""

from qcore.aggregate_steps import agg
from qcore.config import VERSION as __version__
from qcore.connectors.base import FileSplit, Split
from qcore.dialect import Dialect
from qcore.errors import (
    Cancelled,
    ExecutionError,
    MemoryLimitError,
    PlanError,
    QcoreError,
    SchemaChangeError,
    Timeout,
)
from qcore.expression import Expr, col, lit
from qcore.output_buffers import OutputBufferManager, OutputBuffers, Pages
from qcore.partition_files import PartitionManifest
from qcore.plan_builder import PlanBuilder
from qcore.polled_query import NativeOperator, PolledQuery, polled
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
from qcore.result import Result
from qcore.session import Session, sql
from qcore.task import Task
from qcore.window_steps import window

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
