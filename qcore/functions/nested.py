"""Scalar functions that take or make lists, structs and maps: computed over Arrow arrays.

The engine passes nested columns on but does not compute them, so these kernels are arrow calls. Kernels that move whole
arrays use offsets; the others compute value by value in Python.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from qcore.expression.scalars import without_uuids
from qcore.expression.types import (
    BOOL,
    DECIMAL_DIGITS_MAX,
    FLOAT64,
    INT64,
    STRING,
    TypeMismatch,
    Types,
    is_list_of_any_layout,
    is_numeric,
    merged_type,
    plain,
)
from qcore.functions.arrow.calendar import CALENDAR_FUNCTIONS
from qcore.functions.arrow.formats import WRITTEN_FUNCTIONS
from qcore.functions.arrow.list_layouts import large_lists, spans
from qcore.functions.arrow.list_statistics import LIST_STATISTICS
from qcore.functions.arrow.list_vectors import LIST_VECTORS
from qcore.functions.arrow.looking import LOOK_ROWS, look_between, pylist, that_looks
from qcore.functions.arrow.numbers import NUMBER_FUNCTIONS
from qcore.functions.arrow.paths import PATH_FUNCTIONS
from qcore.functions.arrow.scalar import ARROW_FUNCTIONS, ArrowFunction, Kernel, as_array, by_pattern, n_rows
from qcore.functions.arrow.text_distances import TEXT_DISTANCES
from qcore.functions.signatures import MANY, Function, Signature, literal_function, take_types
from qcore.late_module import late_module
from qcore_ext.compute.arrow_call import check_memory
from qcore_ext.data.nested import take_rows

pc = late_module("pyarrow.compute")

# Estimated bytes of a list's element in Python: a pointer in the list, and the value.
_ELEMENT_BYTES = 40

# --- ways to make a kernel ---


def _by_row(function: Callable[..., Any], keeps_null: bool = True) -> Kernel:
    """A kernel of a function of Python values. A null argument gives null unless `keeps_null` is False."""

    def kernel(*arguments: pa.Array | pa.Scalar) -> list[Any]:
        n = n_rows(arguments)
        columns = [pylist(a) if isinstance(a, pa.Array) else [a.as_py()] * n for a in arguments]
        rows = look_between(list(zip(*columns, strict=True)), 1 if _has_lists(arguments) else LOOK_ROWS)
        return [None if keeps_null and None in row else function(*row) for row in map(list, rows)]

    return that_looks(kernel)


def _of_bytes(kernel: Kernel) -> Kernel:
    """A kernel that gets the bytes of UUIDs, because most functions of pyarrow do not take UUIDs."""

    def run(*arguments: pa.Array | pa.Scalar) -> Any:
        types = [without_uuids(argument.type) for argument in arguments]
        return kernel(*(a if a.type == type_ else a.cast(type_) for a, type_ in zip(arguments, types, strict=True)))

    return run


def _has_lists(arguments: Sequence[pa.Array | pa.Scalar]) -> bool:
    return any(pa.types.is_nested(argument.type) for argument in arguments)


def _list_array(value: pa.Array | pa.Scalar, n: int) -> pa.Array:
    """Lists of any layout with offsets of 64 bits."""
    return large_lists(as_array(value, n))


# --- making ---


def _list_value(*arguments: pa.Array | pa.Scalar) -> pa.Array:
    n, width = n_rows(arguments), len(arguments)
    columns = [as_array(argument, n) for argument in arguments]
    order = np.arange(n * width).reshape(width, n).T.ravel()
    values = take_rows(pa.concat_arrays([column.cast(columns[0].type) for column in columns]), pa.array(order))
    return pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * width), values)


def _struct(names: Sequence[str], values: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
    n = n_rows(values)
    return pa.StructArray.from_arrays([as_array(value, n) for value in values], names=list(names))


def _struct_pack(*arguments: pa.Array | pa.Scalar) -> pa.Array:
    names = [argument.as_py() for argument in arguments[::2]]
    return _struct(names, arguments[1::2])


def _row(*arguments: pa.Array | pa.Scalar) -> pa.Array:
    return _struct([f"c{i}" for i in range(len(arguments))], arguments)


def _map(keys: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise ValueError(f"a map takes as many keys as values, not {len(keys)} and {len(values)}")
    if None in keys:
        raise ValueError("a map has no null keys")
    if len(set(map(_key, keys))) < len(keys):
        raise ValueError("a map cannot have a key twice")
    return list(zip(keys, values, strict=True))


# Elements of a list that range() makes: each is a Python integer first, of 32 bytes.
SERIES_MAX = 1 << 24


def _series(*bounds: int, inclusive: bool) -> list[int]:
    start, stop, *step = bounds if len(bounds) > 1 else (0, *bounds)
    by = step[0] if step else 1
    if by == 0:
        raise ValueError("the step of a range cannot be 0")
    numbers = range(start, stop + (0 if not inclusive else 1 if by > 0 else -1), by)
    if (stop - start) // by > SERIES_MAX:
        raise ValueError(f"a list of more than {SERIES_MAX} elements; use FROM range(…), which has no limit")
    check_memory(len(numbers) * _ELEMENT_BYTES)
    return list(look_between(numbers))


# --- taking apart ---


def _length(lists: pa.Array | pa.Scalar) -> pa.Array:
    if isinstance(lists.type, pa.MapType):
        lengths = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
        return pa.array(lengths, INT64, mask=lists.is_null().to_numpy(zero_copy_only=False))
    return pc.list_value_length(lists).cast(INT64)


def _count(value: pa.Array | pa.Scalar) -> pa.Array:
    """The number of elements that are not null."""
    lists = _list_array(value, 1)
    _, lengths = spans(lists)
    present = np.concatenate([[0], np.cumsum(lists.flatten().is_valid().to_numpy(zero_copy_only=False))])
    ends = np.cumsum(lengths)
    counts = present[ends] - present[ends - lengths]
    return pa.array(counts, INT64, mask=lists.is_null().to_numpy(zero_copy_only=False))


def _list_extract(value: pa.Array | pa.Scalar, index: pa.Array | pa.Scalar) -> pa.Array:
    """The element at an index from 1, or from the end if it is negative; null if there is none."""
    n = n_rows([value, index])
    lists = _list_array(value, n)
    starts, lengths = spans(lists)
    at = as_array(index, n).fill_null(0).to_numpy(zero_copy_only=False)
    position = np.where(at > 0, at - 1, lengths + at)
    found = (at != 0) & (position >= 0) & (position < lengths)
    return take_rows(lists.values, pa.array(np.where(found, starts + position, 0), mask=~found))


def _slice(elements: list[Any], start: int, stop: int, step: int = 1) -> list[Any]:
    """Elements `start` to `stop`, both included and counted from 1, or from the end. With a negative step `start` is
    after `stop`.
    """
    if step == 0:
        raise ValueError("the step of a slice cannot be 0")
    if step < 0:
        start, stop = stop, start
    n = len(elements)
    first = max(start if start >= 0 else n + start + 1, 1)
    last = stop if stop >= 0 else n + stop + 1
    return elements[first - 1 : max(last, 0)][::step]


def _struct_extract(value: pa.Array | pa.Scalar, name: pa.Scalar) -> pa.Array:
    array = as_array(value, 1)
    if isinstance(array.type, pa.MapType):
        return pc.map_lookup(array, name.cast(array.type.key_type), "first")
    return pc.struct_field(array, [_field_index(array.type, name.as_py())])


def _field_index(type_: pa.DataType, name: str) -> int:
    """Position of a struct's field of this name; if there is none, of the name in another case."""
    names = [field.name for field in type_]
    same = [i for i, given in enumerate(names) if given == name]
    similar = same or [i for i, given in enumerate(names) if given.lower() == name.lower()]
    if len(similar) != 1:
        raise TypeMismatch(f"the struct has no field {name!r}; it has {', '.join(map(repr, names))}")
    return similar[0]


