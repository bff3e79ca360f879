"""Scalar functions computed by pyarrow.compute, or by Python over distinct values if pyarrow has no such function.

These functions are rarely used. A kernel takes arrays, and scalars for constant arguments. It returns an array or a
list of its values, and raises ValueError or an Arrow error for a value that it cannot compute. Its calls are counted.
"""

from __future__ import annotations

import base64
import datetime
import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError
from qcore.expression.interval_values import age, interval_divide, interval_multiply
from qcore.expression.scalars import array_of
from qcore.expression.types import BOOL, FLOAT64, INT64, INTERVAL, STRING, TypeMismatch, Types, compares_by_bytes
from qcore.functions.arrow.looking import LOOK_ROWS, look_between, pylist, that_looks
from qcore.functions.arrow.nested_encoding import nested_bytes
from qcore.functions.arrow.widening_bytes import widening_bytes
from qcore.functions.signatures import Function, Signature, take_types
from qcore.late_module import late_module
from qcore.record import record
from qcore_ext.compute.arrow_call import look

hashlib = late_module("hashlib")
pc = late_module("pyarrow.compute")

Kernel = Callable[..., Any]
BINARY = pa.binary()
MICROS = pa.timestamp("us")
_FAILURES = (pa.ArrowException, ValueError, OverflowError, LookupError)


@record(frozen=True)
class ArrowFunction:
    """A signature and its kernel. Unless it `takes_null`, a null argument makes the result null, and the kernel is not
    called with null constants.
    """

    function: Function
    kernel: Kernel
    takes_null: bool = False


class BoundCall:
    """A kernel with its constant arguments: from a batch of the others to a batch of one column.

    Parameters
    ----------
    name : str
        For errors.
    kernel : callable
    arguments : sequence
        A pa.Scalar for a constant, None for the next column of the batch.
    type_ : pyarrow.DataType
        Of the result.
    """

    def __init__(self, name: str, kernel: Kernel, arguments: Sequence[pa.Scalar | None], type_: pa.DataType) -> None:
        self.name = name
        self.kernel = kernel
        self.arguments = arguments
        self.type = type_
        self.looks = getattr(kernel, "looks", False)

    def __call__(self, batch: Any) -> pa.RecordBatch:
        """The values for a batch of the arguments that are not constant. ExecutionError names the failed function."""
        columns = iter(pa.record_batch(batch).columns)
        arguments = [next(columns) if constant is None else constant for constant in self.arguments]
        try:
            result = self.kernel(*arguments)
            if not isinstance(result, (pa.Array, pa.ChunkedArray)):
                result = array_of(result, self.type)
            result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
            result = result if result.type == self.type else result.cast(self.type)
        except MemoryError:
            raise  # it is also an error of pyarrow, but not caused by the values
        except _FAILURES as error:
            shown = [value if isinstance(value, pa.Scalar) else value[0] for value in arguments if _has_value(value)]
            values = ", ".join(repr(value.as_py()) for value in shown)
            raise ExecutionError(f"{self.name}({values}): {error}") from None
        return pa.record_batch([result], names=["value"])


def _has_value(argument: pa.Array | pa.Scalar) -> bool:
    return isinstance(argument, pa.Scalar) or len(argument) > 0


# --- ways to make a kernel ---


def _values(argument: pa.Array | pa.Scalar, n: int) -> list[Any]:
    return [argument.as_py()] * n if isinstance(argument, pa.Scalar) else pylist(argument)


def n_rows(arguments: Sequence[pa.Array | pa.Scalar]) -> int:
    """The number of rows of a kernel's arguments."""
    return next((len(argument) for argument in arguments if isinstance(argument, pa.Array)), 1)


def as_array(argument: pa.Array | pa.Scalar, n: int) -> pa.Array:
    """The argument with a value for each of n rows."""
    if isinstance(argument, pa.Array):
        return argument
    # pyarrow cannot repeat a nested value zero times.
    return pa.repeat(argument, n) if n > 0 else array_of([], argument.type)


