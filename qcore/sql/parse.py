"""Parsing: SQL text to sqlglot's parse tree and its tokens.

sqlglot renames, merges and reorders the arguments of functions that it knows. A comment on each closing bracket makes
it keep calls as they are written. Tokens that sqlglot would misread are rewritten before they are parsed.
"""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from qcore.errors import PlanError
from qcore.expression.recursion import PARSER_LIMIT, deep_recursion
from qcore.functions.dialect import Dialect
from qcore.garbage import pause_garbage_collection
from qcore.record import record
from qcore.sql.reading import take
from qcore.sql.token_brackets import with_brackets

#: sqlglot does not change calls with this comment.
_AS_WRITTEN = "sqlglot.anonymous"
#: The prefix that keeps the parser from interpreting a function's name.
PREFIX = "$"
# Functions that sqlglot interprets in spite of the comment. Some of its classes drop arguments.
_RENAMED = frozenset({
    "approx_quantile", "argmax", "argmin", "arg_max", "arg_min", "array", "ceil", "char", "chr", "floor",
    "gap_fill", "group_concat", "initcap", "json_object", "json_objectagg", "listagg", "map", "max", "max_by", "min",
    "min_by", "normalize", "openjson", "quantile", "quantile_cont", "quantile_disc", "stringagg", "string_agg",
    "weight_string", "xmlelement", "overlaps", "percentile", "percentile_approx", "approx_percentile",
})  # fmt: skip
#: The first word of the comment on SELECT; the number of its token follows.
_SELECT = "qcore.select"
_COMPARISONS = frozenset({"=", "==", "<", ">", "<=", ">=", "<>", "!="})
# Words that an operator cannot follow.
_NO_VALUES = frozenset({
    "SELECT", "DISTINCT", "WHERE", "AND", "OR", "ON", "HAVING", "QUALIFY", "WHEN", "THEN", "ELSE", "CASE", "BETWEEN",
    "IN", "LIKE", "ILIKE", "AS", "FROM", "GROUP BY", "ORDER BY", "BY",
})  # fmt: skip
_NULL_ORDERINGS = {
    "nulls_last": "nulls_are_last",
    "nulls_max": "nulls_are_large",
    "nulls_min": "nulls_are_small",
    "nulls_first": "nulls_are_small",
}


# The first words of statements that the parser reads.
_BEGINNINGS = (
    "SELECT", "WITH", "VALUES", "FROM", "(", "PIVOT", "UNPIVOT", "TABLE", "DESCRIBE", "SHOW", "SUMMARIZE", "EXPLAIN",
    "CREATE", "DROP", "ALTER", "INSERT", "UPDATE", "DELETE", "MERGE", "SET", "COPY",
)  # fmt: skip
# Clauses in the order in which a query has them.
_CLAUSES = {"WHERE": 1, "GROUP_BY": 2, "HAVING": 3, "QUALIFY": 4, "ORDER_BY": 5, "LIMIT": 6}
# An escape in e'…'.
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_CONTROLS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "INTERSECT", "SELECT", "FROM", "SEMICOLON"})


@record(frozen=True)
class Source:
    """A text and its tokens, to which positions in errors and names of columns refer."""

    text: str
    tokens: list[Any]


def parse(text: str, dialect: Dialect) -> tuple[list[Any], Source]:
    """The statements of a text, and its tokens.

    Raises
    ------
    PlanError
        A syntax error. The message has the token, its position and the line of the text.
    """
    reader = _sqlglot_dialect(dialect.syntax, dialect.null_order)
    return _parse_tokens(reader, text, _tokens(reader, text), dialect)


def parse_items(text: str, dialect: Dialect) -> tuple[list[Any], Source]:
    """The expressions of a text, which are separated by commas, and its tokens. PlanError: a syntax error."""
    reader = _sqlglot_dialect(dialect.syntax, dialect.null_order)
    kinds, make = _token_classes()
    # Expressions are parsed as a select list. The token SELECT is added and is not in the text.
    select = make(kinds.SELECT, "SELECT", 0, 0, 0, -1)
    statements, source = _parse_tokens(reader, text, [select, *_tokens(reader, text)], dialect)
    (items,) = take(statements[0], "expressions") if len(statements) == 1 else ((),)
    return list(items or ()), source


