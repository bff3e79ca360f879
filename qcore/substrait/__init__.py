"""Substrait plans → qcore plans. SPEC Q1, B3."""

from __future__ import annotations

from qcore.plan.result import PlanResult
from qcore.substrait.plan import read_substrait

__all__ = ["PlanResult", "read_substrait"]
