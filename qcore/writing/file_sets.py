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

from qcore.errors import ExecutionError, PlanError, SchemaChangeError
from qcore.language.data_types import plain
from qcore_ext.ground.fault import fault_site


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


def as_declared(batch: pa.RecordBatch, schema: pa.Schema, target: str) -> pa.RecordBatch:
    """The batch under the schema of the files, whatever the layout of its columns. SchemaChangeError for a column that
    is new or of a wider type: files that are begun cannot change (SPEC D6).
    """
    if batch.schema.equals(schema):
        return batch
    for field in batch.schema:
        at = schema.get_field_index(field.name)
        if at < 0:
            raise SchemaChangeError(
                f"column {field.name!r} is {field.type} and new: what is written to {target} has the columns "
                f"{schema.names}; declare it at the source"
            )
        if plain(field.type) != plain(schema.field(at).type):
            raise SchemaChangeError(
                f"column {field.name!r} changed from {schema.field(at).type} to {field.type}: what is written to "
                f"{target} has the first type; declare the wider one at the source"
            )
    return batch.select(schema.names).cast(schema)


class StagingFolder:
    """A hidden folder beside `target`, made when first needed, where files are written until they are complete."""

    def __init__(self, target: str) -> None:
        self.target = target
        folder, name = os.path.split(target)
        self.path = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.partial")
        self._process = os.getpid()

    def file(self, name: str) -> str:
        """Path of a file in it."""
        with writing(self.target):
            fault_site("write_folder")
            os.makedirs(self.path, exist_ok=True)
        return os.path.join(self.path, name)

    def become_target(self) -> None:
        """The folder, complete now, is the target. ExecutionError when that is there already."""
        with writing(self.target):
            if os.path.exists(self.target):
                raise FileExistsError(f"{self.target} is there already; remove it, or write elsewhere")
            os.makedirs(self.path, exist_ok=True)
            fault_site("write_rename")
            os.rename(self.path, self.target)

    def remove(self) -> None:
        """Remove what was written and is not complete. A forked child leaves it: its parent writes there."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