def _map_items(which: int) -> Kernel:
    return _by_row(lambda entries: [entry[which] for entry in entries])


def _map_extract(entries: list[tuple[Any, Any]], key: Any) -> list[Any]:
    wanted = _key(key)
    return [value for given, value in look_between(entries) if _key(given) == wanted]


# --- searching and computing ---


def _key(value: Any) -> Any:
    """The value by which an element is compared. NaN equals NaN and is larger than all numbers."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return tuple((part is None, None if part is None else _key(part)) for part in value)
    return value


def _contains(value: pa.Array | pa.Scalar, wanted: pa.Array | pa.Scalar) -> pa.Array:
    n = n_rows([value, wanted])
    lists, wanted = _list_array(value, n), as_array(wanted, n)
    if pa.types.is_nested(wanted.type):
        is_there = _by_row(lambda elements, element: _position(elements, element) is not None)
        return pa.array(is_there(lists, wanted), BOOL)
    parents = pc.list_parent_indices(lists)
    elements, sought = lists.flatten(), take_rows(wanted, parents)
    same = pc.fill_null(pc.equal(elements, sought), False)
    if pa.types.is_floating(elements.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(elements), pc.is_nan(sought)), False))
    hits = parents.filter(same).to_numpy(zero_copy_only=False)
    found = np.bincount(hits.astype(np.int64), minlength=n) > 0
    missing = pc.or_(lists.is_null(), wanted.is_null()).to_numpy(zero_copy_only=False)
    return pa.array(found, mask=missing)


def _position(elements: list[Any] | None, wanted: Any) -> int | None:
    """The position of an element, from 1. A null can be found too."""
    if elements is None:
        return None
    key = _key(wanted)
    return next((position for position, element in enumerate(look_between(elements), 1) if _key(element) == key), None)


def _without(elements: list[Any], old: Any) -> list[Any]:
    key = _key(old)
    return [element for element in look_between(elements) if _key(element) != key]


def _has_any(elements: list[Any], others: list[Any]) -> bool:
    keys = set(map(_key, look_between(others)))
    return any(element is not None and _key(element) in keys for element in look_between(elements))


def _has_all(elements: list[Any], others: list[Any]) -> bool:
    keys = set(map(_key, look_between(elements)))
    return all(other is None or _key(other) in keys for other in look_between(others))


def _intersection(elements: list[Any], others: list[Any] | None) -> list[Any]:
    """The elements of the second list that the first also has, without repetitions and nulls."""
    keys = {_key(element) for element in look_between(elements) if element is not None}
    return [other for other in _distinct(others or []) if other is not None and _key(other) in keys]


def _difference(elements: list[Any], others: list[Any]) -> list[Any]:
    """The elements of the first list that the second does not have, without repetitions."""
    keys = set(map(_key, look_between(others)))
    return [element for element in _distinct(elements) if _key(element) not in keys]


def _count_distinct(elements: list[Any]) -> int:
    return len({_key(element) for element in look_between(elements) if element is not None})


def _order(elements: list[Any], order: str = "ASC", nulls: str = "NULLS LAST") -> list[int]:
    """The positions, from 1, of the elements in sorted order."""
    present = [position for position, element in enumerate(elements, 1) if element is not None]
    present.sort(key=lambda position: _key(elements[position - 1]), reverse=order.upper() == "DESC")
    missing = [position for position, element in enumerate(elements, 1) if element is None]
    return missing + present if nulls.upper() == "NULLS FIRST" else present + missing


def _resize(elements: list[Any] | None, size: int | None, filling: Any = None) -> list[Any] | None:
    if elements is None:
        return None
    if (size or 0) < 0:
        raise ValueError(f"a list cannot have {size} elements")
    check_memory((size or 0) * _ELEMENT_BYTES)
    return [*elements, *[filling] * ((size or 0) - len(elements))][: size or 0]


def _join_texts(elements: list[Any], between: str, null: str | None = None) -> str:
    shown = [null if element is None else element for element in elements]
    return between.join(str(element) for element in shown if element is not None)


def _concat(*lists: list[Any] | None) -> list[Any] | None:
    given = [elements for elements in lists if elements is not None]
    return list(itertools.chain.from_iterable(given)) if given else None


def _zip(*lists: list[Any] | None) -> list[Any]:
    """Structs of the lists' elements at the same position, null after the end of a list."""
    pairs = itertools.zip_longest(*(elements or [] for elements in lists))
    return [{str(position): value for position, value in enumerate(pair, 1)} for pair in pairs]


