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

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qcore.config import VERSION as __version__
from qcore.garbage import pause_garbage_collection

if TYPE_CHECKING:
    from qcore.builder.aggregate_steps import agg
    from qcore.builder.plan_builder import PlanBuilder
    from qcore.builder.window_steps import window
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

# The module of each public name. Modules are imported at the first use of a name: `qcore --help` needs none of them.
_MODULES = {
    "BatchIterator": "qcore.protocols",
    "Blocked": "qcore.protocols",
    "Cancelled": "qcore.errors",
    "Dialect": "qcore.functions.dialect",
    "ExecutionError": "qcore.errors",
    "Expr": "qcore.expression.tree",
    "FileSplit": "qcore.connectors.base",
    "IterOutcome": "qcore.protocols",
    "MemoryLimitError": "qcore.errors",
    "NativeOperator": "qcore.session.polled_query",
    "Operator": "qcore.protocols",
    "OutputBufferManager": "qcore.session.output_buffers",
    "OutputBuffers": "qcore.session.output_buffers",
    "Pages": "qcore.session.output_buffers",
    "PartitionManifest": "qcore.writing.partition_files",
    "PlanBuilder": "qcore.builder.plan_builder",
    "PlanError": "qcore.errors",
    "PollPull": "qcore.protocols",
    "PollPush": "qcore.protocols",
    "PolledQuery": "qcore.session.polled_query",
    "QcoreError": "qcore.errors",
    "Result": "qcore.session.result",
    "SchemaChangeError": "qcore.errors",
    "Session": "qcore.session.session",
    "SinkOperator": "qcore.protocols",
    "SourceOperator": "qcore.protocols",
    "Split": "qcore.connectors.base",
    "StatelessOperator": "qcore.protocols",
    "Task": "qcore.session.task",
    "Timeout": "qcore.errors",
    "agg": "qcore.builder.aggregate_steps",
    "col": "qcore.expression.tree",
    "lit": "qcore.expression.tree",
    "polled": "qcore.session.polled_query",
    "sql": "qcore.session.session",
    "window": "qcore.builder.window_steps",
}

# The function `sql` and the package of the same name share an attribute. The package is imported here, because a later
# import of it would replace the function.
import_module("qcore.sql")
del globals()["sql"]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'qcore' has no attribute {name!r}")
    with pause_garbage_collection():
        value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