# The longest text whose tokens are kept, in characters.
_KEPT_TEXT_MAX = 100_000


class _LastTokens(threading.local):
    """The tokens of the text that a thread read last. A session reads a text once for its file names and once to plan
    it. Each thread has its own tokens, because comments are added to them for the parser.
    """

    reader: Any = None
    text: str = ""
    tokens: tuple[Any, ...] = ()


_last = _LastTokens()


def _tokens(reader: Any, text: str) -> list[Any]:
    from sqlglot.errors import TokenError

    if _last.reader is reader and _last.text == text:
        return list(_last.tokens)
    try:
        tokens = tuple(reader.tokenize(text))
    except TokenError as error:
        raise _token_error(text, error) from None
    _keep(reader, text, tokens)
    return list(tokens)


def _keep(reader: Any, text: str, tokens: tuple[Any, ...]) -> None:
    if len(text) <= _KEPT_TEXT_MAX:
        _last.reader, _last.text, _last.tokens = reader, text, tokens


def _parse_tokens(reader: Any, text: str, tokens: list[Any], dialect: Dialect) -> tuple[list[Any], Source]:
    from sqlglot.errors import ParseError

    tokens = _mend_tokens(tokens, text, dialect)
    source = Source(text, tokens)
    try:
        with deep_recursion(PARSER_LIMIT):
            statements = _statements(reader, source, dialect)
    except ParseError as error:
        raise _syntax_error(source, error) from None
    except RecursionError:
        raise PlanError("the query is nested too deeply; compute parts of it in common tables first") from None
    return [statement for statement in statements if statement is not None], source


def _statements(reader: Any, source: Source, dialect: Dialect) -> Any:
    """The statements of the rewritten tokens.

    If `^` is exclusive or, Spark's parser is used, in which `^` has a lower precedence than `&`. It lacks lambdas,
    comprehensions and `**`. If it fails and the text has no `^`, DuckDB's parser reads the text.
    """
    from sqlglot.errors import ParseError

    kinds, _ = _token_classes()
    has_caret = "^" in source.text and any(token.token_type == kinds.CARET for token in source.tokens)
    if dialect.syntax == "spark" or (dialect.caret == "xor" and has_caret):
        try:
            return _sqlglot_parser(dialect.null_order).parser().parse(source.tokens, source.text)
        except ParseError:
            if has_caret:
                raise
    return reader.parser().parse(source.tokens, source.text)


def import_parser(dialect: Dialect) -> None:
    """Import the parser of the dialect. PlanError if it is not installed."""
    try:
        with pause_garbage_collection():
            _sqlglot_dialect(dialect.syntax, dialect.null_order)
    except ModuleNotFoundError as error:
        raise PlanError(f"SQL needs the package sqlglot ({error}): pip install 'qcore[sql]'") from error


def tokens_of(text: str, dialect: Dialect) -> list[Any]:
    """The tokens of a text, as they are written. PlanError if a text, a name or a comment does not end."""
    return _tokens(_sqlglot_dialect(dialect.syntax, dialect.null_order), text)


def keep_beginning(text: str, tokens: Sequence[Any], dialect: Dialect) -> None:
    """Keep the tokens of a text that is the beginning of another one, up to a semicolon, as those read last."""
    _keep(_sqlglot_dialect(dialect.syntax, dialect.null_order), text, tuple(tokens))


def select_token(node: Any) -> int | None:
    """The number of the SELECT token of a Select node. None for FROM without SELECT."""
    for comment in node.comments or ():
        if comment.startswith(_SELECT):
            return int(comment.rpartition(" ")[2])
    return None


@cache
def _sqlglot_dialect(syntax: str, null_order: str) -> Any:
    """sqlglot's dialect with settings. Its import takes a seventh of a second."""
    parent = import_module("sqlglot.dialects.duckdb").DuckDB
    settings = {
        "INDEX_OFFSET": 0,
        "NULL_ORDERING": _NULL_ORDERINGS[null_order],
        # Without this, older versions use a tokenizer without the escapes of e'…'.
        "Tokenizer": parent.Tokenizer,
    }
    return type(f"Qcore{syntax.title()}{null_order.title().replace('_', '')}", (parent,), settings)()


