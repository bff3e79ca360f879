"""Every error qcore raises on purpose."""

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
    "SettingError",
    "Timeout",
]


class SettingError(PlanError, ValueError):
    """A setting of a session or task has a value that makes no sense."""
