"""Where files are: paths, URLs, globs and directories resolved to files on a filesystem."""

from __future__ import annotations

import fnmatch
import glob
import importlib
import os
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from qcore.access import FileAccess
from qcore.errors import PlanError
from qcore_ext.ground.fault import fault_site

GLOB_CHARACTERS = frozenset("*?[")
# Written by Hive and Spark for a null partition value.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

_connections: dict[tuple[str, str, str], tuple[pafs.FileSystem, bool]] = {}


@dataclass(frozen=True)
class Location:
    """One file. `filesystem` None is the local one, read by path; `access` is asked again whenever it is opened."""

    path: str
    filesystem: pafs.FileSystem | None = field(default=None, compare=False)
    access: FileAccess | None = field(default=None, compare=False)

    def check(self) -> None:
        """PlanError when the file may not be reached: what a path leads to may have changed since it was found."""
        if self.access is not None and self.filesystem is None:
            self.access.check_path(self.path)

    def source(self) -> Any:
        """The file, opened for pyarrow's readers: given a path, they take longer to see what kind of path it is."""
        fault_site("file_open")
        self.check()
        return pa.OSFile(self.path) if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def open(self) -> Any:
        """A binary file that can seek."""
        fault_site("file_open")
        self.check()
        return open(self.path, "rb") if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def stamp(self) -> tuple[int, int]:
        """(size in bytes, modification time in ns): changes when the file does. OSError when there is no such file."""
        fault_site("file_status")
        self.check()
        if self.filesystem is None:
            status = os.stat(self.path)
            return status.st_size, status.st_mtime_ns
        info = self.filesystem.get_file_info(self.path)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(f"{self.path} does not exist on {self.filesystem.type_name}")
        return info.size or 0, info.mtime_ns or 0


@dataclass(frozen=True)
class FoundFile:
    """A file of a table, with the values its folders' names give (Hive's `key=value`), as text; None: null."""

    location: Location
    partition_values: tuple[tuple[str, str | None], ...] = ()


def locate(path: str, filesystem: pafs.FileSystem | None = None) -> Location:
    """The file a path or URL names, whether or not it exists. A `filesystem` is asked for the path as it is."""
    if filesystem is not None:
        return Location(path, None if isinstance(filesystem, pafs.LocalFileSystem) else filesystem)
    if "://" not in path:
        return Location(os.path.abspath(os.path.expanduser(path)))
    found, inner = _from_url(path)
    return Location(inner, None if isinstance(found, pafs.LocalFileSystem) else found)