def _distinct(elements: list[Any]) -> list[Any]:
    kept: dict[Any, Any] = {}
    for element in look_between(elements):
        kept.setdefault(_key(element), element)
    return list(kept.values())


def _sort(elements: list[Any], order: str = "ASC", nulls: str = "NULLS LAST") -> list[Any]:
    present = sorted((e for e in elements if e is not None), key=_key, reverse=order.upper() == "DESC")
    missing = [None] * (len(elements) - len(present))
    return missing + present if nulls.upper() == "NULLS FIRST" else present + missing


def _total(elements: list[Any]) -> Any:
    present = [element for element in elements if element is not None]
    with decimal.localcontext(prec=2 * DECIMAL_DIGITS_MAX):
        return sum(present) if present else None


def _extreme(choose: Callable[..., Any]) -> Kernel:
    def choose_element(elements: list[Any]) -> Any:
        present = [element for element in elements if element is not None]
        return choose(look_between(present), key=_key) if present else None

    return _by_row(choose_element)


def _split_regex(text: pa.Array, pattern: str) -> pa.Array:
    return pc.split_pattern_regex(text, pattern)


def _split(text: str, between: str, null: str | None = None) -> list[str | None]:
    parts = text.split(between) if between else list(text)
    return [None if part == null else part for part in parts]


