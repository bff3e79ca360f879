"""Functions of a list's elements, as DataFusion's parser knows them: with arrows, of one parameter.

`list_transform(l, lambda x, i: x + i)`, `list_filter`, `list_reduce`, their other names, and `[x + 1 for x in l if
x > 1]`. Parameters get names of their own, so that nobody takes them for columns or aliases. A second parameter, the
element's place, makes the list one of pairs; what list_reduce means is told by a lambda within a lambda, which
qcore.substrait.lambdas reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qcore.errors import PlanError
from qcore.frontends.text.operands import ends_value
from qcore.frontends.text.tokens import SqlText
from qcore.substrait.dialect_functions import REDUCES

_KINDS = {"TRANSFORM": "array_transform", "APPLY": "array_transform", "FILTER": "array_filter", "REDUCE": "reduce"}
_CALLS = {f"{prefix}_{kind}": made for prefix in ("LIST", "ARRAY") for kind, made in _KINDS.items()}
# What other things are called, too.
_SHORT = {kind: made for kind, made in _KINDS.items() if kind != "TRANSFORM"}
_PARAMETER = "$lambda"
# Fields of a list_zip's structs.
_ELEMENT, _PLACE = "['1']", "['2']"


@dataclass(frozen=True)
class _Lambda:
    """Names of its parameters, in lower case, and the tokens of its body."""

    parameters: Sequence[str]
    start: int
    end: int


def has_lambdas(sql: SqlText) -> bool:
    """Whether the text has a lambda with an arrow."""
    return any(_is_arrow(sql, i) for i in sql.signs("-")) if sql.signs(">") else False


def parameters(sql: SqlText) -> set[str]:
    """The parameters of lambdas and list comprehensions, in lower case, as they are read before anything is known of
    calls: too many rather than too few.
    """
    found: set[str] = set()
    for word, end in (("LAMBDA", ":"), ("FOR", "IN")):
        for i in sql.places(word):
            at = i + 1
            while _is_name(sql, at) and not sql.is_word(at, end):
                at += 1 + sql.is_sign(at + 1, ",")
            if sql.is_word(at, end) or sql.is_sign(at, end):
                found.update(sql.name(name).lower() for name in range(i + 1, at))
    for i in sql.signs("-"):
        if _is_arrow(sql, i):
            found.update(sql.name(name).lower() for name in range(sql.partner.get(i - 1, i - 1), i))
    return found


def with_known_lambdas(text: str) -> str:
    """The text with such calls and list comprehensions rewritten.

    Raises
    ------
    PlanError
        A call without a lambda, one with another number of parameters than it takes, or a list comprehension that is
        none.
    """
    while (changed := _changed(SqlText.read(text))) is not None:
        text = changed
    return text


def _changed(sql: SqlText) -> str | None:
    """The text with the last of them rewritten: those within others come before these."""
    calls = [i for word in sql.words & (_CALLS.keys() | _SHORT.keys()) for i in sql.places(word)]
    loops = [opens for opens in sql.signs("[") if _loop_of(sql, opens) is not None] if sql.places("FOR") else []
    for i in sorted([*calls, *loops], reverse=True):
        changed = _comprehension(sql, i) if sql.is_sign(i, "[") else _call(sql, i)
        if changed is not None:
            return changed
    return None


# --- reading ---


def _is_arrow(sql: SqlText, i: int) -> bool:
    return sql.is_sign(i, "-") and sql.is_sign(i + 1, ">") and sql.tokens[i].end == sql.tokens[i + 1].start


def _is_name(sql: SqlText, i: int) -> bool:
    return i < len(sql.tokens) and sql.tokens[i].kind in ("word", "quoted")


def _lambda_at(sql: SqlText, i: int, end: int) -> _Lambda | None:
    """The lambda that an argument beginning at token i is; its body ends at the next comma of its level."""
    names: list[str] = []
    if sql.is_word(i, "LAMBDA") and _is_name(sql, i + 1):
        at = i + 1
        while _is_name(sql, at):
            names.append(sql.name(at).lower())
            at += 1 + sql.is_sign(at + 1, ",")
        if not sql.is_sign(at, ":"):
            raise PlanError("a lambda has a colon behind its parameters: lambda x: x + 1")
        body = at + 1
    elif sql.is_sign(i, "(") and _is_arrow(sql, sql.partner[i] + 1 if sql.partner[i] < end else end):
        names = [sql.name(at).lower() for at in range(i + 1, sql.partner[i]) if not sql.is_sign(at, ",")]
        body = sql.partner[i] + 3
    elif _is_name(sql, i) and _is_arrow(sql, i + 1):
        names = [sql.name(i).lower()]
        body = i + 3
    else:
        return None
    until = next((at for at in sql.level(body, end) if sql.is_sign(at, ",")), end)
    if body >= until:
        raise PlanError("a lambda has a body: lambda x: x + 1")
    return _Lambda(names, body, until)


def _call(sql: SqlText, i: int) -> str | None:
    """The text with the call at token i rewritten; None where it is none, or has been."""
    name = sql.tokens[i].text
    if not sql.is_sign(i + 1, "(") or sql.is_sign(i - 1, ".") or sql.is_word(i - 1, "AS"):
        return None
    close = sql.partner[i + 1]
    comma = next((at for at in sql.level(i + 2, close) if sql.is_sign(at, ",")), close)
    function = _lambda_at(sql, comma + 1, close) if comma < close else None
    if function is None:
        if name in _SHORT:
            return None
        raise PlanError(f"{name.lower()} takes a list and a lambda, as in {name.lower()}(l, lambda x: x + 1)")
    if function.parameters[0].startswith(_PARAMETER):
        return None
    kind = _CALLS.get(name) or _SHORT[name]
    lists = sql.slice(i + 2, comma)
    if kind == "reduce":
        first = sql.slice(function.end + 1, close) if function.end < close else None
        return sql.replaced(i, close + 1, _reduced(sql, name, lists, function, first))
    if len(function.parameters) > 2 or function.end < close:
        raise PlanError(f"{name.lower()} takes a list and a lambda of an element and, perhaps, its place")
    made = _mapped(sql, lists, [(kind, function.start, function.end)], function.parameters)
    return sql.replaced(i, close + 1, made)


def _loop_of(sql: SqlText, opens: int) -> int | None:
    """The FOR of the list comprehension in a bracket."""
    return next((i for i in sql.level(opens + 1, sql.partner[opens]) if sql.is_word(i, "FOR")), None)


def _comprehension(sql: SqlText, opens: int) -> str:
    close, loop = sql.partner[opens], _loop_of(sql, opens)
    assert loop is not None
    level = list(sql.level(loop, close))
    within = next((i for i in level if sql.is_word(i, "IN")), None)
    condition = next((i for i in level if sql.is_word(i, "IF")), close)
    names = [] if within is None else [sql.name(i).lower() for i in range(loop + 1, within) if not sql.is_sign(i, ",")]
    if within is None or not 1 <= len(names) <= 2 or within + 1 >= condition or loop == opens + 1:
        raise PlanError("a list comprehension is written [x + 1 for x in l if x > 1]")
    steps = [("array_transform", opens + 1, loop)]
    if condition < close:
        steps.insert(0, ("array_filter", condition + 1, close))
    return sql.replaced(opens, close + 1, _mapped(sql, sql.slice(within + 1, condition), steps, names))


# --- writing ---


def _mapped(sql: SqlText, lists: str, steps: Sequence[tuple[str, int, int]], names: Sequence[str]) -> str:
    """Calls of functions, one over the other, of bodies that read the same parameters."""
    has_place = len(names) == 2
    made = f"list_zip({lists}, generate_series(1, CAST(array_length({lists}) AS BIGINT)))" if has_place else lists
    for number, (function, start, end) in enumerate(steps):
        element = _new_name(sql, number)
        meant = {names[0]: element + _ELEMENT, names[1]: element + _PLACE} if has_place else {names[0]: element}
        made = f"{function}({made}, {element} -> ({_renamed(sql, start, end, meant)}))"
    if not has_place:
        return made
    if steps[-1][0] == "array_filter":
        element = _new_name(sql, len(steps))
        made = f"array_transform({made}, {element} -> {element}{_ELEMENT})"
    return f"(CASE WHEN ({lists}) IS NOT NULL THEN {made} END)"


def _reduced(sql: SqlText, name: str, lists: str, function: _Lambda, first: str | None) -> str:
    if len(function.parameters) != 2:
        raise PlanError(
            f"{name.lower()} takes a lambda of two parameters here: lambda sofar, x: sofar + x; a list with places is "
            "list_zip(l, range(1, len(l) + 1))"
        )
    sofar, element = _new_name(sql, 0), _new_name(sql, 1)
    meant = dict(zip(function.parameters, (sofar, element), strict=True))
    body = _renamed(sql, function.start, function.end, meant)
    begin, kind = (element, 0) if first is None else (first, 1)
    inner = f"array_element(array_transform(make_array({begin}), {sofar} -> ({body})), {REDUCES}({kind}))"
    return f"array_element(array_transform({lists}, {element} -> {inner}), 1)"


def _new_name(sql: SqlText, more: int) -> str:
    """A name that no parameter in the text has; `more` are asked for before this one."""
    taken = [name for name in sql.names if name.startswith(_PARAMETER)]
    return f'"{_PARAMETER}{len(taken) + more}"'


def _renamed(sql: SqlText, start: int, end: int, meant: Mapping[str, str]) -> str:
    """Tokens start to end with these names of parameters replaced. A field x.a of one is x['a'], and a list is made by
    a call: the planner looks for the names of others than columns in neither.
    """
    if any(start <= i < end for i in sql.places("SELECT")):
        raise PlanError("a subquery in a lambda is not supported; join it, and name its column in the lambda")
    new: dict[int, str] = {}
    for i in range(start, end):
        if sql.is_sign(i, "[") and (sql.is_word(i - 1, "ARRAY") or not ends_value(sql, i - 1)):
            new |= {i: "make_array(", sql.partner[i]: ")"}
            if sql.is_word(i - 1, "ARRAY"):
                new[i - 1] = ""
        if not _is_value(sql, i) or sql.name(i).lower() not in meant:
            continue
        new[i] = meant[sql.name(i).lower()]
        at = i + 1
        while sql.is_sign(at, ".") and at + 1 < end and _is_name(sql, at + 1):
            field = sql.name(at + 1).replace("'", "''")
            new |= {at: "", at + 1: f"['{field}']"}
            at += 2
    pieces, at = [], sql.tokens[start].start
    for i, written in sorted(new.items()):
        pieces += [sql.text[at : sql.tokens[i].start], written]
        at = sql.tokens[i].end
    return "".join([*pieces, sql.text[at : sql.tokens[end - 1].end]])


def _is_value(sql: SqlText, i: int) -> bool:
    """Whether the name at token i may be that of a parameter: no function, field or its name, type or alias."""
    if not _is_name(sql, i) or sql.is_sign(i - 1, ".") or sql.is_sign(i + 1, "(") or sql.is_word(i - 1, "AS"):
        return False
    if i + 1 < len(sql.tokens) and sql.tokens[i + 1].kind == "string":
        return False
    is_type = sql.is_sign(i - 1, ":") and sql.is_sign(i - 2, ":")
    return not is_type and not _is_key(sql, i)


def _is_key(sql: SqlText, i: int) -> bool:
    """Whether token i is a field's name in a struct: {x: 1}, struct_pack(x := 1)."""
    if not sql.is_sign(i + 1, ":") or sql.is_sign(i + 2, ":"):
        return False
    if sql.is_sign(i + 2, "="):
        return True
    return any(
        opens < i < sql.partner[opens] and i in sql.level(opens + 1, sql.partner[opens]) for opens in sql.signs("{")
    )
