"""Parts of file paths, and the encoding of texts in URLs."""

from __future__ import annotations

import re
import urllib.parse

import pyarrow as pa

from qcore.expression.types import STRING, TypeMismatch, Types
from qcore.functions.arrow.scalar import ArrowFunction, by_value
from qcore.functions.signatures import Function, Signature, take_types

# The separators of a path, by their names in calls.
_SEPARATORS = {"system": "/", "forward_slash": "/", "backslash": "\\", "both_slash": "/\\"}
_TEXTS = pa.list_(STRING)
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_URL_LETTERS = "~-_."


def _separators(name: str) -> str:
    if name not in _SEPARATORS:
        raise ValueError(f"unknown separator {name!r} of a path; there are {', '.join(_SEPARATORS)}")
    return _SEPARATORS[name]


def _last(path: str, separators: str) -> int:
    return max(path.rfind(separator) for separator in separators)


def _path(path: str, separator: str = "system") -> list[str]:
    between = _separators(separator)
    parts = [part for part in re.split(f"[{re.escape(between)}]", path) if part]
    return [path[0], *parts] if path[:1] and path[0] in between else parts


def _file_name(path: str, *how: str) -> str:
    """The text after the last separator. `how` may have 'true', which drops the extension, and a separator's name."""
    texts = [text for text in how if text not in ("true", "false")]
    name = path[_last(path, _separators(texts[0] if texts else "system")) + 1 :]
    return name[: name.rfind(".")] if "true" in how and "." in name else name


def _first_folder(path: str, separator: str = "system") -> str:
    between = _separators(separator)
    if path[:1] and path[0] in between:
        return path[0]
    parts = re.split(f"[{re.escape(between)}]", path, maxsplit=1)
    return parts[0] if len(parts) > 1 else ""


def _folder(path: str, separator: str = "system") -> str:
    last = _last(path, _separators(separator))
    return path if last == len(path) - 1 == 0 else path[: max(last, 0)]


def _url_encode(text: str) -> str:
    return urllib.parse.quote(text, safe=_URL_LETTERS)


def _url_decode(text: str) -> str:
    try:
        return _PERCENT.sub(lambda found: bytes.fromhex(found.group().replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        raise ValueError("the decoded bytes are not UTF-8") from None


def _text_and_how(types: Types) -> Signature:
    texts = [pa.types.is_string(type_) or pa.types.is_null(type_) for type_ in types]
    # The second one may be the separator instead.
    if not all(texts[:1] + texts[2:]) or (not all(texts[1:2]) and not pa.types.is_boolean(types[1])):
        raise TypeMismatch("it takes text, a boolean that drops the extension, and a separator")
    return Signature(STRING, (STRING,) * len(types))


_OF_PATH = take_types(STRING, STRING, STRING, optional=1)
PATH_FUNCTIONS: dict[str, ArrowFunction] = {
    "parse_path": ArrowFunction(take_types(_TEXTS, STRING, STRING, optional=1), by_value(_path, _TEXTS)),
    "parse_filename": ArrowFunction(
        Function(1, 3, _text_and_how, "text, [boolean], [text]", "text"), by_value(_file_name, STRING)
    ),
    "parse_dirname": ArrowFunction(_OF_PATH, by_value(_first_folder, STRING)),
    "parse_dirpath": ArrowFunction(_OF_PATH, by_value(_folder, STRING)),
    "url_encode": ArrowFunction(take_types(STRING, STRING), by_value(_url_encode, STRING)),
    "url_decode": ArrowFunction(take_types(STRING, STRING), by_value(_url_decode, STRING)),
}
