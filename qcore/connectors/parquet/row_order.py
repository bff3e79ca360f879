"""The order of a table's row groups by a column."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa

from qcore.connectors.parquet.footer import ParquetFooter
from qcore.plan.row_order import RowOrder

# More row groups than this have no order: each driver searches the fences.
GROUPS_MAX = 1 << 14


def order_of_row_groups(footers: Sequence[ParquetFooter], field: pa.Field) -> RowOrder | None:
    """Return the bounds of a column in the row groups as fences; None if two row groups may share other values.

    Only for columns that all files have, as integers of the declared type, without nulls. The bounds of a footer are
    trusted as for pruning.
    """
    if not pa.types.is_integer(field.type) or field.type == pa.uint64():
        return None
    if sum(len(footer.group_rows) for footer in footers) > GROUPS_MAX:
        return None
    ranges: list[tuple[int, int]] = []
    for footer in footers:
        if footer.schema.get_field_index(field.name) < 0 or footer.schema.field(field.name).type != field.type:
            return None
        for group, n_rows in enumerate(footer.group_rows):
            bounds = footer.bounds(group, field.name)
            if n_rows == 0:
                continue
            if bounds is None or bounds.has_nulls or not (type(bounds.low) is type(bounds.high) is int):
                return None
            ranges.append((bounds.low, bounds.high))
    ranges.sort()
    if not ranges or any(high > low for (_, high), (low, _) in itertools.pairwise(ranges)):
        return None
    fences = sorted(set(itertools.chain.from_iterable(ranges)))
    return RowOrder(tuple(fences)) if len(fences) > 1 else None