@cache
def _sqlglot_parser(null_order: str) -> Any:
    """sqlglot's dialect whose parser has x ^ y, DIV and RLIKE of Spark. Its tokenizer is not used: the tokens come from
    DuckDB's, so texts and names are quoted as in DuckDB.
    """
    parent = import_module("sqlglot.dialects.spark").Spark
    settings = {"INDEX_OFFSET": 0, "NULL_ORDERING": _NULL_ORDERINGS[null_order]}
    return type(f"QcoreXor{null_order.title().replace('_', '')}", (parent,), settings)()


def _mend_tokens(tokens: list[Any], text: str, dialect: Dialect) -> list[Any]:
    """Rewrite the tokens. Numbers in base 16, bytes, and texts in several pieces become one token each. The comments of
    the text are replaced by those that the parser looks for.
    """
    kinds, _ = _token_classes()
    result: list[Any] = []
    mended, var, a_number = _mended_kinds(), kinds.VAR, kinds.NUMBER
    for number, token in enumerate(tokens):
        token.comments = []
        kind = token.token_type
        before = result[-1] if result else None
        is_name = kind == var and (before is None or before.token_type != a_number) and token.text.lower() != "groups"
        if is_name or kind not in mended:
            result.append(token)
            continue
        touches = before is not None and before.end + 1 == token.start
        is_timestamp = kind in (kinds.TIMESTAMP, kinds.TIMESTAMPNTZ) and token.text.upper() == "TIMESTAMP"
        if is_timestamp and dialect.syntax == "spark":
            # The tokenizer is DuckDB's: TIMESTAMP and TIMESTAMP_NTZ of Spark are tokens of one kind there.
            token = _join_tokens(kinds.TIMESTAMPTZ, token.text, token, token)
        if (
            touches
            and before is not None
            and kind == kinds.VAR
            and before.token_type == kinds.NUMBER
            and before.text == "0"
        ):
            value = _hexadecimal(token.text)
            if value is not None:
                result[-1] = _join_tokens(kinds.NUMBER, str(value), before, token)
                continue
        if kind == kinds.STRING and before is not None:
            if touches and before.token_type == kinds.VAR and before.text.lower() == "x":
                result[-1] = _join_tokens(kinds.HEX_STRING, token.text, before, token)
                continue
            if before.token_type == kinds.STRING and not touches:
                result[-1] = _join_tokens(kinds.STRING, before.text + token.text, before, token)
                continue
        if token.text == "(" and before is not None and before.text.lower() in _RENAMED and _is_word(before):
            result[-1] = _join_tokens(kinds.VAR, f"{PREFIX}{before.text}", before, before)
        if token.text == "(" and before is not None and before.text.lower() == "apply" and not _is_join(result):
            result[-1] = _join_tokens(kinds.VAR, before.text, before, before)
        if kind == kinds.NUMBER and "_" in token.text:
            token = _join_tokens(kind, token.text.replace("_", ""), token, token)
        if kind == kinds.HEREDOC_STRING:
            token = _join_tokens(kinds.STRING, token.text, token, token)
        if kind == kinds.BYTE_STRING and text[token.start] in "eE":
            token = _join_tokens(kind, unescape_text(text, token), token, token)
        if kind == kinds.VAR and token.text.lower() == "groups" and _is_frame(result, tokens[number + 1 :][:1]):
            token = _join_tokens(kinds.ROWS, token.text, token, token)
        if kind == kinds.TABLE and _is_query(before, tokens[number + 1 :][:1]):
            token = _join_tokens(kinds.FROM, token.text, token, token)
        is_span = kind == kinds.STRING and before is not None and before.token_type == kinds.INTERVAL
        if is_span and ":" in token.text and any(map(str.isalpha, token.text)):
            result[-1:] = _interval_cast(before, token)
            continue
        result.append(token)
    _refuse_misread(result, text)
    _check_order(result, text)
    if dialect.syntax == "spark":
        result = _with_spark_words(result)
    if dialect.null_order == "nulls_first":
        result = _with_nulls_first(result)
    result = with_brackets(result) if "[" in text or "::" in text or "pivot" in text.lower() else result
    for position, token in enumerate(result):
        if token.token_type == kinds.R_PAREN:
            token.comments = [_AS_WRITTEN]
        elif token.token_type == kinds.SELECT:
            token.comments = [f"{_SELECT} {position}"]
    return result