def _from_url(url: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem of a URL and the path on it. Connections are kept: making one may cost several round trips."""
    parts = urllib.parse.urlsplit(url)
    key = (parts.scheme, parts.netloc, parts.query)
    plain = "%" not in url and not parts.fragment
    if plain and key in _connections:
        filesystem, with_host = _connections[key]
        return filesystem, parts.netloc + parts.path if with_host else parts.path
    try:
        filesystem, inner = pafs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        filesystem, inner = _fsspec(url)
    except (OSError, ValueError) as error:
        raise PlanError(f"cannot reach {url}: {error}") from error
    # Object stores have the host (the bucket) as first part of their paths, others do not.
    if plain and inner in (parts.path, parts.netloc + parts.path):
        _connections[key] = filesystem, inner != parts.path
    return filesystem, inner


def find_files(source: Any, filesystem: Any = None, access: FileAccess | None = None) -> list[FoundFile]:
    """All files of a path, URL, glob or directory, or of a sequence of them, in order.

    PlanError when there is none, or when one is not allowed by `access`.
    """
    if filesystem is not None and not isinstance(filesystem, pafs.FileSystem):
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    if isinstance(source, (str, os.PathLike)):
        return _find(os.fspath(source), filesystem, access)
    if not source:
        raise PlanError("the list of files is empty: give at least one path")
    return [found for path in source for found in _find(os.fspath(path), filesystem, access)]


def _find(path: str, filesystem: pafs.FileSystem | None, access: FileAccess | None) -> list[FoundFile]:
    if access is not None:
        access.check_name(path)
    location = locate(path, filesystem)
    try:
        fault_site("file_list")
        if location.filesystem is None:
            found = _find_local(location.path)
        else:
            found = _find_remote(location.path, location.filesystem)
    except (OSError, pa.ArrowException) as error:
        raise PlanError(f"cannot list {path}: {error}") from error
    if not found:
        raise PlanError(f"no such file: {path}" + _glob_remedy(path))
    if access is not None and access.is_restricted:
        for file in found:
            if file.location.filesystem is None:
                access.check_path(file.location.path, path)
        found = [replace(file, location=replace(file.location, access=access)) for file in found]
    return found


def _glob_remedy(path: str) -> str:
    return " (the pattern matches nothing)" if GLOB_CHARACTERS & set(path) else ""


def _find_local(path: str) -> list[FoundFile]:
    if os.path.isfile(path):
        return [FoundFile(Location(path))]
    if os.path.isdir(path):
        files = []
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not _is_hidden(name))
            files += [os.path.join(folder, name) for name in sorted(names) if not _is_hidden(name)]
        return [FoundFile(Location(name), _hive_values(os.path.relpath(name, path))) for name in files]
    if GLOB_CHARACTERS & set(path):
        fixed = _folder_without_wildcards(path) or os.curdir
        matching = [found.location for name in sorted(glob.glob(path, recursive=True)) for found in _find_local(name)]
        return [FoundFile(place, _hive_values(os.path.relpath(place.path, fixed))) for place in matching]
    return []


def _folder_without_wildcards(path: str) -> str:
    return path[: min(path.index(c) for c in GLOB_CHARACTERS if c in path)].rpartition("/")[0]


def _find_remote(path: str, filesystem: pafs.FileSystem) -> list[FoundFile]:
    info = filesystem.get_file_info(path)
    if info.type == pafs.FileType.File:
        return [FoundFile(Location(path, filesystem))]
    if info.type == pafs.FileType.Directory:
        names = _list_remote(path, filesystem)
        kept = (name for name in names if not any(map(_is_hidden, name[len(path) :].strip("/").split("/"))))
        return [FoundFile(Location(name, filesystem), _hive_values(name[len(path) :])) for name in kept]
    if GLOB_CHARACTERS & set(path):
        fixed = _folder_without_wildcards(path)
        depth = None if "**" in path else path.count("/")
        names = _list_remote(fixed, filesystem)
        return [
            FoundFile(Location(name, filesystem), _hive_values(name[len(fixed) :]))
            for name in names
            if fnmatch.fnmatchcase(name, path) and depth in (None, name.count("/"))
        ]
    return []


def _list_remote(path: str, filesystem: pafs.FileSystem) -> list[str]:
    selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
    return sorted(info.path for info in filesystem.get_file_info(selector) if info.type == pafs.FileType.File)


def _is_hidden(name: str) -> bool:
    # Spark's and Hive's own rule: _SUCCESS, .crc files and the like hold no rows; `_x=1` is a partition folder.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _hive_values(relative: str) -> tuple[tuple[str, str | None], ...]:
    values = []
    for part in relative.replace(os.sep, "/").split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            text = urllib.parse.unquote(value)
            values.append((urllib.parse.unquote(name), None if text == HIVE_NULL else text))
    return tuple(values)


def partition_columns(files: Sequence[FoundFile]) -> list[pa.Field]:
    """The columns that folder names give: int64 where every value is a whole number, else string."""
    columns: dict[str, list[str | None]] = {}
    for file in files:
        for name, value in file.partition_values:
            columns.setdefault(name, []).append(value)
    return [pa.field(name, _type_of(values)) for name, values in columns.items()]


def _type_of(values: Iterable[str | None]) -> pa.DataType:
    texts = [value for value in values if value is not None]
    whole = texts and all(text.lstrip("-").isdecimal() and str(int(text)) == text for text in texts)
    return pa.int64() if whole and all(abs(int(text)) < 1 << 63 for text in texts) else pa.string()


def _fsspec(url: str) -> tuple[pafs.FileSystem, str]:
    scheme = url.partition("://")[0]
    try:
        fsspec = importlib.import_module("fsspec.core")
    except ImportError:
        raise PlanError(f"cannot open {url}: pyarrow has no filesystem for {scheme}://; install fsspec") from None
    try:
        filesystem, inner = fsspec.url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise PlanError(f"cannot open {url}: {error}") from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), inner
