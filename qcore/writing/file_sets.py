"""Files that appear whole or not at all: written in a folder beside, renamed when all are complete. Floor P3."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError


def local_path(path: Any, where: str) -> str:
    """The path of a file or folder to be written, absolute. PlanError for a URL, or where its folder is missing."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise PlanError(f"{where} writes to a path, not to a {type(path).__name__}") from None
    if not isinstance(text, str) or not text or "://" in text:
        raise PlanError(f"{where} writes to a path of this machine's file system, not to {text!r}")
    target = Path(text).absolute()
    if not target.parent.is_dir():
        raise PlanError(f"{where}: the folder {str(target.parent)!r} is not there; make it first")
    return str(target)


def check_absent(path: str, where: str) -> None:
    """PlanError when what is to be written is there."""
    if os.path.lexists(path):
        raise PlanError(f"{where}: {path} is there already; remove it, or write elsewhere")


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """What fails to be written becomes an ExecutionError that names the path."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(f"cannot write {path}: {error}") from error


class StagingFolder:
    """A hidden folder beside `target`, made when first needed, where files are written until they are complete."""

    def __init__(self, target: str) -> None:
        self.target = target
        folder, name = os.path.split(target)
        self.path = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.partial")

    def file(self, name: str) -> str:
        """Path of a file in it."""
        with writing(self.target):
            os.makedirs(self.path, exist_ok=True)
        return os.path.join(self.path, name)

    def become_target(self) -> None:
        """The folder, complete now, is the target. ExecutionError when that is there already."""
        with writing(self.target):
            if os.path.exists(self.target):
                raise FileExistsError(f"{self.target} is there already; remove it, or write elsewhere")
            os.makedirs(self.path, exist_ok=True)
            os.rename(self.path, self.target)

    def remove(self) -> None:
        """Remove what was written and is not complete."""
        shutil.rmtree(self.path, ignore_errors=True)