def _interval_cast(before: Any, token: Any) -> list[Any]:
    """Rewrite INTERVAL '1 day 04:05' to CAST('1 day 04:05' AS INTERVAL), because the parser would read it as '1 day'.
    The added tokens have no position in the text.
    """
    kinds, make = _token_classes()
    words = ((kinds.L_PAREN, "("), (kinds.ALIAS, "AS"), (kinds.INTERVAL, "INTERVAL"), (kinds.R_PAREN, ")"))
    opening, *rest = (make(kind, word, token.line, token.col, token.end + 1, token.end) for kind, word in words)
    return [_join_tokens(kinds.VAR, "CAST", before, before), opening, token, *rest]


def _with_spark_words(tokens: list[Any]) -> list[Any]:
    """The tokens with Spark's operators, and with any(x) and some(x) as calls unless they follow a comparison."""
    kinds, _ = _token_classes()
    operators = {"rlike": kinds.RLIKE, "regexp": kinds.RLIKE, "div": kinds.DIV, "!": kinds.NOT}
    result: list[Any] = []
    for before, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        word = token.text.lower() if _is_word(token) else ""
        is_call = following is not None and following.text == "("
        if word in operators and (word == "!" or ends_value(before)):
            token = _join_tokens(operators[word], token.text, token, token)
        elif word in ("any", "some") and is_call and (before is None or before.text not in _COMPARISONS):
            token = _join_tokens(kinds.VAR, f"{PREFIX}{token.text}", token, token)
        result.append(token)
    return result


def ends_value(token: Any) -> bool:
    """Whether a token can be the last of an expression, so that an operator follows it."""
    return token is not None and (
        token.text in (")", "]", "}")
        or token.token_type.name in ("STRING", "IDENTIFIER", "NUMBER", "VAR", "NULL", "TRUE", "FALSE", "END", "NOT")
        or (token.text.isidentifier() and token.text.upper() not in _NO_VALUES)
    )


def _refuse_misread(tokens: list[Any], text: str) -> None:
    """Raise PlanError for syntax that sqlglot misreads: it drops the star of *COLUMNS(…)."""
    if "columns" not in text.lower():
        return
    for before, token, following in zip(["", *tokens], tokens, tokens[1:], strict=False):
        is_first = before == "" or before.text in ("(", ",") or before.text.upper() in ("SELECT", "DISTINCT")
        if token.text == "*" and following.text.upper() == "COLUMNS" and is_first:
            message = "*COLUMNS(…) as arguments is not supported; name the columns"
            raise PlanError(locate_message(message, text, token.start, following.end))


def _check_order(tokens: list[Any], text: str) -> None:
    """Raise PlanError if clauses are not in the order of SQL. sqlglot accepts any order."""
    #: The last clause at each level of brackets, as its token and its kind.
    before: list[tuple[Any, str]] = [(None, "")]
    ordered = _ordered_kinds()
    for position, token in enumerate(tokens):
        kind = ordered.get(token.token_type)
        if kind is None:
            continue
        if kind == "L_PAREN":
            before.append((None, ""))
        elif kind == "R_PAREN" and len(before) > 1:
            before.pop()
        elif kind in _SET_OPERATIONS:
            before[-1] = (None, "")
        elif kind in _CLAUSES:
            if kind == "LIMIT" and [one.token_type.name for one in tokens[position + 1 : position + 2]] != ["NUMBER"]:
                continue
            last, last_kind = before[-1]
            if last is not None and _CLAUSES[last_kind] >= _CLAUSES[kind]:
                after = f": {token.text.upper()} must be before {last.text.upper()}, and each clause occurs once"
                raise PlanError(locate_message(f"syntax error at {token.text!r}", text, token.start, token.end, after))
            before[-1] = (token, kind)


