"""The errors that qcore raises."""

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
    """A setting of a session or task has an invalid value."""
