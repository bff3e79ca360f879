"""The rows of a query without FROM."""

from __future__ import annotations

import pyarrow as pa

from qcore.plan.nodes import PlanNode, Values
from qcore.sql.binder import Binder

# The only column of rows without columns (`select 1`), because a batch has no rows without columns.
_ROW = "$row"


def one_row(binder: Binder) -> PlanNode:
    """One row without columns that a query can name."""
    data = pa.table({binder.names.new(_ROW): pa.nulls(1, pa.bool_())})
    return Values(binder.ids.new(), data.schema, data)
