"""The session setting `file_access`: which files the text of queries may read and write."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from typing import Any

from qcore.errors import PlanError
from qcore.record import record

_FORMS = 'file_access is "any", "none", or a list of folders and URL prefixes'

GLOB_CHARACTERS = frozenset("*?[")


@record(frozen=True)
class FileAccess:
    """The paths and URLs that SQL text, Substrait plans and the paths in PlanBuilder's plans may name.

    Tables that the program registers are not restricted.

    Attributes
    ----------
    folders : tuple of str, or None
        Real paths of the folders whose files may be read and written; None: all folders.
    urls : tuple of str
        Prefixes of the URLs that may be read. If `folders` is None, every URL may be read, and only URLs with one of
        these prefixes may have a query string.

    Examples
    --------
    >>> FileAccess.of("none").is_restricted
    True
    """

    folders: tuple[str, ...] | None = None
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, setting: Any) -> FileAccess:
        """Parse the setting `file_access`: "any", "none", or a list of folders and URL prefixes.

        Raises
        ------
        ValueError
            The setting has another form.
        """
        if isinstance(setting, FileAccess):
            return setting
        if setting == "any":
            return cls()
        if setting == "none":
            return cls(())
        if isinstance(setting, (str, bytes)) or not isinstance(setting, Sequence):
            raise ValueError(f"{_FORMS}, not {setting!r}")
        allowed = [os.fspath(where) if isinstance(where, os.PathLike) else where for where in setting]
        if not all(isinstance(where, str) and where for where in allowed):
            raise ValueError(f"{_FORMS}, not {setting!r}")
        urls = tuple(where for where in allowed if "://" in where and not where.startswith("file://"))
        paths = [urllib.parse.unquote(where.removeprefix("file://")) for where in allowed if where not in urls]
        return cls(tuple(os.path.realpath(os.path.expanduser(path)) for path in paths), urls)

    @property
    def is_restricted(self) -> bool:
        """Whether access to some files is denied."""
        return self.folders is not None

    def check_name(self, name: str) -> None:
        """Raise PlanError if a query may not name this path, URL or glob. Does not depend on what exists there."""
        if "://" not in name:
            self.check_path(before_wildcards(os.path.abspath(os.path.expanduser(name))), name)
            return
        parts = _split(name)
        if parts.scheme == "file":
            self._check_query(parts, name)
            path = urllib.parse.unquote(parts.path)
            if self.is_restricted and ".." in path.split("/"):
                raise self.refusal(name)  # after a wildcard, ".." would lead out of the checked folder
            self.check_path(before_wildcards(path), name)
        elif self.is_restricted and not self._url_allowed(parts):
            raise self.refusal(name)
        else:
            self._check_query(parts, name)

    def check_path(self, path: str, name: str | None = None) -> None:
        """Raise PlanError if a local path, with links resolved, is in none of the folders."""
        if self.folders is None:
            return
        real = os.path.realpath(path)
        if not any(real == folder or real.startswith(folder.rstrip("/") + "/") for folder in self.folders):
            raise self.refusal(name or path)

    def refusal(self, name: str) -> PlanError:
        """The error for a denied file. It does not tell whether the file exists."""
        return PlanError(
            f"{name}: the session's setting file_access does not allow this file; register it as a table with "
            "Session.register(), or add its folder or URL prefix to file_access"
        )

    def _check_query(self, parts: urllib.parse.SplitResult, name: str) -> None:
        if "?" in name and not self._url_allowed(parts):
            raise PlanError(
                f"{parts.scheme}://{parts.netloc}{parts.path}: the URL has a query string, which may name another "
                "server or credentials; register it with Session.register(), or add a prefix with the same query "
                "string to the session's setting file_access"
            )

    def _url_allowed(self, parts: urllib.parse.SplitResult) -> bool:
        """Whether a prefix in `urls` has the URL's scheme, host and query string, and its path contains the URL's."""
        steps = urllib.parse.unquote(parts.path).split("/")
        # fsspec opens the URL after "::" and the file in it.
        if "::" in parts.geturl() or ".." in steps or "." in steps:
            return False
        for url in self.urls:
            prefix = _split(url)
            where = (prefix.scheme, prefix.netloc, prefix.query, prefix.fragment)
            folder = prefix.path.rstrip("/")
            inside = parts.path in (folder, prefix.path) or parts.path.startswith(folder + "/")
            if inside and where == (parts.scheme, parts.netloc, parts.query, parts.fragment):
                return True
        return False


def before_wildcards(path: str, root: str = "/") -> str:
    """Return the folder before a glob's first wildcard; `root` if no folder is before it.

    A path without wildcards is returned unchanged.
    """
    at = min((path.index(sign) for sign in GLOB_CHARACTERS if sign in path), default=-1)
    return path if at < 0 else path[:at].rpartition("/")[0] or root


def _split(url: str) -> urllib.parse.SplitResult:
    try:
        return urllib.parse.urlsplit(url)
    except ValueError as error:
        raise PlanError(f"{url} is not a URL: {error}") from error


ANY_FILE = FileAccess()
