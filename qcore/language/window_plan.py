"""Window functions: which there are, and the types they give. Floor P2. SPEC Q2."""

from __future__ import annotations

import pyarrow as pa

from qcore.language.aggregate_functions import KEEP_VALUES, aggregate_type, is_aggregate
from qcore.language.plan import WindowCall
from qcore_ext.ground.status import PlanError

# Whole numbers that come of a row's place in its partition.
PLACES = frozenset({"row_number", "rank", "dense_rank", "ntile", "partition_rows"})
FRACTIONS = frozenset({"percent_rank", "cume_dist"})
# Values of another row; of these, the numbered say which.
NUMBERED = frozenset({"lag", "lead", "nth_value"})
VALUES = NUMBERED | {"first_value", "last_value"}


def is_window_function(name: str) -> bool:
    """Whether a window may compute it."""
    return name in PLACES | FRACTIONS | VALUES or (is_aggregate(name) and name not in KEEP_VALUES)


def window_type(call: WindowCall, schema: pa.Schema) -> pa.DataType:
    """Type of the call's column over rows of this schema. PlanError for arguments the function does not take."""
    if call.function in PLACES:
        return pa.int64()
    if call.function in FRACTIONS:
        return pa.float64()
    types = [schema.field(name).type for name in (call.argument, call.second) if name is not None]
    return types[0] if call.function in VALUES else aggregate_type(call.function, types)


def check_window_function(name: str) -> None:
    """PlanError for a function that no window computes."""
    if name in KEEP_VALUES:
        raise PlanError(f"{name} has no frames; use it with GROUP BY")
    if not is_window_function(name):
        known = ", ".join(sorted((PLACES | FRACTIONS | VALUES) - {"partition_rows"}))
        raise PlanError(f"there is no window function {name!r}; there are {known}, and the aggregates")


def range_unit(type_: pa.DataType) -> int:
    """What a distance of 1 in a RANGE frame is in the smallest units of the column ordered by."""
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)):
        raise PlanError(f"a RANGE frame with a distance over {type_} is not supported yet; order by a number")
    return 10**type_.scale if pa.types.is_decimal(type_) else 1
