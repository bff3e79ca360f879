"""Functions of lists, structs and maps by their names in SQL."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Column, Expr, Literal, call, close_lambda
from qcore.expression.types import BOOL, is_list_of_any_layout, is_text, plain
from qcore.functions.dialect import Dialect
from qcore.functions.entries import Build, Table, entry, expr_entry
from qcore.functions.tables.text import text_slice
from qcore.functions.typed import cast, constant, derive_expr, engine_call, literal_value

_EMPTY = pa.list_(pa.null())

# --- making ----------------------------------------------------------------------------------------------------------


def _list(dialect: Dialect, *values: Bound) -> Bound:
    return engine_call("list_value", *values) if values else constant([], _EMPTY)


def _map(dialect: Dialect, *lists: Bound) -> Bound:
    if len(lists) == 1:
        raise PlanError("map takes a list of keys and a list of values; map_from_entries takes a list of pairs")
    if not lists:
        lists = (constant([], _EMPTY), constant([], _EMPTY))
    for values in lists:
        _check_list("map", values)
    return engine_call("map", *lists)


def _check_list(name: str, value: Bound) -> None:
    if not is_list_of_any_layout(plain(value.type)) and not pa.types.is_null(value.type):
        raise PlanError(f"{name} takes lists, not {value.type}")


def _map_from_entries(dialect: Dialect, entries: Bound) -> Bound:
    """A map of a list of structs of two fields."""
    type_ = plain(entries.type)
    pair = plain(type_.value_type) if is_list_of_any_layout(type_) else pa.null()
    if not pa.types.is_struct(pair) or pair.num_fields != 2:
        raise PlanError(f"map_from_entries takes a list of structs of a key and a value, not {entries.type}")
    return engine_call("map", *(each(entries, _field(field.name)) for field in pair))


def _field(name: str) -> Callable[[Expr], Expr]:
    return lambda value: call("struct_extract", value, name)


def each(lists: Bound, build: Callable[[Expr], Expr]) -> Bound:
    """The list of the expressions that `build` returns for the elements."""
    function, others = close_lambda(build(Column("$element")), ("$element",))
    assert not others
    return derive_expr(lambda of: Call("list_transform", (of, function)), lists)


# --- structs ---------------------------------------------------------------------------------------------------------


def _fields(value: Bound, name: str) -> pa.StructType:
    type_ = plain(value.type)
    if not pa.types.is_struct(type_):
        raise PlanError(f"{name} takes a struct, not {value.type}")
    return type_


def _struct_of(dialect: Dialect, *parts: Bound) -> Bound:
    if not parts:
        raise PlanError("a struct needs at least one field")
    return engine_call("struct_pack", *parts)


def _with_fields(name: str, replaces: bool) -> Build:
    """struct_insert(s, name, value, …) adds fields. struct_update also replaces fields."""

    def build(dialect: Dialect, value: Bound, *parts: Bound) -> Bound:
        type_ = _fields(value, name)
        new = {str(literal_value(key)): given for key, given in zip(parts[::2], parts[1::2], strict=True)}
        old = {field.name.lower(): field.name for field in type_}
        if len(parts) % 2 or len(new) < len(parts) // 2:
            raise PlanError(f"{name} takes a struct and fields, each once: {name}(s, a := 1)")
        for key in new:
            if key.lower() in old and not replaces:
                raise PlanError(f"{name}: the struct has a field {key!r} already; struct_update replaces it")
        kept = {field.name: engine_call("struct_extract", value, constant(field.name)) for field in type_}
        for key, given in new.items():
            kept[old.get(key.lower(), key)] = given
        return engine_call("struct_pack", *(part for key, of in kept.items() for part in (constant(key), of)))

    return build


def _struct_extract(dialect: Dialect, value: Bound, key: Bound) -> Bound:
    type_, position = plain(value.type), literal_value(key)
    if pa.types.is_struct(type_) and isinstance(position, int):
        if not 1 <= position <= type_.num_fields:
            raise PlanError(f"the struct has {type_.num_fields} fields, not a field {position}")
        key = constant(type_.field(position - 1).name)
    return engine_call("struct_extract", value, key)


# --- elements --------------------------------------------------------------------------------------------------------


def _element(dialect: Dialect, value: Bound, key: Bound) -> Bound:
    """A subscript: an element of a list from 1, a letter of a text, a field of a struct, the value of a map's key."""
    type_ = plain(value.type)
    if pa.types.is_struct(type_) or pa.types.is_map(type_):
        return _struct_extract(dialect, value, key)
    if is_text(type_):
        return derive_expr(text_slice, value, key, key)
    return engine_call("list_extract", value, key)


def _slice(dialect: Dialect, value: Bound, first: Bound, last: Bound, *step: Bound) -> Bound:
    """A slice of a list or a text, both ends included."""
    if not is_text(value.type):
        return engine_call("list_slice", value, first, last, *step)
    if step:
        raise PlanError("a slice of a text has no step")
    return derive_expr(text_slice, value, first, last)