def _case(*arguments: pa.Array | pa.Scalar) -> pa.Array:
    """CASE: condition, value, …, the last value. The arguments have no null constants."""
    n = n_rows(arguments)
    conditions = [pc.fill_null(as_array(argument, n), False) for argument in arguments[:-1:2]]
    values = [as_array(argument, n) for argument in (*arguments[1:-1:2], arguments[-1])]
    chosen = np.full(n, len(conditions))
    for number in reversed(range(len(conditions))):
        chosen[conditions[number].to_numpy(zero_copy_only=False)] = number
    together = pa.concat_arrays([value.cast(values[0].type) for value in values])
    return take_rows(together, pa.array(chosen * n + np.arange(n)))


# Converts a part of nested values that is not nested to another type.
PartCast = Callable[[pa.Array, pa.DataType], pa.Array]


def with_type(array: pa.Array, type_: pa.DataType, cast: PartCast = pa.Array.cast) -> pa.Array:
    """Nested values as another nested type: structs by position, elements and fields by `cast`."""
    if array.type == type_:
        return array
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        parts = [with_type(array.field(i), field.type, cast) for i, field in enumerate(type_)]
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=array.is_null())
    if is_list_of_any_layout(type_) and is_list_of_any_layout(array.type):
        lists = _list_array(array, len(array))
        _, lengths = spans(lists)
        values = with_type(lists.flatten(), type_.value_type, cast)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        mask = lists.is_null() if lists.null_count else None
        made = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)
        return made.cast(type_)
    is_part = not pa.types.is_nested(array.type) and not pa.types.is_nested(type_)
    return cast(array, type_).cast(type_) if is_part else array.cast(type_)


# --- signatures ---


def element_type(type_: pa.DataType) -> pa.DataType:
    """The type of a list's elements. TypeMismatch for another type."""
    if pa.types.is_null(type_):
        return type_
    if not is_list_of_any_layout(type_):
        raise TypeMismatch(f"it takes a list, not {type_}")
    return type_.value_type


def _of_list(
    result: Callable[[pa.DataType], pa.DataType], *more: pa.DataType, optional: int = 0, gives: str = "as the list"
) -> Function:
    """A function of a list. Its result type depends on the elements' type."""

    def resolve(types: Types) -> Signature:
        if pa.types.is_map(types[0]) and not more and result(INT64) == INT64:
            return Signature(INT64, tuple(types))
        return Signature(result(element_type(types[0])), (types[0], *more[: len(types) - 1]))

    words = ", ".join(["list", *("integer" if type_ == INT64 else "text" for type_ in more)])
    return Function(1 + len(more) - optional, 1 + len(more), resolve, words, gives)