@cache
def _mended_kinds() -> frozenset[Any]:
    """The kinds of tokens that may be rewritten, alone or with the token before them."""
    kinds, _ = _token_classes()
    return frozenset({
        kinds.VAR, kinds.STRING, kinds.HEREDOC_STRING, kinds.BYTE_STRING, kinds.NUMBER, kinds.L_PAREN, kinds.TIMESTAMP,
        kinds.TIMESTAMPNTZ, kinds.TABLE,
    })  # fmt: skip


@cache
def _ordered_kinds() -> dict[Any, str]:
    """The names of the kinds of tokens that matter for the order of clauses."""
    kinds, _ = _token_classes()
    return {getattr(kinds, name): name for name in ("L_PAREN", "R_PAREN", *_CLAUSES, *_SET_OPERATIONS)}


@cache
def _token_classes() -> tuple[Any, Any]:
    """The kinds of tokens, and the class of tokens."""
    tokens: Any = import_module("sqlglot.tokens")
    return tokens.TokenType, tokens.Token


def _is_word(token: Any) -> bool:
    return token.token_type.name not in ("STRING", "IDENTIFIER", "HEREDOC_STRING")


def _is_join(tokens: list[Any]) -> bool:
    """Whether the last token, APPLY, is a kind of join and not the function."""
    return len(tokens) > 1 and tokens[-2].text.upper() in ("CROSS", "OUTER")


def _join_tokens(kind: Any, text: str, first: Any, last: Any) -> Any:
    return _token_classes()[1](kind, text, last.line, last.col, first.start, last.end)


def _hexadecimal(text: str) -> int | None:
    if text[:1] not in ("x", "X"):
        return None
    try:
        return int(text[1:], 16)
    except ValueError:
        return None


def _is_query(before: Any, following: list[Any]) -> bool:
    """Whether TABLE between these tokens begins the query TABLE t.

    It is rewritten to FROM t, which all versions read.
    """
    begins = before is None or before.text.upper() in ("(", ";", "UNION", "EXCEPT", "INTERSECT", "ALL")
    return begins and bool(following) and following[0].token_type.name in ("VAR", "IDENTIFIER")


def _is_frame(before: list[Any], following: list[Any]) -> bool:
    """Whether GROUPS between these tokens begins a frame: in the brackets of OVER or WINDOW, after a value."""
    if not following or following[0].text.upper() in (")", ",", "ORDER BY", "PARTITION BY", "ROWS", "RANGE"):
        return False
    depth, at = 0, len(before) - 1
    while at >= 0 and (depth or before[at].text != "("):
        depth += {")": 1, "(": -1}.get(before[at].text, 0)
        at -= 1
    if at < 1 or before[at - 1].text.upper() not in ("OVER", "AS"):
        return False
    inside = before[at + 1 :]
    if not inside:
        return True
    is_query = inside[0].text.upper() in ("SELECT", "WITH", "FROM", "VALUES", "(")
    return not is_query and ends_value(inside[-1]) and inside[-1].text.upper() != "NOT"


def unescape_text(text: str, token: Any) -> str:
    """The text of the token e'…' with its escapes, as in DuckDB. PlanError if it is not valid UTF-8."""
    quoted = text[token.start + 2 : token.end]
    data = _ESCAPE.sub(lambda found: _letter(found.group(1)), quoted.replace("''", "'").encode())
    try:
        result = data.decode()
    except UnicodeDecodeError:
        result = "\0"
    if "\0" in result:
        after = ": its bytes must be UTF-8, without the byte 0"
        raise PlanError(locate_message(f"e'{quoted}' is not a text", text, token.start, token.end, after))
    return result


def _letter(code: bytes) -> bytes:
    """The bytes of an escape, given without its backslash."""
    if code in _CONTROLS:
        return _CONTROLS[code]
    if code[:1] in b"01234567" or len(code) > 1:
        return bytes([(int(code[1:], 16) if code[:1] == b"x" else int(code, 8)) & 255])
    return code


