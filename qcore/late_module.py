"""Modules that are imported when one of their names is first used. A short query needs few modules of pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def late_module(name: str) -> Any:
    """Return a proxy of the module. Its attributes are the module's."""
    return _LateModule(name)


class _LateModule:
    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value
