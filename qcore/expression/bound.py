"""A bound expression: an expression with its type."""

from __future__ import annotations

import pyarrow as pa

from qcore.expression.tree import Expr
from qcore.record import record


@record(frozen=True, slots=True)
class Bound:
    """An expression over the columns of one input, with its type.

    Binders pass it upwards, so that the type of an expression is derived once: asking it again at every level of a
    tree costs quadratic time.
    """

    expr: Expr
    type: pa.DataType
