"""Every error qcore raises on purpose. Floor P0."""

from __future__ import annotations

from qcore_ext.ground.status import (
    Cancelled,
    ExecutionError,
    MemoryLimitError,
    PlanError,
    QcoreError,
    SchemaChangeError,
    SchemaConflictError,
    Timeout,
)

__all__ = [
    "Cancelled",
    "ExecutionError",
    "MemoryLimitError",
    "PlanError",
    "QcoreError",
    "SchemaChangeError",
    "SchemaConflictError",
    "Timeout",
]