# --- searching -------------------------------------------------------------------------------------------------------


def has_nulls(held: Expr) -> Expr:
    """Whether an element of a list is null."""
    return call("greater", Call("list_length", (held,)), Call("list_count", (held,)))


def equals_any(value: Bound, held: Bound) -> Bound:
    """value = ANY(held): null if no element is equal and one is null."""
    contained = engine_call("list_contains", held, value)

    def build(found: Expr, of: Expr) -> Expr:
        return Case(((found, found), (has_nulls(of), Literal(None, BOOL))), found)

    return derive_expr(build, contained, held)


def any_of(operator: str, value: Bound, held: Bound) -> Bound:
    """value operator ANY(held), for the engine's name of a comparison."""
    _check_list("ANY", held)
    if operator == "equal":
        return equals_any(value, held)
    low, high = engine_call("list_min", held), engine_call("list_max", held)
    if operator == "not_equal":
        tests = [engine_call("not_equal", value, bound) for bound in (low, high)]
        found = derive_expr(lambda a, b: Call("or", (a, b)), *tests)
    else:
        found = engine_call(operator, value, low if operator.startswith("greater") else high)

    def build(test: Expr, of: Expr, sought: Expr) -> Expr:
        unknown = Call("or", (Call("is_null", (of,)), Call("is_true", (has_nulls(of),))))
        is_open = Call("and", (Call("is_null", (sought,)), call("greater", Call("list_length", (of,)), 0)))
        yes, null, no = (Literal(truth, BOOL) for truth in (True, None, False))
        return Case(((Call("is_true", (test,)), yes), (unknown, null), (is_open, null)), no)

    return derive_expr(build, found, held, value)


_NEGATED = {
    "equal": "not_equal", "not_equal": "equal", "less": "greater_equal", "less_equal": "greater",
    "greater": "less_equal", "greater_equal": "less",
}  # fmt: skip


def all_of(operator: str, value: Bound, held: Bound) -> Bound:
    """value operator ALL(held)."""
    return engine_call("not", any_of(_NEGATED[operator], value, held))


def _contains(dialect: Dialect, held: Bound, wanted: Bound) -> Bound:
    if is_text(held.type):
        return engine_call("contains", held, wanted)
    if pa.types.is_map(plain(held.type)):
        held = engine_call("map_keys", held)
    return engine_call("list_contains", held, wanted)


def _length(dialect: Dialect, value: Bound) -> Bound:
    if plain(value.type) == pa.binary():
        return engine_call("octet_length", value)
    return engine_call("length", value)


def _is_empty(lists: Expr) -> Expr:
    return call("equal", Call("list_length", (lists,)), 0)


def _first(position: int) -> Build:
    return lambda dialect, value: _element(dialect, value, constant(position))


def _cut(first: int, last: int) -> Build:
    return lambda dialect, lists: engine_call("list_slice", lists, constant(first), constant(last))


def _sort_lists(order: str) -> Build:
    def build(dialect: Dialect, lists: Bound, *options: Bound) -> Bound:
        given = [value.upper() for value in map(_option, options)]
        falls, nulls = order, "NULLS LAST"
        for word in given:
            if word in ("ASC", "DESC"):
                falls = word
            elif word in ("NULLS FIRST", "NULLS LAST"):
                nulls = word
            else:
                raise PlanError(f"the order of a list is 'ASC' or 'DESC', 'NULLS FIRST' or 'NULLS LAST', not {word!r}")
        return engine_call("list_sort", lists, constant(falls), constant(nulls))

    return build


def _option(value: Bound) -> str:
    text = literal_value(value)
    if not isinstance(text, str):
        raise PlanError("the order of a list is a text literal: 'ASC' or 'DESC', 'NULLS FIRST' or 'NULLS LAST'")
    return text


def _select(dialect: Dialect, lists: Bound, positions: Bound) -> Bound:
    """The elements at these positions."""

    def build(of: Expr, at: Expr) -> Expr:
        body = call("list_extract", Column("$of"), Column("$position"))
        function, _ = close_lambda(body, ("$position",))
        made = Call("list_transform", (at, function, of))
        return Case(((Call("is_not_null", (of,)), made),))

    return derive_expr(build, lists, positions)


def _where(dialect: Dialect, lists: Bound, mask: Bound) -> Bound:
    """The elements where the other list is true."""
    pairs = engine_call("list_zip", lists, mask)
    function, _ = close_lambda(call("struct_extract", Column("$pair"), "2"), ("$pair",))
    kept = derive_expr(lambda of: Call("list_filter", (of, function)), pairs)
    made = each(kept, lambda pair: call("struct_extract", pair, "1"))

    def build(of: Expr, by: Expr, result: Expr) -> Expr:
        return Case(((Call("and", (Call("is_not_null", (of,)), Call("is_not_null", (by,)))), result),))

    return derive_expr(build, lists, mask, made)