def _with_element(result: pa.DataType | None, list_first: bool = True) -> Function:
    """A function of a list and an element. It returns the list if `result` is None."""

    def resolve(types: Types) -> Signature:
        lists, element = types if list_first else types[::-1]
        common = merged_type([plain(element_type(lists)), element])
        of = pa.list_(common)
        return Signature(result or of, (of, common) if list_first else (common, of))

    return Function(2, 2, resolve, "list, element" if list_first else "element, list", "list or as named")


def _resize_types() -> Function:
    def resolve(types: Types) -> Signature:
        common = merged_type([plain(element_type(types[0])), *types[2:]])
        return Signature(pa.list_(common), (pa.list_(common), INT64, *(common for _ in types[2:])))

    return Function(2, 3, resolve, "list, integer, [element]", "list")


def _lists(result: pa.DataType | None, fewest: int = 1, most: int = MANY) -> Function:
    """A function of lists of one type."""

    def resolve(types: Types) -> Signature:
        of = pa.list_(merged_type([plain(element_type(type_)) for type_ in types]))
        return Signature(result or of, (of,) * len(types))

    return Function(fewest, most, resolve, "list, …", "list" if result is None else "boolean")


def _value(types: Types) -> Signature:
    common = merged_type(types)
    return Signature(pa.list_(common), (common,) * len(types))


def _row_of(types: Types) -> Signature:
    return Signature(pa.struct([(f"c{i}", type_) for i, type_ in enumerate(types)]), tuple(types))


def _pack(types: Types, literals: Sequence[Any]) -> Signature:
    names = literals[::2]
    if len(types) % 2 or not all(isinstance(name, str) for name in names):
        raise TypeMismatch("it takes names, as text literals, and their values")
    if len(set(names)) < len(names):
        raise TypeMismatch("a struct cannot have a field twice")
    return Signature(pa.struct(list(zip(names, types[1::2], strict=True))), tuple(types))


def _field_of(types: Types, literals: Sequence[Any]) -> Signature:
    nested, name = types[0], literals[1]
    if pa.types.is_map(nested):
        return Signature(nested.item_type, (nested, nested.key_type))
    if not pa.types.is_struct(nested) or not isinstance(name, str):
        raise TypeMismatch("it takes a struct and a field's name as a text literal, or a map and a key")
    return Signature(nested.field(_field_index(nested, name)).type, tuple(types))


def _map_of(types: Types) -> Signature:
    keys, values = types
    if pa.types.is_null(element_type(keys)) or pa.types.is_null(keys):
        # Arrow has no maps with keys of the null type. Such maps are empty, or their keys are null, which is an error.
        keys = pa.list_(STRING)
    return Signature(pa.map_(element_type(keys), element_type(values)), (keys, values))


def _maps(types: Types) -> Signature:
    given = [type_ for type_ in types if not pa.types.is_null(type_)]
    if not given or not all(map(pa.types.is_map, given)):
        raise TypeMismatch("it takes maps")
    key, item = (merged_type([plain(part(type_)) for type_ in given]) for part in (_key_type, _item_type))
    if any((type_.key_type, type_.item_type) != (key, item) for type_ in given):
        raise TypeMismatch("the maps must have keys of one type and values of one type")
    return Signature(given[0], (given[0],) * len(types))


def _key_type(type_: pa.MapType) -> pa.DataType:
    return type_.key_type


def _item_type(type_: pa.MapType) -> pa.DataType:
    return type_.item_type


def _merged_maps(*maps: list[tuple[Any, Any]] | None) -> list[tuple[Any, Any]] | None:
    """The entries of all maps. Of entries with the same key, the last is kept."""
    given = [entries for entries in maps if entries is not None]
    merged = {_key(key): (key, value) for entries in given for key, value in look_between(entries)}
    return list(merged.values()) if given else None


