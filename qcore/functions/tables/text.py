"""Functions of text and bytes by their names in SQL."""

from __future__ import annotations

import pyarrow as pa

from qcore.errors import PlanError
from qcore.expression.bound import Bound
from qcore.expression.tree import Call, Case, Expr, Literal, call
from qcore.expression.types import INT64, STRING, is_list_of_any_layout, plain
from qcore.functions.dialect import Dialect
from qcore.functions.entries import Build, Table, entry, expr_entry
from qcore.functions.operators import text_of
from qcore.functions.typed import cast, constant, derive_expr, engine_call, is_literal, is_null, literal_value
from qcore.functions.variants import dialect_call

_BYTES = pa.binary()


def _concat(dialect: Dialect, *arguments: Bound) -> Bound:
    """concat(), which skips nulls. The operator || returns null."""
    if any(is_list_of_any_layout(plain(argument.type)) for argument in arguments):
        return engine_call("list_concat", *arguments)
    parts = [text_of(argument) for argument in arguments]
    if dialect.concat_null != "skip":
        return engine_call("concat", *parts)
    empty = constant("")
    kept = [part if is_literal(part) else engine_call("coalesce", part, empty) for part in parts if not is_null(part)]
    return engine_call("concat", *kept) if kept else empty


def overlay(text: Expr, new: Expr, start: Expr, *length: Expr) -> Expr:
    """The text with `length` letters from `start` replaced. By default `length` is that of the new text."""
    replaced = length[0] if length else Call("length", (new,))
    before = call("left", text, call("greatest", call("subtract", start, 1), 0))
    return call("concat", before, new, call("substring", text, call("add", start, replaced)))


def code_point(text: Expr) -> Expr:
    """The code point of the first letter; -1 for an empty text, for which ascii() returns 0."""
    return Case(((call("equal", text, ""), Literal(-1, INT64)),), Call("ascii", (text,)))


def sha2(value: Expr, bits: Expr) -> Expr:
    """The digest of so many bits, 256 by default."""
    if not isinstance(bits, Literal):
        raise PlanError("sha2: the number of bits must be a constant: 224, 256, 384 or 512")
    return Call(f"sha{bits.value or 256}", (value,))


def text_slice(text: Expr, first: Expr, last: Expr) -> Expr:
    """Letters `first` to `last`. Positions count from 1; negative ones count from the end."""
    unknown = Call("or", (Call("is_null", (first,)), Call("is_null", (last,))))
    first, last = (_from_start(position, text) for position in (first, last))
    first = call("greatest", first, 1)
    part = call("substring", text, first, call("greatest", call("add", call("subtract", last, first), 1), 0))
    return Case(((unknown, Literal(None, STRING)),), part)


def _from_start(position: Expr, text: Expr) -> Expr:
    if isinstance(position, Literal) and isinstance(position.value, int) and position.value >= 0:
        return position
    from_start = call("add", call("add", Call("length", (text,)), position), 1)
    return Case(((call("less", position, 0), from_start),), position)


def _encode(dialect: Dialect, value: Bound, *form: Bound) -> Bound:
    """encode(text) to bytes; encode(bytes, 'hex') to text."""
    return engine_call("encode", value, *form) if form else cast(value, _BYTES)


def _decode(dialect: Dialect, value: Bound, *form: Bound) -> Bound:
    return engine_call("decode", value, *form) if form else cast(value, STRING)


def _regexp_match(dialect: Dialect, text: Bound, pattern: Bound, *flags: Bound) -> Bound:
    """A list of the groups of the first match, or of the match itself; null without a match."""
    written_pattern = literal_value(pattern)
    if not isinstance(written_pattern, str):
        raise PlanError("regexp_match takes a text literal as its pattern; use regexp_extract(text, pattern, group)")
    n_groups = n_groups_of(written_pattern)
    wanted = range(1, n_groups + 1) if n_groups else [0]
    groups = [engine_call("regexp_extract", text, pattern, constant(group), *flags) for group in wanted]
    found = engine_call("regexp_like", text, pattern, *flags)
    return derive_expr(lambda test, value: Case(((test, value),)), found, engine_call("list_value", *groups))


def n_groups_of(pattern: str) -> int:
    """The number of groups that a regular expression captures."""
    n, at, in_set = 0, 0, False
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 1
        elif in_set:
            in_set = letter != "]"
        elif letter == "[":
            in_set = True
        elif letter == "(":
            n += pattern[at + 1 : at + 2] != "?" or pattern[at + 2 : at + 4] in ("P<",)
        at += 1
    return n


def _in_dialect(function: str) -> Build:
    return lambda dialect, *arguments: dialect_call(dialect, function, *arguments)


TEXT: Table = {
    "concat": entry("any, …", "text", _concat),
    "str_concat": "||",
    "substr": "substring",
    "substring": entry("text, integer, [integer]", "text", _in_dialect("substring")),
    "mid": "substring",
    "overlay": expr_entry("text, text, integer, [integer]", "text", overlay),
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "strlen": "octet_length",
    "btrim": "trim",
    "strpos": "position",
    "instr": "position",
    "ucase": "upper",
    "lcase": "lower",
    "prefix": "starts_with",
    "startswith": "starts_with",
    "suffix": "ends_with",
    "endswith": "ends_with",
    "unicode": expr_entry("text", "integer", code_point),
    "ord": "unicode",
    "mismatches": "hamming",
    "editdist3": "levenshtein",
    "sha": "sha1",
    "sha2": expr_entry("any, integer", "text", sha2),
    "base64": expr_entry("any", "text", lambda value: call("encode", value, "base64")),
    "to_base64": "base64",
    "unbase64": expr_entry("text", "bytes", lambda value: call("decode", value, "base64")),
    "from_base64": "unbase64",
    "encode": entry("any, [text]", "bytes; text", _encode),
    "decode": entry("any, [text]", "text; bytes", _decode),
    "from_hex": "unhex",
    "to_binary": "bin",
    "from_binary": "unbin",
    "regexp_matches": "regexp_like",
    "regexp_match": entry("text, text, [text]", "list of text", _regexp_match),
    "regexp_replace": entry("text, text, text, [text]", "text", _in_dialect("regexp_replace")),
    "regexp_split_to_array": "string_split_regex",
    "str_split_regex": "string_split_regex",
    "string_to_array": "string_split",
    "str_split": "string_split",
    "split": "string_split",
    "text_slice": expr_entry("text, integer, integer", "text", text_slice),
}  # fmt: skip