def _string_agg(dialect: Dialect, lists: Bound, *between: Bound) -> Bound:
    return engine_call("array_to_string", lists, *(between or (constant(","),)))


def _map_contains(part: str) -> Build:
    return lambda dialect, of, wanted: engine_call("list_contains", engine_call(part, of), wanted)


def _map_value(dialect: Dialect, of: Bound, key: Bound) -> Bound:
    return (
        engine_call("struct_extract", of, key)
        if not pa.types.is_map(plain(of.type))
        else engine_call("list_extract", engine_call("map_extract", of, key), constant(1))
    )


def _bool_of(extreme: str) -> Build:
    return lambda dialect, lists: cast(engine_call(extreme, lists), BOOL)


_SAME_LIST = (
    "append", "prepend", "concat", "distinct", "reverse", "sum", "min", "max", "zip", "any_value", "resize", "filter",
    "transform", "reduce", "grade_up", "has_any", "has_all", "intersect", "position", "slice", "length",
)  # fmt: skip
_VECTORS = ("distance", "inner_product", "negative_inner_product", "cosine_similarity", "cosine_distance")
LISTS: Table = {
    "list_value": entry("[any], …", "list", _list),
    "list_pack": "list_value",
    "make_array": "list_value",
    "array_value": "list_value",
    "struct_pack": entry("name, any, …", "struct", _struct_of),
    "named_struct": "struct_pack",
    "struct": "row",
    "struct_insert": entry("struct, name, any, …", "struct", _with_fields("struct_insert", False)),
    "struct_update": entry("struct, name, any, …", "struct", _with_fields("struct_update", True)),
    "struct_extract": entry("struct, name or position; map, key", "the field", _struct_extract),
    "get_field": "struct_extract",
    "map": entry("[list], [list]", "map", _map),
    "map_from_entries": entry("list of structs", "map", _map_from_entries),
    "map_contains": entry("map, key", "boolean", _map_contains("map_keys")),
    "map_contains_value": entry("map, any", "boolean", _map_contains("map_values")),
    "map_extract_value": entry("map, key", "the value", _map_value),
    "[]": entry("list, integer; text, integer; struct, name; map, key", "the element", _element),
    "[:]": entry("list or text, integer, integer, [integer]", "as the first", _slice),
    "array_extract": "[]",
    "list_element": "[]",
    "array_element": "[]",
    "array_slice": "[:]",
    "list_slice": "[:]",
    "length": entry("text or bytes or list", "integer", _length),
    "cardinality": "list_length",
    "size": "list_length",
    "empty": expr_entry("list", "boolean", _is_empty),
    "contains": entry("text, text; list, any", "boolean", _contains),
    **dict.fromkeys(("list_contains", "list_has", "array_contains", "array_has"), "contains"),
    "list_contains_all": "list_has_all",
    "list_first": entry("list", "the element", _first(1)),
    "list_last": entry("list", "the element", _first(-1)),
    "array_first": "list_first",
    "array_last": "list_last",
    "list_indexof": "list_position",
    "array_indexof": "list_position",
    "list_cat": "list_concat",
    "array_cat": "list_concat",
    "array_push_back": "list_append",
    "array_push_front": entry("list, any", "list", lambda dialect, of, new: engine_call("list_prepend", new, of)),
    "array_pop_back": entry("list", "list", _cut(1, -2)),
    "array_pop_front": entry("list", "list", _cut(2, -1)),
    "array_remove_all": "list_remove",
    "list_sort": entry("list, [text], [text]", "list", _sort_lists("ASC")),
    "array_sort": "list_sort",
    "list_reverse_sort": entry("list, [text], [text]", "list", _sort_lists("DESC")),
    "array_reverse_sort": "list_reverse_sort",
    "list_select": entry("list, list of integer", "list", _select),
    "array_select": "list_select",
    "list_where": entry("list, list of boolean", "list", _where),
    "array_where": "list_where",
    "list_string_agg": entry("list, [text]", "text", _string_agg),
    "list_bool_and": entry("list of boolean", "boolean", _bool_of("list_min")),
    "list_bool_or": entry("list of boolean", "boolean", _bool_of("list_max")),
    "list_unique": "list_count_distinct",
    "array_unique": "list_count_distinct",
    "list_approx_count_distinct": "list_count_distinct",
    "list_dot_product": "list_inner_product",
    "list_negative_dot_product": "list_negative_inner_product",
    "array_dot_product": "list_inner_product",
    "array_negative_dot_product": "list_negative_inner_product",
    **{f"array_{name}": f"list_{name}" for name in (*_SAME_LIST, *_VECTORS) if name != "slice"},
    "arrays_zip": "list_zip",
    "list_apply": "list_transform",
    "array_apply": "list_transform",
    "apply": "list_transform",
    "gen_series": "generate_series",
}  # fmt: skip
