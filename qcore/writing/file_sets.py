"""Files that appear complete or not at all: written to a hidden folder beside the target and renamed at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from qcore.errors import ExecutionError, PlanError, SchemaChangeError
from qcore.expression.types import plain
from qcore_ext.ground.fault import fault_site


class Producers:
    """Counts the operators that write to the same files, until all are done. Any thread may call it."""

    def __init__(self, n: int) -> None:
        self._n_left = n
        self._lock = threading.Lock()
        #: Whether all operators that are done have finished. Otherwise the files are not complete.
        self.all_finished = True

    def count_done(self, finished: bool) -> bool:
        """Count an operator as done. Returns whether it was the last one."""
        with self._lock:
            self.all_finished = self.all_finished and finished
            self._n_left -= 1
            return self._n_left <= 0


def local_path(path: Any, where: str) -> str:
    """Return the absolute path of a file or folder to write. PlanError for a URL, or without a parent folder."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise PlanError(f"{where} writes to a path, not to a {type(path).__name__}") from None
    if not isinstance(text, str) or not text or "://" in text:
        raise PlanError(f"{where} writes to a path of the local file system, not to {text!r}")
    target = Path(text).absolute()
    if not target.parent.is_dir():
        raise PlanError(f"{where}: the folder {str(target.parent)!r} does not exist; create it first")
    return str(target)


def kind_of(status: os.stat_result) -> str:
    """The kind of thing at a path, for messages."""
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
    """The status of a path, symbolic links resolved; None if nothing exists there."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def resolve_target(path: str, where: str) -> str:
    """Return the file that a write to `path` creates or replaces by renaming, symbolic links resolved: links stay.

    Raises
    ------
    PlanError
        Something other than a regular file exists there, which a rename would replace.
    """
    try:
        status = status_of(path)
    except OSError as error:
        raise PlanError(f"{where}: {path} cannot be written: {error.strerror}") from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise PlanError(
            f"{where}: {path} is {kind_of(status)}, and only regular files can be replaced; write to a regular file"
        )
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise PlanError(f"{where}: {path}: the folder {os.path.dirname(target)!r} does not exist; create it first")
    if status is not None and status_of(target) is None:
        raise PlanError(f"{where}: {path} leads to a file without a name; write to a path")
    return target


def replace_file(staged: str, target: str) -> None:
    """Rename a complete file to `target`, with the mode and owner of the file that it replaces, if any.

    Raises
    ------
    OSError
        `target` is no longer a regular file, or its path now has a symbolic link.
    """
    fault_site("write_rename")
    if os.path.realpath(target) != target:
        raise FileExistsError(f"{target} has become a symbolic link, or its path has one")
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        status = None
    if status is not None:
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(f"{target} has become {kind_of(status)}, and only regular files can be replaced")
        own = os.stat(staged)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            # Only a privileged process may change the owner of a file.
            with contextlib.suppress(PermissionError):
                os.chown(staged, status.st_uid, status.st_gid)
        os.chmod(staged, stat.S_IMODE(status.st_mode))
    os.replace(staged, target)


def check_absent(path: str, where: str) -> None:
    """Raise PlanError if the path to be written exists."""
    if os.path.lexists(path):
        raise PlanError(f"{where}: {path} exists already; remove it, or write elsewhere")


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn errors of the body, which writes to `path`, into ExecutionErrors that name it."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(f"cannot write {path}: {error}") from error


def match_file_schema(batch: pa.RecordBatch, schema: pa.Schema, target: str) -> pa.RecordBatch:
    """Convert a batch to the schema of the files; only the layout of its columns may differ.

    Raises
    ------
    SchemaChangeError
        A column is new or has a wider type. Files that were begun cannot change their schema.
    """
    if batch.schema.equals(schema):
        return batch
    for field in batch.schema:
        at = schema.get_field_index(field.name)
        if at < 0:
            raise SchemaChangeError(
                f"column {field.name!r} ({field.type}) is new: the files in {target} have the columns {schema.names}; "
                "declare it at the source"
            )
        if plain(field.type) != plain(schema.field(at).type):
            raise SchemaChangeError(
                f"column {field.name!r} changed from {schema.field(at).type} to {field.type}: the files in {target} "
                "have the first type; declare the wider one at the source"
            )
    return batch.select(schema.names).cast(schema)


class StagingFolder:
    """A hidden folder beside `target` for files that are not complete yet. It is made when first needed.

    Only the owner may enter it. The files are in a folder below it, which has the default mode of new folders.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        folder, name = os.path.split(target)
        self.path = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.partial")
        self._files = os.path.join(self.path, "files")
        self._segments = os.path.join(self.path, "segments")
        self._process = os.getpid()

    def file(self, name: str) -> str:
        """Return the path of a file in the folder, and make the folder."""
        with writing(self.target):
            fault_site("write_folder")
            self._make()
        return os.path.join(self._files, name)

    def segment(self) -> str:
        """Return the path of a new file, which does not become a file of the target."""
        self.file("")
        with writing(self.target), contextlib.suppress(FileExistsError):
            os.mkdir(self._segments)
        return os.path.join(self._segments, uuid.uuid4().hex)

    def _make(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, mode=0o700)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._files)

    def become_target(self) -> None:
        """Rename the folder of the files, now complete, to the target. ExecutionError if the target exists."""
        with writing(self.target):
            if os.path.lexists(self.target):
                raise FileExistsError(f"{self.target} exists already; remove it, or write elsewhere")
            self._make()
            fault_site("write_rename")
            os.rename(self._files, self.target)
            self.remove()

    def remove(self) -> None:
        """Remove the folder and its files. A forked child does nothing, because its parent writes there."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
