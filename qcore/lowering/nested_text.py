"""Lists, structs and maps as text, as DuckDB writes them: [1, NULL], {'a': x}, {key=value}.

What is within is written as the engine writes it alone, in quotes where it would read as something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.types import is_list_of_any_layout
from qcore.functions.arrow.list_layouts import large_lists
from qcore.functions.arrow.looking import looked, pylist

# The text of each value of an array that is not nested.
LeafText = Callable[[pa.Array], pa.Array]
_NEEDS_QUOTES = re.compile(r"""\A\Z|\A[ \t\n\v\f\r]|[ \t\n\v\f\r]\Z|["'(),:=\[\]{}\\]|\A[nN][uU][lL][lL]\Z""")
_ESCAPED = re.compile(r"['\\]")


def nested_text(values: pa.Array, leaf_text: LeafText) -> list[str | None]:
    """The text of each value of a nested array; null where the value is."""
    type_ = values.type
    missing = values.is_null().to_pylist()
    if pa.types.is_map(type_):
        first, n_entries, offsets = _held(values)
        keys, items = (_inner(part.slice(first, n_entries), leaf_text) for part in (values.keys, values.items))
        entries = [f"{key}={item}" for key, item in looked(list(zip(keys, items, strict=True)))]
        return _joined(offsets, entries, missing, "{}")
    if is_list_of_any_layout(type_):
        lists = large_lists(values)
        first, n_elements, offsets = _held(lists)
        return _joined(offsets, _inner(lists.values.slice(first, n_elements), leaf_text), missing, "[]")
    if pa.types.is_struct(type_):
        names = [_quoted(field.name) for field in type_]
        columns = [_inner(values.field(i), leaf_text) for i in range(type_.num_fields)]
        rows = zip(*columns, strict=True) if columns else ((),) * len(values)
        return [
            None if gone else "{" + ", ".join(f"{name}: {part}" for name, part in zip(names, row, strict=True)) + "}"
            for gone, row in zip(missing, rows, strict=True)
        ]
    raise PlanError(f"values of type {type_} cannot be cast to text; cast their parts")


def _held(values: pa.Array) -> tuple[int, int, list[int]]:
    """Where the elements of lists or maps begin among all that the array's buffers have, how many they are, and the
    offsets among them: a slice shares the buffers of the whole.
    """
    offsets = values.offsets.to_numpy(zero_copy_only=False)
    return int(offsets[0]), int(offsets[-1] - offsets[0]), (offsets - offsets[0]).tolist()


def _joined(offsets: list[int], parts: list[str], missing: list[bool], brackets: str) -> list[str | None]:
    return [
        None if gone else f"{brackets[0]}{', '.join(parts[offsets[i] : offsets[i + 1]])}{brackets[1]}"
        for i, gone in enumerate(missing)
    ]


def _inner(values: pa.Array, leaf_text: LeafText) -> list[str]:
    """The texts of values within another."""
    if pa.types.is_null(values.type):
        return ["NULL"] * len(values)
    if pa.types.is_nested(values.type):
        return ["NULL" if text is None else text for text in nested_text(values, leaf_text)]
    distinct = values.dictionary_encode() if pa.types.is_string(values.type) else None
    if distinct is None:
        return [_shown(text) for text in looked(pylist(leaf_text(values)))]
    shown = [_shown(text) for text in distinct.dictionary.to_pylist()]
    return ["NULL" if code is None else shown[code] for code in looked(pylist(distinct.indices))]


def _shown(text: str | None) -> str:
    if text is None:
        return "NULL"
    return _quoted(text) if _NEEDS_QUOTES.search(text) else text


def _quoted(text: str) -> str:
    escaped = _ESCAPED.sub(r"\\\g<0>", text)
    return f"'{escaped}'"