def by_value(function: Callable[..., Any], type_: pa.DataType) -> Kernel:
    """A kernel of a function of Python values. A function of one column is called once for each distinct value."""

    def kernel(*arguments: pa.Array | pa.Scalar) -> pa.Array:
        columns = [argument for argument in arguments if isinstance(argument, pa.Array)]
        if len(columns) == 1:
            encoded = columns[0].dictionary_encode()
            n = len(encoded.dictionary)
            rows = [_values(encoded.dictionary if a is columns[0] else a, n) for a in arguments]
            made = pa.array([function(*row) for row in look_between(list(zip(*rows, strict=True)), LOOK_ROWS)], type_)
            return made.take(encoded.indices)
        rows = [_values(argument, n_rows(arguments)) for argument in arguments]
        together = look_between(list(zip(*rows, strict=True)), LOOK_ROWS)
        return pa.array([None if None in row else function(*row) for row in together], type_)

    return that_looks(kernel)


def by_pattern(function: Kernel) -> Kernel:
    """A kernel of a function whose first argument is an array and whose others are Python constants.

    If the others are columns, the function is called once for each combination of their values.
    """

    def kernel(text: pa.Array | pa.Scalar, *rest: pa.Array | pa.Scalar) -> Any:
        n = n_rows([text, *rest])
        if isinstance(text, pa.Scalar):
            text = pa.repeat(text, n)
        if all(isinstance(argument, pa.Scalar) for argument in rest):
            return function(text, *(argument.as_py() for argument in rest))
        rows: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(zip(*(_values(argument, n) for argument in rest), strict=True)):
            rows.setdefault(key, []).append(row)
        pieces, order = [], []
        for key, positions in rows.items():
            look()
            taken = text.take(pa.array(positions))
            made = [None] * len(positions) if None in key else function(taken, *key)
            pieces.append(made if isinstance(made, list) else made.to_pylist())
            order += positions
        values: list[Any] = [None] * n
        for position, value in zip(order, itertools.chain.from_iterable(pieces), strict=True):
            values[position] = value
        return values

    return kernel


# --- regular expressions: RE2's ---


def _with_flags(pattern: str, flags: str) -> str:
    """The pattern with PostgreSQL's flags as flags of RE2. The flag g, which the caller reads, is dropped."""
    known = {"i": "i", "s": "s", "n": "m", "m": "m", "c": "", "g": "", "l": "", "p": "s"}
    unknown_flags = sorted(set(flags) - set(known))
    if unknown_flags:
        raise ValueError(f"unknown flag {unknown_flags[0]!r} of a regular expression; there are {', '.join(known)}")
    letters = "".join(dict.fromkeys(known[flag] for flag in flags if known[flag]))
    return f"(?{letters}){pattern}" if letters else pattern