def _of_map(result: Callable[[pa.MapType], pa.DataType], n: int = 1) -> Function:
    def resolve(types: Types) -> Signature:
        if not pa.types.is_map(types[0]):
            raise TypeMismatch("it takes a map")
        return Signature(result(types[0]), (types[0], *(types[0].key_type for _ in types[1:])))

    return Function(n, n, resolve, "map" + ", key" * (n - 1), "list")


def _zip_types(types: Types) -> Signature:
    fields = [(str(position), element_type(type_)) for position, type_ in enumerate(types, 1)]
    return Signature(pa.list_(pa.struct(fields)), tuple(types))


def _flat(types: Types) -> Signature:
    inner = element_type(types[0])
    return Signature(inner if is_list_of_any_layout(inner) else types[0], tuple(types))


def _sum_type(type_: pa.DataType) -> pa.DataType:
    if not is_numeric(type_):
        raise TypeMismatch("it takes a list of numbers")
    if pa.types.is_decimal(type_):
        return pa.decimal128(DECIMAL_DIGITS_MAX, type_.scale)
    return INT64 if pa.types.is_integer(type_) else FLOAT64


def _integers(types: Types) -> Signature:
    if not all(pa.types.is_integer(type_) or pa.types.is_null(type_) for type_ in types):
        raise TypeMismatch("it takes whole numbers")
    return Signature(pa.list_(INT64), (INT64,) * len(types))


def _texts(types: Types) -> Signature:
    return Signature(pa.list_(STRING), (STRING,) * len(types))


def _same_list(type_: pa.DataType) -> pa.DataType:
    return pa.list_(type_)


def _same_element(type_: pa.DataType) -> pa.DataType:
    return type_


