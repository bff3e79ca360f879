"""Write a task's output to Arrow IPC files, one for each partition, with a manifest that describes them."""

from __future__ import annotations

import base64
import json
import os
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from qcore.errors import QcoreError
from qcore.record import record
from qcore.writing.file_sets import StagingFolder, match_file_schema, writing
from qcore_ext.ground.fault import fault_site

MANIFEST = "manifest.json"
FORMAT = 1


def file_name(partition: int) -> str:
    """The name of a partition's file."""
    return f"part-{partition:05d}.arrow"


@dataclass(frozen=True)
class PartitionManifest:
    """The contents of a folder that partitioned_output(path=…) wrote.

    Attributes
    ----------
    path : str
        The folder.
    keys : tuple of str
        Columns whose hash determines a row's partition.
    rows : tuple of int
        Number of rows of each partition.
    bytes : tuple of int
        Size of each partition's file in bytes.
    schema : pyarrow.Schema
        Schema of the rows.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, qcore
    >>> rows = qcore.PlanBuilder().values(pa.table({"a": [1, 2, 3]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = rows.partitioned_output(keys=["a"], partitions=2, path=f"{folder}/parts").build()
    ...     task = qcore.Task(plan)
    ...     task.start(); task.wait()
    ...     sum(qcore.PartitionManifest.read(f"{folder}/parts").rows)
    3
    """

    path: str
    keys: tuple[str, ...]
    rows: tuple[int, ...]
    bytes: tuple[int, ...]
    schema: pa.Schema

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return len(self.rows)

    def file(self, partition: int) -> str:
        """Return the path of a partition's Arrow IPC file, which a scan can read. Empty partitions have one too.

        Raises
        ------
        QcoreError
            There is no such partition.
        """
        if not 0 <= partition < self.n_partitions:
            raise QcoreError(f"{self.path} has no partition {partition}; it has {self.n_partitions}, counted from 0")
        return os.path.join(self.path, file_name(partition))

    @classmethod
    def read(cls, path: Any) -> PartitionManifest:
        """Read the manifest of a folder that partitioned_output(path=…) wrote.

        Raises
        ------
        QcoreError
            The folder has no manifest, or one that is damaged or of another format.
        """
        folder = os.fspath(path)
        try:
            with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
                held = json.load(file)
            if held["format"] != FORMAT:
                raise QcoreError(
                    f"{folder} has a manifest of format {held['format']}; this version of qcore reads format {FORMAT}"
                )
            return cls(
                str(folder),
                tuple(held["keys"]),
                tuple(part["rows"] for part in held["partitions"]),
                tuple(part["bytes"] for part in held["partitions"]),
                pa.ipc.read_schema(pa.py_buffer(base64.b64decode(held["schema"]))),
            )
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise QcoreError(f"{folder} holds no complete partitions: its manifest cannot be read ({error})") from error


@record
class _PartitionFile:
    """One partition's file while it is written."""

    lock: threading.Lock
    writer: Any = None
    n_rows: int = 0


class PartitionFiles:
    """Receives the pages of a task's PartitionedOutput operators (see `exchange/partitioned_output`).

    The folder appears under its name when every producer has finished. Otherwise it does not appear.
    """

    def __init__(
        self, path: str, schema: pa.Schema, keys: tuple[str, ...], n_partitions: int, n_producers: int
    ) -> None:
        self._schema = schema
        self._keys = keys
        self._staging = StagingFolder(path)
        self._files = [_PartitionFile(threading.Lock()) for _ in range(n_partitions)]
        self._lock = threading.Lock()
        self._n_producers = n_producers
        self._complete = True

    def write(self, partition: int, page: Any) -> None:
        """Append a page to its partition's file. Any thread may call it."""
        file = self._files[partition]
        batch = match_file_schema(pa.record_batch(page), self._schema, self._staging.target)
        with file.lock, writing(self._staging.target):
            writer = self._writer(partition)
            fault_site("write_rows")
            writer.write_batch(batch)
            file.n_rows += batch.num_rows

    def _writer(self, partition: int) -> Any:
        file = self._files[partition]
        if file.writer is None:
            fault_site("write_open")
            file.writer = pa.ipc.new_file(self._staging.file(file_name(partition)), self._schema)
        return file.writer

    def producer_done(self, finished: bool) -> None:
        """Count an operator as done. After the last one the folder appears if all have `finished`."""
        with self._lock:
            self._complete = self._complete and finished
            self._n_producers -= 1
            if self._n_producers > 0:
                return
        try:
            if self._complete:
                self._commit()
        finally:
            self._drop()

    def _commit(self) -> None:
        parts = []
        with writing(self._staging.target):
            for partition, file in enumerate(self._files):
                writer = self._writer(partition)
                fault_site("write_close")
                writer.close()
                file.writer = None
                n_bytes = os.path.getsize(self._staging.file(file_name(partition)))
                parts.append({"rows": file.n_rows, "bytes": n_bytes})
            manifest = {
                "format": FORMAT,
                "keys": list(self._keys),
                "schema": base64.b64encode(self._schema.serialize()).decode(),
                "partitions": parts,
            }
            fault_site("write_open")
            with open(self._staging.file(MANIFEST), "w", encoding="utf-8") as target:
                json.dump(manifest, target, indent=1)
        self._staging.become_target()

    def _drop(self) -> None:
        """Close the open files and remove the staging folder."""
        for file in self._files:
            if file.writer is not None:
                try:
                    file.writer.close()
                except (OSError, pa.ArrowException):
                    continue  # the file is removed anyway
        self._staging.remove()
