"""Making joins: the choice of keys among the conditions, and keys of one type on both sides."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.scalars import scalar_of
from qcore.expression.tree import Call, Cast, Column, Expr, Literal, call, column_names
from qcore.expression.types import UUID, common_type, compares_by_bytes, is_temporal, plain, shown_type
from qcore.functions.catalogue import expr_type
from qcore.plan.naming import ColumnNames, NodeIds
from qcore.plan.nodes import HashJoin, NestedLoopJoin, PlanNode
from qcore.plan.projections import add_columns
from qcore.plan.schema import MARK, join_schema, same_type

KeyPair = tuple[Expr, Expr]


def make_join(
    ids: NodeIds,
    kind: str,
    left: PlanNode,
    right: PlanNode,
    conditions: Sequence[Expr],
    mark: str = MARK,
    id: str | None = None,
) -> PlanNode:
    """The join of two inputs on all `conditions`: a hash join when one of them is an equality of the two sides.

    A Project below computes keys that are not columns, or that need a cast. The join's output includes these columns.
    """
    pairs, rest = split_conditions(conditions, left.schema, right.schema)
    return join_on_keys(ids, kind, left, right, pairs, rest, mark, id)


def join_on_keys(
    ids: NodeIds,
    kind: str,
    left: PlanNode,
    right: PlanNode,
    pairs: Sequence[KeyPair],
    rest: Sequence[Expr],
    mark: str = MARK,
    id: str | None = None,
) -> PlanNode:
    """The join on key pairs (left, right) and further conditions."""
    condition = conjunction(rest)
    if pairs:
        left, right, left_keys, right_keys = compute_keys(ids, left, right, pairs)
    schema = join_schema(kind, left.schema, right.schema, mark)
    id = id if id is not None else ids.new()
    if not pairs:
        return NestedLoopJoin(id, schema, left, right, kind, condition)
    return HashJoin(id, schema, left, right, kind, left_keys, right_keys, condition)


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    """All parts connected by AND; None for no parts."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts))


def split_conditions(conditions: Sequence[Expr], left: pa.Schema, right: pa.Schema) -> tuple[list[KeyPair], list[Expr]]:
    """Key pairs among the conditions, and the other conditions."""
    pairs: list[KeyPair] = []
    rest: list[Expr] = []
    if not conditions:
        return pairs, rest
    left_names, right_names = set(left.names), set(right.names)
    for condition in conditions:
        pair = _key_pair(condition, left_names, right_names)
        if pair is None:
            rest.append(condition)
        elif isinstance(condition, Call) and condition.function == "is_not_distinct_from":
            pairs += _null_safe_pairs(pair, left, right)
            if _has_null_type(pair, left, right):
                rest.append(condition)
        else:
            pairs.append(pair)
    return pairs, rest


def _key_pair(condition: Expr, left: set[str], right: set[str]) -> KeyPair | None:
    if not isinstance(condition, Call) or condition.function not in ("equal", "is_not_distinct_from"):
        return None
    a, b = condition.arguments
    of_a, of_b = column_names(a), column_names(b)
    if not of_a or not of_b:
        return None
    if of_a <= left and of_b <= right:
        return a, b
    if of_a <= right and of_b <= left:
        return b, a
    return None


def _has_null_type(pair: KeyPair, left: pa.Schema, right: pa.Schema) -> bool:
    return pa.types.is_null(common_type([expr_type(pair[0], left), expr_type(pair[1], right)]))


def _null_safe_pairs(pair: KeyPair, left: pa.Schema, right: pa.Schema) -> list[KeyPair]:
    """Key pairs under which null equals null: the value with a constant for null, and whether it is null."""
    a, b = pair
    nulls = (call("is_null", a), call("is_null", b))
    common = common_type([expr_type(a, left), expr_type(b, right)])
    if _has_null_type(pair, left, right):
        # Sources may still deliver values of any type, and no constant can replace null among all of them.
        # So the condition itself compares the values.
        return [nulls]
    if compares_by_bytes(common):
        a, b, common = call("widening_bytes", a), call("widening_bytes", b), pa.binary()
    zero = _any_value(common)
    return [(call("coalesce", a, zero), call("coalesce", b, zero)), nulls]


def _any_value(type_: pa.DataType) -> Literal:
    type_ = plain(type_)
    if pa.types.is_boolean(type_):
        return Literal(False, type_)
    if pa.types.is_string(type_):
        return Literal("", type_)
    if pa.types.is_binary(type_):
        return Literal(b"", type_)
    if pa.types.is_decimal(type_):
        return Literal(Decimal(0), type_)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or is_temporal(type_) or pa.types.is_duration(type_):
        return Literal(scalar_of(0, type_).as_py(), type_)
    if type_ == UUID:
        return Literal(uuid.UUID(int=0), type_)
    raise PlanError(f"values of type {type_} cannot be compared as null-safe join keys")


def compute_keys(
    ids: NodeIds, left: PlanNode, right: PlanNode, pairs: Sequence[KeyPair]
) -> tuple[PlanNode, PlanNode, tuple[str, ...], tuple[str, ...]]:
    """Both inputs with the keys as columns of equal types."""
    typed = [_unify_types(pair, left.schema, right.schema) for pair in pairs]
    names = ColumnNames([*left.schema.names, *right.schema.names])
    left, left_keys = _key_columns(ids, left, [a for a, _ in typed], names)
    right, right_keys = _key_columns(ids, right, [b for _, b in typed], names)
    return left, right, left_keys, right_keys


def _unify_types(pair: KeyPair, left: pa.Schema, right: pa.Schema) -> KeyPair:
    a, b = pair
    type_a, type_b = expr_type(a, left), expr_type(b, right)
    nested = pa.types.is_nested(type_a) or pa.types.is_nested(type_b)
    if same_type(type_a, type_b) or _same_elements(type_a, type_b):
        return pair
    if nested:
        raise PlanError(f"join keys {a!r} ({type_a}) and {b!r} ({type_b}) are of different nested types; cast one")
    mixed = pa.types.is_string(plain(type_a)) != pa.types.is_string(plain(type_b))
    nulls = pa.types.is_null(type_a) or pa.types.is_null(type_b)
    try:
        if mixed and not nulls:
            raise PlanError("text and other types")
        common = common_type([type_a, type_b])
    except PlanError:
        raise PlanError(
            f"join keys {a!r} ({shown_type(type_a)}) and {b!r} ({shown_type(type_b)}) cannot be compared; cast one to "
            "the other's type"
        ) from None
    return (
        a if same_type(type_a, common) else Cast(a, common),
        b if same_type(type_b, common) else Cast(b, common),
    )


def _same_elements(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether both are lists with elements of the same type. Their layouts may differ."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    both = all(any(is_list(type_) for is_list in lists) for type_ in (a, b))
    return both and (same_type(a.value_type, b.value_type) or _same_elements(a.value_type, b.value_type))


def _key_columns(
    ids: NodeIds, node: PlanNode, keys: Sequence[Expr], names: ColumnNames
) -> tuple[PlanNode, tuple[str, ...]]:
    computed: dict[str, Expr] = {}
    result = []
    for key in keys:
        if isinstance(key, Column):
            result.append(key.name)
            continue
        columns = sorted(column_names(key))
        name = names.new(f"{columns[0]}_key")
        computed[name] = key
        result.append(name)
    if not computed:
        return node, tuple(result)
    return add_columns(ids.new(), node, computed), tuple(result)