NESTED_FUNCTIONS: dict[str, ArrowFunction] = {
    "list_value": ArrowFunction(Function(1, MANY, _value, "any, …", "list"), _list_value, takes_null=True),
    "struct_pack": ArrowFunction(
        literal_function(2, MANY, _pack, "name, any, …", "struct"), _struct_pack, takes_null=True
    ),
    "row": ArrowFunction(Function(1, MANY, _row_of, "any, …", "struct"), _row, takes_null=True),
    "map": ArrowFunction(Function(2, 2, _map_of, "list, list", "map"), _by_row(_map)),
    "range": ArrowFunction(
        Function(1, 3, _integers, "integer, [integer], [integer]", "list"),
        _by_row(lambda *bounds: _series(*bounds, inclusive=False)),
    ),
    "generate_series": ArrowFunction(
        Function(1, 3, _integers, "integer, [integer], [integer]", "list"),
        _by_row(lambda *bounds: _series(*bounds, inclusive=True)),
    ),
    "string_split": ArrowFunction(Function(2, 3, _texts, "text, text, [text]", "list"), _by_row(_split)),
    "string_split_regex": ArrowFunction(take_types(pa.list_(STRING), STRING, STRING), by_pattern(_split_regex)),
    "list_length": ArrowFunction(_of_list(lambda _: INT64, gives="integer"), _length),
    "list_extract": ArrowFunction(_of_list(_same_element, INT64, gives="element"), _list_extract),
    "list_slice": ArrowFunction(_of_list(_same_list, INT64, INT64, INT64, optional=1), _by_row(_slice)),
    "list_contains": ArrowFunction(_with_element(BOOL), _of_bytes(_contains)),
    "list_position": ArrowFunction(_with_element(INT64), _by_row(_position, keeps_null=False), takes_null=True),
    "list_append": ArrowFunction(
        _with_element(None), _by_row(lambda elements, new: [*(elements or []), new], keeps_null=False), takes_null=True
    ),
    "list_prepend": ArrowFunction(
        _with_element(None, list_first=False),
        _by_row(lambda new, elements: [new, *(elements or [])], keeps_null=False),
        takes_null=True,
    ),
    "list_remove": ArrowFunction(_with_element(None), _by_row(_without)),
    "list_concat": ArrowFunction(_lists(None), _by_row(_concat, keeps_null=False), takes_null=True),
    "list_has_any": ArrowFunction(_lists(BOOL, 2, 2), _by_row(_has_any)),
    "list_has_all": ArrowFunction(_lists(BOOL, 2, 2), _by_row(_has_all)),
    "list_zip": ArrowFunction(
        Function(1, MANY, _zip_types, "list, …", "list of structs"), _by_row(_zip, keeps_null=False), takes_null=True
    ),
    "list_intersect": ArrowFunction(
        _lists(None, 2, 2),
        _by_row(lambda one, other: None if one is None else _intersection(one, other), keeps_null=False),
        takes_null=True,
    ),
    "list_except": ArrowFunction(_lists(None, 2, 2), _by_row(_difference)),
    "list_count_distinct": ArrowFunction(_of_list(lambda _: INT64, gives="integer"), _by_row(_count_distinct)),
    "list_count": ArrowFunction(_of_list(lambda _: INT64, gives="integer"), _count),
    "list_grade_up": ArrowFunction(
        _of_list(lambda _: pa.list_(INT64), STRING, STRING, optional=2, gives="list of integers"), _by_row(_order)
    ),
    "list_any_value": ArrowFunction(
        _of_list(_same_element, gives="element"),
        _by_row(lambda elements: next((element for element in elements if element is not None), None)),
    ),
    "list_resize": ArrowFunction(_resize_types(), _by_row(_resize, keeps_null=False), takes_null=True),
    "list_distinct": ArrowFunction(_of_list(_same_list), _by_row(_distinct)),
    "list_reverse": ArrowFunction(_of_list(_same_list), _by_row(lambda elements: elements[::-1])),
    "list_sort": ArrowFunction(_of_list(_same_list, STRING, STRING, optional=2), _by_row(_sort)),
    "list_sum": ArrowFunction(_of_list(_sum_type, gives="number"), _by_row(_total)),
    "list_min": ArrowFunction(_of_list(_same_element, gives="element"), _extreme(min)),
    "list_max": ArrowFunction(_of_list(_same_element, gives="element"), _extreme(max)),
    "array_to_string": ArrowFunction(
        _of_list(lambda _: STRING, STRING, STRING, optional=1, gives="text"), _by_row(_join_texts)
    ),
    "flatten": ArrowFunction(
        Function(1, 1, _flat, "list of lists", "list"), _by_row(lambda lists: _concat(*lists) or [])
    ),
    "struct_extract": ArrowFunction(
        literal_function(2, 2, _field_of, "struct, name; map, key", "the field"), _of_bytes(_struct_extract)
    ),
    "map_concat": ArrowFunction(
        Function(2, MANY, _maps, "map, map, …", "map"), _by_row(_merged_maps, keeps_null=False), takes_null=True
    ),
    "map_keys": ArrowFunction(_of_map(lambda map_: pa.list_(map_.key_type)), _map_items(0)),
    "map_values": ArrowFunction(_of_map(lambda map_: pa.list_(map_.item_type)), _map_items(1)),
    "map_entries": ArrowFunction(
        _of_map(lambda map_: pa.list_(pa.struct([("key", map_.key_type), ("value", map_.item_type)]))),
        _by_row(lambda entries: [{"key": key, "value": value} for key, value in entries]),
    ),
    "map_extract": ArrowFunction(_of_map(lambda map_: pa.list_(map_.item_type), 2), _by_row(_map_extract)),
}
# Functions that the compiler uses for conditions and null tests of nested values.
NESTED_KERNELS: dict[str, Kernel] = {
    "case": _case,
    "coalesce": _of_bytes(lambda *values: pc.coalesce(*values)),
    "is_null": lambda values: values.is_null(),
}
# All functions that an arrow call computes.
ARROW_CALLS: dict[str, ArrowFunction] = {
    **ARROW_FUNCTIONS,
    **WRITTEN_FUNCTIONS,
    **CALENDAR_FUNCTIONS,
    **LIST_STATISTICS,
    **LIST_VECTORS,
    **NUMBER_FUNCTIONS,
    **PATH_FUNCTIONS,
    **TEXT_DISTANCES,
    **NESTED_FUNCTIONS,
}
