"""Conversion of texts and names from Spark's quotes to those of standard SQL."""

from __future__ import annotations

import re
import sys

from qcore.errors import PlanError

_LITERAL = re.compile(
    r"""(?P<skip>--[^\n]*|/\*.*?\*/)
      | (?P<raw>\b[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)*`)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def with_standard_texts(text: str) -> str:
    """Convert a statement of Spark to standard quotes. Spark's texts may have double quotes and backslash escapes, and
    its names have backticks. PlanError for an escape that is not a character.
    """
    return _LITERAL.sub(_standard, text)


def _standard(found: re.Match[str]) -> str:
    if found["skip"]:
        return found["skip"]
    if found["name"]:
        name = found["name"][1:-1].replace("``", "`").replace('"', '""')
        return f'"{name}"'
    if found["raw"]:
        value = found["raw"][2:-1]
    else:
        quote, value = found["text"][0], found["text"][1:-1]
        value = _ESCAPED.sub(_unescape, value.replace(quote * 2, f"\\{quote}"))
    return "'" + value.replace("'", "''") + "'"


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    if code in ("%", "_"):
        # These escapes are kept for LIKE.
        return f"\\{code}"
    if code[0] in "uU" and len(code) > 1:
        number = int(code[1:], 16)
        if number > sys.maxunicode or 0xD800 <= number < 0xE000:
            raise PlanError(
                f"\\{code} in a text is not a character: characters end at U+10FFFF, without U+D800 to U+DFFF"
            )
        return chr(number)
    if len(code) == 3:
        return chr(int(code, 8))
    return _CONTROLS.get(code, code)
