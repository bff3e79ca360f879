"""Find files: paths, URLs, globs and folders resolved to files on a filesystem."""

from __future__ import annotations

import fnmatch
import glob
import importlib
import os
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from qcore.access import GLOB_CHARACTERS, FileAccess, before_wildcards
from qcore.errors import PlanError
from qcore.late_module import late_module
from qcore.record import record
from qcore_ext.ground.fault import fault_site

if TYPE_CHECKING:
    import pyarrow.fs as pafs
else:
    pafs = late_module("pyarrow.fs")

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".zst")
# More files than this are opened by several threads, because each costs a round trip on remote storage.
FILES_ONE_THREAD_MAX = 4
FILE_THREADS = 8
# Hive and Spark write this folder name for a null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

File = TypeVar("File")
Found = TypeVar("Found")

_connections: dict[tuple[str, str, str], tuple[pafs.FileSystem, bool]] = {}


@record(frozen=True)
class Location:
    """One file.

    Attributes
    ----------
    path : str
        Absolute local path, or path on `filesystem`.
    filesystem : pyarrow.fs.FileSystem or None
        None: the local file system.
    access : FileAccess or None
        Checked each time the file is opened. None: not restricted.
    """

    path: str
    filesystem: pafs.FileSystem | None = field(default=None, compare=False)
    access: FileAccess | None = field(default=None, compare=False)

    def check(self) -> None:
        """Raise PlanError if `access` denies the file. A link may have changed since the file was found."""
        if self.access is not None and self.filesystem is None:
            self.access.check_path(self.path)

    def source(self) -> Any:
        """Open the file for pyarrow's readers, which are slower with a path, because they first find its filesystem."""
        fault_site("file_open")
        self.check()
        return pa.OSFile(self.path) if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def open(self) -> Any:
        """Open the file as a seekable Python file in binary mode."""
        fault_site("file_open")
        self.check()
        return open(self.path, "rb") if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def stamp(self) -> tuple[int, int]:
        """Return (size in bytes, modification time in ns), which identifies the version. OSError: there is no file."""
        fault_site("file_status")
        self.check()
        if self.filesystem is None:
            status = os.stat(self.path)
            return status.st_size, status.st_mtime_ns
        info = self.filesystem.get_file_info(self.path)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(f"{self.path} does not exist on {self.filesystem.type_name}")
        return info.size or 0, info.mtime_ns or 0


@record(frozen=True)
class FoundFile:
    """A file of a table, and the pairs `key=value` in the names of its folders, as text; None: null."""

    location: Location
    partition_values: tuple[tuple[str, str | None], ...] = ()


def without_compression(path: str) -> str:
    """Return a path in lower case without the suffix of a compression."""
    name = path.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def read_in_threads(read: Callable[[File], Found], files: Sequence[File]) -> list[Found]:
    """Return `read(file)` for each file, in order; computed by several threads if there are many files."""
    if len(files) > FILES_ONE_THREAD_MAX:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(FILE_THREADS, "qcore-footer") as pool:
            try:
                answers = pool.map(read, files)
            except RuntimeError:  # the interpreter shuts down, so the pool starts no threads
                pass
            else:
                return list(answers)
    return [read(file) for file in files]


def locate(path: str, filesystem: pafs.FileSystem | None = None) -> Location:
    """Return the file that a path or URL names, whether or not it exists. With `filesystem` the path is on that one."""
    if filesystem is not None:
        return Location(path, None if isinstance(filesystem, pafs.LocalFileSystem) else filesystem)
    if "://" not in path:
        return Location(os.path.abspath(os.path.expanduser(path)))
    found, inner = _from_url(path)
    return Location(inner, None if isinstance(found, pafs.LocalFileSystem) else found)


def _from_url(url: str) -> tuple[pafs.FileSystem, str]:
    """The filesystem of a URL and the path on it. Filesystems are cached: connecting may take several round trips."""
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
    # In object stores the host (the bucket) is the first part of the path; in other filesystems it is not.
    if plain and inner in (parts.path, parts.netloc + parts.path):
        _connections[key] = filesystem, inner != parts.path
    return filesystem, inner


def find_files(source: Any, filesystem: Any = None, access: FileAccess | None = None) -> list[FoundFile]:
    """Find all files of a path, URL, glob or folder, or of a sequence of them, in order.

    Raises
    ------
    PlanError
        There is no such file, or `access` denies one.
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
        fixed = before_wildcards(path, os.curdir)
        matching = [found.location for name in sorted(glob.glob(path, recursive=True)) for found in _find_local(name)]
        return [FoundFile(found, _hive_values(os.path.relpath(found.path, fixed))) for found in matching]
    return []


def _find_remote(path: str, filesystem: pafs.FileSystem) -> list[FoundFile]:
    info = filesystem.get_file_info(path)
    if info.type == pafs.FileType.File:
        return [FoundFile(Location(path, filesystem))]
    if info.type == pafs.FileType.Directory:
        names = _list_remote(path, filesystem)
        kept = (name for name in names if not any(map(_is_hidden, name[len(path) :].strip("/").split("/"))))
        return [FoundFile(Location(name, filesystem), _hive_values(name[len(path) :])) for name in kept]
    if GLOB_CHARACTERS & set(path):
        fixed = before_wildcards(path, "")
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
    # The rule of Spark and Hive: _SUCCESS, .crc files and the like have no rows; `_x=1` is a partition folder.
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
    """The columns in the names of folders: int64 if all values are whole numbers, else string."""
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
