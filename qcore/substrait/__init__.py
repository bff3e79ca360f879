"""Substrait plans → qcore plans. SPEC Q1, B3."""

from __future__ import annotations

from qcore.substrait.plan import PlanResult, read_substrait

__all__ = ["PlanResult", "read_substrait"]
