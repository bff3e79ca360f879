"""Files that appear whole or not at all: written in a folder beside, renamed when all are complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError, SchemaChangeError
from qcore.expression.types import plain
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


def kind_of(status: os.stat_result) -> str:
    """What stands at a path, in a message."""
    kinds = (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISLNK, "a symbolic link"),
    )
    return next((name for is_kind, name in kinds if is_kind(status.st_mode)), "a special file")


def status_of(path: str) -> os.stat_result | None:
    """What is at the path, behind symbolic links; None: nothing, or a link to nothing."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def replaced_file(path: str, where: str) -> str:
    """The file that a write to `path` makes, or replaces by renaming: behind symbolic links, which stay.

    Raises
    ------
    PlanError
        What stands there is no regular file: a rename would put one in its place.
    """
    try:
        status = status_of(path)
    except OSError as error:
        raise PlanError(f"{where}: {path} cannot be written: {error.strerror}") from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise PlanError(
            f"{where}: {path} is {kind_of(status)}, and only regular files are replaced; write to a file, and copy that"
        )
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise PlanError(f"{where}: {path}: the folder {os.path.dirname(target)!r} is not there; make it first")
    if status is not None and status_of(target) is None:
        raise PlanError(f"{where}: {path} leads to a file that has no name any more; write to a path")
    return target


def replace_file(staged: str, target: str) -> None:
    """Give a complete file the name `target`, and the mode and owner of the file that it replaces, if any. OSError when
    another kind of thing stands there by now.
    """
    fault_site("write_rename")
    if os.path.realpath(target) != target:
        raise FileExistsError(f"{target} leads elsewhere by now, through a symbolic link")
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        status = None
    if status is not None:
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(f"{target} is {kind_of(status)} by now, and only regular files are replaced")
        own = os.stat(staged)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            # Only a privileged process may give files away; others own what they write.
            with contextlib.suppress(PermissionError):
                os.chown(staged, status.st_uid, status.st_gid)
        os.chmod(staged, stat.S_IMODE(status.st_mode))
    os.replace(staged, target)


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
    """A hidden folder beside `target`, made when first needed, where files are written until they are complete.

    Nobody else may enter it. The folder of the files is one below, with the mode that new folders have.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        folder, name = os.path.split(target)
        self.path = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.partial")
        self._files = os.path.join(self.path, "files")
        self._process = os.getpid()

    def file(self, name: str) -> str:
        """Path of a file in it."""
        with writing(self.target):
            fault_site("write_folder")
            self._make()
        return os.path.join(self._files, name)

    def _make(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, mode=0o700)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._files)

    def become_target(self) -> None:
        """The folder, complete now, is the target. ExecutionError when that is there already."""
        with writing(self.target):
            if os.path.lexists(self.target):
                raise FileExistsError(f"{self.target} is there already; remove it, or write elsewhere")
            self._make()
            fault_site("write_rename")
            os.rename(self._files, self.target)
            self.remove()

    def remove(self) -> None:
        """Remove what was written and is not complete. A forked child leaves it: its parent writes there."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