def _regexp_like(text: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    return pc.match_substring_regex(text, _with_flags(pattern, flags))


def _regexp_full_match(text: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    return pc.match_substring_regex(text, rf"\A(?:{_with_flags(pattern, flags)})\z")


def _regexp_replace(text: pa.Array, pattern: str, new: str, flags: str = "") -> pa.Array:
    most = -1 if "g" in flags else 1
    new = re.sub(r"\\&", r"\\0", new)
    return pc.replace_substring_regex(text, _with_flags(pattern, flags), new, max_replacements=most)


def _regexp_count(text: pa.Array, pattern: str, start: int = 1, flags: str = "") -> pa.Array:
    if start < 1:
        raise ValueError(f"the start is counted from 1, not {start}")
    if start > 1:
        text = pc.utf8_slice_codeunits(text, start - 1)
    return pc.count_substring_regex(text, _with_flags(pattern, flags))


def _regexp_instr(text: pa.Array, pattern: str, start: int = 1, flags: str = "") -> pa.Array:
    if start < 1:
        raise ValueError(f"the start is counted from 1, not {start}")
    rest = pc.utf8_slice_codeunits(text, start - 1) if start > 1 else text
    positions = pc.find_substring_regex(rest, _with_flags(pattern, flags)).to_pylist()
    # Arrow counts bytes.
    return pa.array(
        [
            None if at is None else 0 if at < 0 else start + len(value.encode()[:at].decode())
            for value, at in zip(rest.to_pylist(), positions, strict=True)
        ],
        INT64,
    )


# A replacement names the whole match and groups up to 9 by one digit.
_WRITTEN_GROUPS = 9
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]|(?P<opens>\((?!\?)|\(\?P?<[A-Za-z_]\w*>)|.", re.DOTALL)


def _named_groups(pattern: str) -> tuple[str, int]:
    """The pattern with its n capturing groups named g1 to gn, as Arrow requires, and n."""
    count = 0

    def name_group(found: re.Match[str]) -> str:
        nonlocal count
        if found.group("opens") is None:
            return found.group()
        count += 1
        return f"(?P<g{count}>"

    return _GROUP.sub(name_group, pattern), count


def _capture_group(text: pa.Array, pattern: str, group: int, flags: str) -> pa.Array:
    """The text of a group, or of the whole match for 0; null if the pattern does not match."""
    named, count = _named_groups(pattern)
    if not 0 <= group <= count:
        raise ValueError(f"there is no group {group}; the pattern has {count}")
    found = pc.extract_regex(text, _with_flags(f"(?P<g0>{named})", flags))
    # A row without a match is a null struct, whose fields have no meaning.
    return pc.if_else(found.is_valid(), pc.struct_field(found, f"g{group}"), pa.scalar(None, STRING))


def _regexp_extract(text: pa.Array, pattern: str, group: int = 0, flags: str = "") -> pa.Array:
    found = _capture_group(text, pattern, group, flags)
    return pc.if_else(pc.and_(text.is_valid(), found.is_null()), "", found)


def _regexp_extract_all(text: pa.Array, pattern: str, group: int = 0, flags: str = "") -> list[list[str] | None]:
    """The text of a group in each match, or of the whole match for 0. Each match is first written between two marks."""
    _, count = _named_groups(pattern)
    if not 0 <= group <= count:
        raise ValueError(f"there is no group {group}; the pattern has {count}")
    if group >= _WRITTEN_GROUPS:
        raise ValueError(f"regexp_extract_all() supports the groups 1 to {_WRITTEN_GROUPS - 1}, not {group}")
    known = _with_flags(f"({pattern})", flags)
    if pc.match_substring_regex(pa.array([""]), known)[0].as_py():
        raise ValueError("regexp_extract_all() does not support a pattern that matches the empty text")
    mark = next(letter for letter in map(chr, range(1, 32)) if not pc.any(pc.match_substring(text, letter)).as_py())
    parts = pc.split_pattern(pc.replace_substring_regex(text, known, rf"{mark}\{group + 1}{mark}"), mark)
    return [None if found is None else found[1::2] for found in parts.to_pylist()]


def _regexp_escape(text: str) -> str:
    return re.sub(r"[^\w\u0080-\U0010ffff]", r"\\\g<0>", text)


def _regexp_match_first(text: pa.Array, pattern: str, flags: str = "") -> pa.Array:
    """The value of (regexp_match(…))[1]: the first group, or the match if there is no group; null without a match."""
    return _capture_group(text, pattern, min(_named_groups(pattern)[1], 1), flags)


def similar_pattern(pattern: str) -> str:
    """SIMILAR TO's pattern as a regular expression: % and _ as in LIKE, and | * + ? {} () [] as in one."""
    out, at, in_class = [], 0, False
    while at < len(pattern):
        letter = pattern[at]
        at += 1
        if letter == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        elif in_class:
            in_class = letter != "]"
            out.append(letter)
        elif letter == "[":
            in_class = True
            out.append(letter)
        elif letter == "%":
            out.append(".*")
        elif letter == "_":
            out.append(".")
        else:
            out.append("\\" + letter if letter in ".^$" else "(?:" if letter == "(" else letter)
    return rf"(?s)\A(?:{''.join(out)})\z"


def _like_regexp(pattern: str, escape: str) -> str:
    if len(escape) > 1:
        raise ValueError(f"the escape is one character, not {escape!r}")
    out, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape:
            at += 1
            if at == len(pattern):
                raise ValueError(f"the pattern {pattern!r} ends with its escape character")
            out.append(re.escape(pattern[at]))
        else:
            out.append(".*" if letter == "%" else "." if letter == "_" else re.escape(letter))
        at += 1
    return rf"(?s)\A{''.join(out)}\z"


def _like_escape(text: pa.Array, pattern: str, escape: str) -> pa.Array:
    return pc.match_substring_regex(text, _like_regexp(pattern, escape))


def _ilike_escape(text: pa.Array, pattern: str, escape: str) -> pa.Array:
    return pc.match_substring_regex(text, _like_regexp(pattern, escape), ignore_case=True)


def _similar_to(text: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(text, similar_pattern(pattern))


# --- text ---


def _initcap(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda word: word.group()[0].upper() + word.group()[1:].lower(), text)


@functools.lru_cache(maxsize=64)
def _translation(old: str, new: str) -> dict[int, int | None]:
    table: dict[int, int | None] = {}
    for i, letter in enumerate(old):
        table.setdefault(ord(letter), ord(new[i]) if i < len(new) else None)
    return table


def _strip_accents(text: str) -> str:
    """Remove accents from letters. Other letters are kept."""
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(letter for letter in apart if not unicodedata.combining(letter)))


def _nfc_normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _translate(text: str, old: str, new: str) -> str:
    return text.translate(_translation(old, new))


def _find_in_set(text: str, items: str) -> int:
    parts = items.split(",") if items else []
    return parts.index(text) + 1 if text in parts else 0


def _substr_index(text: str, cut: str, count: int) -> str:
    if not cut or count == 0:
        return ""
    parts = text.split(cut)
    return cut.join(parts[:count] if count > 0 else parts[count:])


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _hash(name: str) -> Kernel:
    return by_value(lambda value: hashlib.new(name, _bytes(value)).hexdigest(), STRING)


_DIGESTS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s")


def _digest(value: str | bytes, name: str) -> bytes:
    if name.lower() not in _DIGESTS:
        raise ValueError(f"unknown digest {name!r}; there are {', '.join(_DIGESTS)}")
    return hashlib.new(name.lower(), _bytes(value)).digest()


def _encode(value: str | bytes, form: str) -> str:
    if form.lower() == "hex":
        return _bytes(value).hex()
    if form.lower() == "base64":
        return base64.b64encode(_bytes(value)).decode()
    raise ValueError(f"unknown encoding {form!r}; there are hex and base64")


def _decode(value: str | bytes, form: str) -> bytes:
    if form.lower() == "hex":
        return bytes.fromhex(_bytes(value).decode())
    if form.lower() == "base64":
        content = _bytes(value)
        return base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)
    raise ValueError(f"unknown encoding {form!r}; there are hex and base64")


def _to_hex(value: int) -> str:
    return f"{value & 0xFFFFFFFFFFFFFFFF:x}"


# --- dates and times as text ---

# The fields that mean the same in the strftime of C, Python and Arrow.
_SAME_EVERYWHERE = re.compile(r"(?:[^%]|%[YmdHMSyjbBaApIeFTDuwUWGV%])*")


def _strftime(when: pa.Array, form: str) -> pa.Array:
    if _SAME_EVERYWHERE.fullmatch(form):
        if pa.types.is_timestamp(when.type):
            # Arrow's %S has the fraction of a second too.
            when = pc.floor_temporal(when, unit="second").cast(pa.timestamp("s", when.type.tz))
        return pc.strftime(when, format=form)
    return by_value(lambda value: value.strftime(form), STRING)(when)


def _strptime(text: pa.Array, form: str) -> pa.Array:
    return by_value(lambda value: datetime.datetime.strptime(value, form), MICROS)(text)


def _try_strptime(text: pa.Array, form: str) -> pa.Array:
    def parse_text(value: str) -> datetime.datetime | None:
        try:
            return datetime.datetime.strptime(value, form)
        except ValueError:
            return None

    return by_value(parse_text, MICROS)(text)


def _stamp_types(types: Types, n: int) -> tuple[pa.DataType, ...]:
    """The first n types as dates or timestamps; text is read as a timestamp."""
    taken = []
    for type_ in types[:n]:
        if pa.types.is_null(type_) or pa.types.is_string(type_):
            type_ = MICROS
        if not (pa.types.is_date(type_) or pa.types.is_timestamp(type_) or pa.types.is_time(type_)):
            raise TypeMismatch("it takes a date, a time or a timestamp")
        taken.append(type_)
    return tuple(taken)


def _format_types(types: Types) -> Signature:
    if not all(pa.types.is_string(type_) or pa.types.is_null(type_) for type_ in types[1:]):
        raise TypeMismatch("the format is text")
    return Signature(STRING, (*_stamp_types(types, 1), STRING))


# --- casts ---


def bytes_as_text(raw: pa.Array) -> pa.Array:
    """Bytes as text. An Arrow error if they are not UTF-8."""
    return raw.cast(STRING)


def bytes_as_text_or_null(raw: pa.Array) -> pa.Array:
    """Bytes as text; null if they are not UTF-8."""
    try:
        return bytes_as_text(raw)
    except pa.ArrowInvalid:
        return pa.array([_text_or_none(value) for value in raw.to_pylist()], STRING)


def _text_or_none(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def _encode_types(types: Types) -> Signature:
    if not compares_by_bytes(types[0]):
        raise TypeMismatch("it takes a list, struct, map or interval")
    return Signature(BINARY, (types[0],))


# --- time zones ---


def _to_local(types: Types) -> Signature:
    (when,) = types
    if not pa.types.is_timestamp(when) or when.tz is None:
        raise TypeMismatch("it takes a timestamp with a time zone")
    return Signature(pa.timestamp(when.unit), (when,))


def assume_zone(zone: str) -> Kernel:
    """A kernel that converts local times of a zone to instants.

    A local time that occurs twice is the later instant, in standard time. A local time that the clock skips is moved
    forward by the skipped amount. Both are as in PostgreSQL and DuckDB.
    """

    def kernel(when: pa.Array) -> pa.Array:
        late = pc.assume_timezone(when, zone, ambiguous="latest", nonexistent="latest")
        seen = pc.local_timestamp(late)
        if pc.all(pc.equal(seen, when)).as_py() is not False:
            return late
        # For a time in a gap "latest" is the gap's end, and "earliest" the last tick before the gap. The distance of
        # the time from the gap's start is added to the gap's end.
        last = pc.local_timestamp(pc.assume_timezone(when, zone, ambiguous="latest", nonexistent="earliest"))
        beyond = pc.subtract(pc.subtract(when, last), pa.scalar(1, pa.duration(when.type.unit)))
        return pc.if_else(pc.equal(seen, when), late, pc.add(late, beyond))

    return kernel


def instants_of_text(zone: str) -> Kernel:
    """A kernel that returns the instants of texts. Its second argument are the times of the texts: in UTC if the text
    has an offset from UTC, else as local times of the zone.
    """
    of_clocks = assume_zone(zone)

    def kernel(text: pa.Array, when: pa.Array) -> pa.Array:
        when = when.cast(pa.timestamp(when.type.unit))
        says = pc.match_substring_regex(text.cast(STRING), r"\d[T ]\S*[-+Z]")
        local = of_clocks(pc.if_else(says, pa.scalar(None, when.type), when))
        return pc.if_else(says, pc.assume_timezone(when, "UTC").cast(local.type), local)

    return kernel


def zone_offset(when: pa.Array) -> pa.Array:
    """The offset of local time from UTC, as PostgreSQL writes it: +01, -03:30."""
    written = pc.strftime(when.cast(pa.timestamp("s", when.type.tz), safe=False), format="%z")
    whole_hours = pc.replace_substring_regex(written, "^(...)00$", r"\1")
    return pc.replace_substring_regex(whole_hours, "^(...)(..)$", r"\1:\2")


def _is_single_row(counts: pa.Array) -> pa.Array:
    """True for 1, ValueError for more: the check of scalar subqueries."""
    most = pc.max(counts).as_py()
    if most is not None and most > 1:
        raise ValueError(
            f"a scalar subquery returned {most} rows for one row of the outer query; use LIMIT 1 or min/max"
        )
    return pc.less_equal(counts, 1)


# --- the table ---


def _bytes_or_text(result: pa.DataType, more: int) -> Function:
    def resolve(types: Types) -> Signature:
        given = types[0] if types[0] == BINARY else STRING
        if not all(pa.types.is_string(type_) or pa.types.is_null(type_) or type_ == BINARY for type_ in types):
            raise TypeMismatch("it takes text or bytes")
        return Signature(result, (given, *(STRING,) * more))

    takes = "text or bytes" + ", text" * more
    return Function(1 + more, 1 + more, resolve, takes, "text" if result == STRING else "bytes")


ARROW_FUNCTIONS: dict[str, ArrowFunction] = {
    "regexp_like": ArrowFunction(take_types(BOOL, STRING, STRING, STRING, optional=1), by_pattern(_regexp_like)),
    "regexp_full_match": ArrowFunction(
        take_types(BOOL, STRING, STRING, STRING, optional=1), by_pattern(_regexp_full_match)
    ),
    "regexp_replace": ArrowFunction(
        take_types(STRING, STRING, STRING, STRING, STRING, optional=1), by_pattern(_regexp_replace)
    ),
    "regexp_count": ArrowFunction(
        take_types(INT64, STRING, STRING, INT64, STRING, optional=2), by_pattern(_regexp_count)
    ),
    "regexp_instr": ArrowFunction(
        take_types(INT64, STRING, STRING, INT64, STRING, optional=2), by_pattern(_regexp_instr)
    ),
    "regexp_extract": ArrowFunction(
        take_types(STRING, STRING, STRING, INT64, STRING, optional=2), by_pattern(_regexp_extract)
    ),
    "regexp_extract_all": ArrowFunction(
        take_types(pa.list_(STRING), STRING, STRING, INT64, STRING, optional=2), by_pattern(_regexp_extract_all)
    ),
    "regexp_escape": ArrowFunction(take_types(STRING, STRING), by_value(_regexp_escape, STRING)),
    "regexp_match_first": ArrowFunction(
        take_types(STRING, STRING, STRING, STRING, optional=1), by_pattern(_regexp_match_first)
    ),
    "like_escape": ArrowFunction(take_types(BOOL, STRING, STRING, STRING), by_pattern(_like_escape)),
    "ilike_escape": ArrowFunction(take_types(BOOL, STRING, STRING, STRING), by_pattern(_ilike_escape)),
    "similar_to": ArrowFunction(take_types(BOOL, STRING, STRING), by_pattern(_similar_to)),
    "initcap": ArrowFunction(take_types(STRING, STRING), by_value(_initcap, STRING)),
    "strip_accents": ArrowFunction(take_types(STRING, STRING), by_value(_strip_accents, STRING)),
    "nfc_normalize": ArrowFunction(take_types(STRING, STRING), by_value(_nfc_normalize, STRING)),
    "translate": ArrowFunction(take_types(STRING, STRING, STRING, STRING), by_value(_translate, STRING)),
    "find_in_set": ArrowFunction(take_types(INT64, STRING, STRING), by_value(_find_in_set, INT64)),
    "substr_index": ArrowFunction(take_types(STRING, STRING, STRING, INT64), by_value(_substr_index, STRING)),
    "md5": ArrowFunction(_bytes_or_text(STRING, 0), _hash("md5")),
    "sha1": ArrowFunction(_bytes_or_text(STRING, 0), _hash("sha1")),
    "sha224": ArrowFunction(_bytes_or_text(STRING, 0), _hash("sha224")),
    "sha256": ArrowFunction(_bytes_or_text(STRING, 0), _hash("sha256")),
    "sha384": ArrowFunction(_bytes_or_text(STRING, 0), _hash("sha384")),
    "sha512": ArrowFunction(_bytes_or_text(STRING, 0), _hash("sha512")),
    "digest": ArrowFunction(_bytes_or_text(BINARY, 1), by_value(_digest, BINARY)),
    "encode": ArrowFunction(_bytes_or_text(STRING, 1), by_value(_encode, STRING)),
    "decode": ArrowFunction(_bytes_or_text(BINARY, 1), by_value(_decode, BINARY)),
    "to_hex": ArrowFunction(take_types(STRING, INT64), by_value(_to_hex, STRING)),
    "strftime": ArrowFunction(
        Function(2, 2, _format_types, "date, time or timestamp, text", "text"), by_pattern(_strftime)
    ),
    "strptime": ArrowFunction(take_types(MICROS, STRING, STRING), by_pattern(_strptime)),
    "try_strptime": ArrowFunction(take_types(MICROS, STRING, STRING), by_pattern(_try_strptime)),
    "is_single_row": ArrowFunction(take_types(BOOL, INT64), _is_single_row),
    "age": ArrowFunction(take_types(INTERVAL, MICROS, MICROS), by_value(age, INTERVAL)),
    "interval_multiply": ArrowFunction(take_types(INTERVAL, INTERVAL, FLOAT64), by_value(interval_multiply, INTERVAL)),
    "interval_divide": ArrowFunction(take_types(INTERVAL, INTERVAL, FLOAT64), by_value(interval_divide, INTERVAL)),
    "nested_bytes": ArrowFunction(
        Function(1, 1, _encode_types, "list, struct, map or interval", "bytes"), nested_bytes
    ),
    "widening_bytes": ArrowFunction(
        Function(1, 1, _encode_types, "list, struct, map or interval", "bytes"), widening_bytes
    ),
    "local_time": ArrowFunction(
        Function(1, 1, _to_local, "timestamp with a time zone", "timestamp"), lambda when: pc.local_timestamp(when)
    ),
}
