"""Lists, structs and maps as text, as DuckDB writes them: [1, NULL], {'a': x}, {key=value}.

Inner values are written as the engine writes them alone. They are quoted if the text would be ambiguous otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import is_list_of_any_layout
from qcore.functions.arrow.list_layouts import large_lists
from qcore.functions.arrow.looking import look_between, pylist

# The text of each value of an array that is not nested.
LeafText = Callable[[pa.Array], pa.Array]
_NEEDS_QUOTES = re.compile(r"""\A\Z|\A[ \t\n\v\f\r]|[ \t\n\v\f\r]\Z|["'(),:=\[\]{}\\]|\A[nN][uU][lL][lL]\Z""")
_ESCAPED = re.compile(r"['\\]")


def nested_text(values: pa.Array, leaf_text: LeafText) -> list[str | None]:
    """The text of each value of a nested array; None for a null."""
    type_ = values.type
    missing = values.is_null().to_pylist()
    if pa.types.is_map(type_):
        first, n_entries, offsets = _element_range(values)
        keys, items = (_inner_texts(part.slice(first, n_entries), leaf_text) for part in (values.keys, values.items))
        entries = [f"{key}={item}" for key, item in look_between(list(zip(keys, items, strict=True)))]
        return _join(offsets, entries, missing, "{}")
    if is_list_of_any_layout(type_):
        lists = large_lists(values)
        first, n_elements, offsets = _element_range(lists)
        return _join(offsets, _inner_texts(lists.values.slice(first, n_elements), leaf_text), missing, "[]")
    if pa.types.is_struct(type_):
        names = [_quote(field.name) for field in type_]
        columns = [_inner_texts(values.field(i), leaf_text) for i in range(type_.num_fields)]
        rows = zip(*columns, strict=True) if columns else ((),) * len(values)
        return [
            None if gone else "{" + ", ".join(f"{name}: {part}" for name, part in zip(names, row, strict=True)) + "}"
            for gone, row in zip(missing, rows, strict=True)
        ]
    raise PlanError(f"values of type {type_} cannot be cast to text; cast their parts")


def _element_range(values: pa.Array) -> tuple[int, int, list[int]]:
    """The position of the first element in the array's buffers, the number of elements, and offsets from the first. A
    slice shares the buffers of the whole array.
    """
    offsets = values.offsets.to_numpy(zero_copy_only=False)
    return int(offsets[0]), int(offsets[-1] - offsets[0]), (offsets - offsets[0]).tolist()


def _join(offsets: list[int], parts: list[str], missing: list[bool], brackets: str) -> list[str | None]:
    return [
        None if gone else f"{brackets[0]}{', '.join(parts[offsets[i] : offsets[i + 1]])}{brackets[1]}"
        for i, gone in enumerate(missing)
    ]


def _inner_texts(values: pa.Array, leaf_text: LeafText) -> list[str]:
    """The texts of inner values."""
    if pa.types.is_null(values.type):
        return ["NULL"] * len(values)
    if pa.types.is_nested(values.type):
        return ["NULL" if text is None else text for text in nested_text(values, leaf_text)]
    distinct = values.dictionary_encode() if pa.types.is_string(values.type) else None
    if distinct is None:
        return [_quote_if_needed(text) for text in look_between(pylist(leaf_text(values)))]
    shown = [_quote_if_needed(text) for text in distinct.dictionary.to_pylist()]
    return ["NULL" if code is None else shown[code] for code in look_between(pylist(distinct.indices))]


def _quote_if_needed(text: str | None) -> str:
    if text is None:
        return "NULL"
    return _quote(text) if _NEEDS_QUOTES.search(text) else text


def _quote(text: str) -> str:
    escaped = _ESCAPED.sub(r"\\\g<0>", text)
    return f"'{escaped}'"
