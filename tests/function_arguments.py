"""Arguments for a call of every function: long texts, lists and maps that differ in every row."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from qcore import QcoreError, col
from qcore.expression.tree import Expr, Lambda, call, lit
from qcore.expression.types import TypeMismatch
from qcore.functions.catalogue import LIST_LAMBDAS, scalar_functions

N_ROWS = 300
LETTERS, ELEMENTS = 300, 3000

_Lists = list[tuple[str | Expr, ...]]


def _texts(letters: str) -> pa.Array:
    return pa.array(["".join(random.Random(row).choices(letters, k=LETTERS)) for row in range(N_ROWS)])


def _lists(values: Any) -> pa.Array:
    offsets = pa.array(np.arange(N_ROWS + 1, dtype=np.int32) * (len(values) // N_ROWS))
    return pa.ListArray.from_arrays(offsets, pa.array(values))


def columns() -> dict[str, pa.Array]:
    """Columns of every kind of type, followed by columns with values that only some functions take."""
    rng = np.random.default_rng(7)
    texts = _texts("xyz, ab")
    numbers = rng.integers(0, 1000, N_ROWS * ELEMENTS)
    words = _lists(numbers.astype(str))
    keys = np.tile(np.arange(ELEMENTS), N_ROWS)
    offsets = pa.array(np.arange(N_ROWS + 1, dtype=np.int32) * ELEMENTS)
    return {
        "text": texts,
        "other": pa.array([text[::-1] for text in texts.to_pylist()]),
        "numbers": _lists(numbers),
        "words": words,
        "nested": pa.ListArray.from_arrays(pa.array(np.arange(N_ROWS + 1, dtype=np.int32)), words),
        "map": pa.MapArray.from_arrays(offsets, pa.array(keys), pa.array(numbers)),
        "struct": pa.StructArray.from_arrays([words], names=["a"]),
        "bytes": texts.cast(pa.binary()),
        "whole": pa.array(rng.integers(1, 60, N_ROWS)),
        "real": pa.array(rng.random(N_ROWS)),
        "flag": pa.array(rng.random(N_ROWS) < 0.5),
        "time": pa.array(rng.integers(0, 10**15, N_ROWS), pa.timestamp("us")),
        "zoned": pa.array(rng.integers(0, 10**15, N_ROWS), pa.timestamp("us", "UTC")),
        "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * N_ROWS),
        "one": pa.array([1] * N_ROWS),
        "few": pa.array(rng.integers(1, 13, N_ROWS)),
        "many": pa.array(rng.integers(ELEMENTS, 2 * ELEMENTS, N_ROWS)),
        "bits": _texts("01"),
        "path": _texts("ab/"),
        "date_text": pa.array([f"2024-01-{1 + row % 28} 12:{row % 60}:00" for row in range(N_ROWS)]),
        "triple": _lists(rng.random(3 * N_ROWS)),
        "keys": _lists(keys),
        "reals": _lists(rng.random(N_ROWS * ELEMENTS)),
    }


TABLE = pa.table(columns())
OF_EVERY_TYPE = TABLE.schema.names[:14]
LONG = ("text", "other", "numbers", "words", "nested", "map", "struct", "bytes")
# How many lists of arguments are tried for each function by its signature: those with long values first.
LISTS_MAX = 4


def _alike(names: Iterable[str], lists: _Lists) -> dict[str, _Lists]:
    """The same lists of arguments for each of several functions."""
    return dict.fromkeys(names, lists)


_X_Y_Z = lit("(x.*y.*z.*)+$")
_DAY, _FORMAT = lit("day"), lit("%Y-%m-%d %H:%M:%S")
_MONTH = lit(pa.MonthDayNano([1, 0, 0]), pa.month_day_nano_interval())
_TWO_DAYS = lit(pa.MonthDayNano([0, 2, 0]), pa.month_day_nano_interval())
# Arguments, names of columns or expressions, of functions that do not take every value of the types in their signature.
ARGUMENTS: dict[str, _Lists] = {
    "integer_quotient": [("whole", "few")],
    **_alike(
        ("atan2", "divide", "fdiv", "fmod", "modulo", "multiply", "nextafter", "power"),
        [("real", "whole"), ("whole", "real")],
    ),
    **_alike(("add", "subtract"), [("whole", "real"), ("time", "interval")]),
    **_alike(("round", "trunc"), [("real",), ("real", lit(2)), ("real", "few")]),
    **_alike(("parse_path", "parse_dirname", "parse_dirpath"), [("path",), ("path", lit("both_slash"))]),
    "parse_filename": [("path",), ("path", lit(True)), ("path", lit(True), lit("system"))],
    "age": [("time", "time")],
    "bitwise_shift_left": [("whole", "few")],
    "log": [("many", "real"), ("real", "many")],
    "array_cross_product": [("triple", "triple")],
    "array_to_string": [("words", lit(", ")), ("words", "text")],
    "at_time_zone": [("time", lit("Europe/Paris")), ("zoned", lit("Europe/Paris"))],
    "date_bin": [(_TWO_DAYS, "time"), (_TWO_DAYS, "time", lit("2020-01-01"))],
    "date_diff": [(_DAY, "time", "time")],
    "date_trunc": [(lit("month"), "time")],
    "decode": [("bits", lit("hex"))],
    "digest": [("bytes", lit("sha256")), ("text", lit("md5"))],
    "encode": [("bytes", lit("base64")), ("bytes", lit("hex"))],
    "factorial": [("few",)],
    "format": [(lit("{} and {}"), "text", "whole"), (lit("{}"), "words")],
    "generate_series": [("many",), ("few", "many"), ("few", "many", "few")],
    "is_single_row": [("one",)],
    **_alike(("like", "ilike", "not_like", "not_ilike"), [("text", lit("%x%y_z%a,%")), ("text", lit("x%"))]),
    **_alike(("like_escape", "ilike_escape"), [("text", lit("%x%y_z!%%"), lit("!")), ("text", "other", lit("!"))]),
    **_alike(
        ("list_append", "list_contains", "list_position", "list_remove"), [("numbers", "whole"), ("words", "text")]
    ),
    "list_extract": [("numbers", "many"), ("words", "whole"), ("numbers", lit(2))],
    "list_prepend": [("whole", "numbers"), ("text", "words")],
    "list_resize": [("numbers", "many"), ("words", lit(5000)), ("numbers", "many", "whole")],
    "list_slice": [("numbers", lit(2), lit(2900)), ("words", "whole", lit(-1)), ("numbers", lit(2), lit(-1), lit(2))],
    **_alike(
        ("list_sort", "list_grade_up"),
        [("numbers", lit("desc"), lit("nulls last")), ("words", lit("asc")), ("reals", lit("desc"))],
    ),
    "make_date": [("few", "few", "few")],
    "make_time": [("few", "few", "real")],
    "make_timestamp": [("few", "few", "few", "few", "few", "real")],
    "map": [("keys", "numbers"), ("keys", "words")],
    "map_extract": [("map", "whole"), ("map", lit(7))],
    "month_bin": [(_MONTH, "time"), (_MONTH, "time", lit("2020-01-01"))],
    "printf": [(lit("%s and %d"), "text", "whole")],
    "range": [("many",), ("few", "many"), ("few", "many", "few")],
    "replace": [("text", lit("x"), lit("yy")), ("text", lit("absent"), lit(""))],
    "strftime": [("time", _FORMAT), ("zoned", lit("%A %d %B %Y"))],
    "string_split": [("text", lit(" ")), ("text", lit(""))],
    "string_split_regex": [("text", lit("[ ,]+"))],
    **_alike(("strptime", "try_strptime"), [("date_text", _FORMAT)]),
    "struct_extract": [("struct", lit("a")), ("map", lit(7))],
    "struct_pack": [(lit("a"), "text"), (lit("a"), "text", lit("b"), "numbers")],
    "to_base": [("whole", lit(7)), ("many", lit(2), lit(64))],
    "translate": [("text", lit("xyz"), lit("abc"))],
    "unbin": [("bits",)],
    "unhex": [("bits",)],
    "whole_units": [(_DAY, "time", "time"), (lit("month"), "time", "time")],
    **_alike(
        ("regexp_count", "regexp_extract", "regexp_extract_all", "regexp_full_match", "regexp_instr", "regexp_like"),
        [("text", _X_Y_Z), ("text", lit("[xyz]+"))],
    ),
    **_alike(("regexp_match_first", "similar_to"), [("text", lit("(x|y|z)*")), ("text", lit("[xyz ,ab]+"))]),
    "regexp_replace": [("text", _X_Y_Z, lit("")), ("text", lit("[xyz]"), lit("longer"), lit("g"))],
    # --- with lambdas ---
    "list_transform": [("numbers", Lambda(("v",), col("v") * 2)), ("words", Lambda(("v",), call("upper", col("v"))))],
    "list_filter": [("numbers", Lambda(("v",), col("v") > 500))],
    "list_reduce": [("numbers", Lambda(("a", "v"), col("a") + col("v")))],
    "list_fold": [("numbers", Lambda(("a", "v"), col("a") + col("v")), "whole")],
}


def by_signature(name: str) -> list[tuple[str, ...]]:
    """Columns that fit the function's signature, those with long values first."""
    function = scalar_functions()[name]
    found = []
    most = min(function.arguments_max, max(function.arguments_min, 2), 6)
    for count in range(max(function.arguments_min, 1), most + 1):
        choices = OF_EVERY_TYPE if count <= 3 else ["text", "numbers", "whole", "real"]
        for names in itertools.product(choices, repeat=count):
            try:
                function.signature([TABLE.schema.field(each).type for each in names])
            except (TypeMismatch, QcoreError, AttributeError, TypeError, IndexError):
                continue
            found.append(names)
    found.sort(key=lambda names: (-sum(each in LONG for each in names), names))
    return found[:LISTS_MAX]


def calls_of(name: str) -> tuple[list[Expr], list[Expr]]:
    """Calls of a function: those that must succeed, and those that may fail because only their types fit."""
    given = ARGUMENTS.get(name, [])
    tried = [] if name in LIST_LAMBDAS else by_signature(name)
    return [_call(name, arguments) for arguments in given], [_call(name, arguments) for arguments in tried]


def _call(name: str, arguments: tuple[str | Expr, ...]) -> Expr:
    return call(name, *(col(each) if isinstance(each, str) else each for each in arguments))