def _with_nulls_first(tokens: list[Any]) -> list[Any]:
    """Add NULLS FIRST after each DESC without an order of nulls.

    sqlglot has no setting for nulls first in both orders.
    """
    kinds, make = _token_classes()
    result = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        result.append(token)
        if token.token_type == kinds.DESC and (following is None or following.text.upper() != "NULLS"):
            for word, kind in (("NULLS", kinds.VAR), ("FIRST", kinds.FIRST)):
                result.append(make(kind, word, token.line, token.col, token.start, token.end))
    return result


# --- errors ---


def locate_message(message: str, text: str, start: int, end: int, after: str = "") -> str:
    """The message with the position in the text, and the line with a caret below."""
    line = text.count("\n", 0, start) + 1
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    shown = text[begin : stop if stop >= 0 else len(text)]
    column = start - begin + 1
    # A long line is cut on both sides of the position.
    cut = max(0, column - 60)
    shown = shown[cut : cut + 120]
    pointer = " " * (column - 1 - cut) + "^" * max(1, min(end - start + 1, len(shown) - (column - 1 - cut)))
    return f"{message}, line {line}, column {column}{after}\n  {shown}\n  {pointer}"


def _syntax_error(source: Source, error: Any) -> PlanError:
    fault = error.errors[0] if error.errors else {}
    line, column = fault.get("line"), fault.get("col")
    found = next((token for token in source.tokens if (token.line, token.col) == (line, column)), None)
    first = source.tokens[0]
    if first.text.upper() not in _BEGINNINGS:
        return _beginning_error(source, first)
    what = str(fault.get("description") or "this cannot be read").rstrip(".")
    if what.startswith("Invalid expression"):
        what = "this was not expected here"
    elif what.startswith("Required keyword"):
        what = "an expression was expected"
        # The position is that of the operator before the missing expression.
        is_value = found is not None and found.token_type.name in ("NUMBER", "STRING", "VAR", "IDENTIFIER", "R_PAREN")
        found = None if found is source.tokens[-1] and not is_value else found
    elif "SENTINEL" in what or what.endswith(" but got None"):
        # The parser met the end of the tokens.
        what, found = f"{what.removeprefix('Expected ').partition(' but got ')[0]} was expected", None
    elif what.startswith("Expecting "):
        what = f"{what.removeprefix('Expecting ')} was expected"
    if found is None or (found is source.tokens[-1] and what.endswith(" was expected") and "expression" not in what):
        end = len(source.text.rstrip())
        return PlanError(locate_message("syntax error at the end of the query", source.text, end, end, f": {what}"))
    written = source.text[found.start : found.end + 1]
    return PlanError(
        locate_message(f"syntax error at {written[:40]!r}", source.text, found.start, found.end, f": {what}")
    )


def _beginning_error(source: Source, first: Any) -> PlanError:
    close = difflib.get_close_matches(first.text.upper(), _BEGINNINGS, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    written = source.text[first.start : first.end + 1]
    after = f": a query begins with SELECT, WITH, VALUES or FROM{hint}"
    return PlanError(locate_message(f"syntax error at {written[:40]!r}", source.text, first.start, first.end, after))


# Texts, names, comments and texts in dollars, and the beginnings of those that do not end.
_ENDED = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1|(?P<open>['\"]|/\*|\$\w*\$)", re.DOTALL
)
_KINDS_OF_TEXT = {"'": "a text in quotes", '"': "a name in quotes", "/*": "a comment"}


def _token_error(text: str, error: Exception) -> PlanError:
    found = next((match for match in _ENDED.finditer(text) if match["open"]), None)
    if found is None:
        return PlanError(f"syntax error: the text cannot be read ({str(error)[:80]})")
    sign = found["open"]
    shown = f'"{sign}"' if "'" in sign else f"'{sign}'"
    after = f": {_KINDS_OF_TEXT.get(sign, 'a text in dollars')} begins here and does not end"
    return PlanError(locate_message(f"syntax error at {shown}", text, found.start(), found.end() - 1, after))
