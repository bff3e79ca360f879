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
from qcore.writing.file_sets import Producers, StagingFolder, writing
from qcore.writing.growing_file import ArrowFormat, GrowingFile, GrowingSchema
from qcore_ext.ground.fault import fault_site
from qcore_ext.ground.memory import Account

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


class PartitionFiles:
    """Receives the pages of a task's PartitionedOutput operators (see `exchange/partitioned_output`).

    The folder appears under its name when every producer has finished. Otherwise it does not appear. All files have the
    widest schema of the producers.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        keys: tuple[str, ...],
        n_partitions: int,
        n_producers: int,
        account: Account,
    ) -> None:
        self._schema = GrowingSchema(schema)
        self._keys = keys
        self._staging = StagingFolder(path)
        self._files = [
            GrowingFile(self._staging, file_name(partition), self._schema, ArrowFormat(), account)
            for partition in range(n_partitions)
        ]
        self._locks = [threading.Lock() for _ in range(n_partitions)]
        self._producers = Producers(n_producers)

    def bind(self, schema: Any) -> None:
        """Learn the schema of the pages that a producer may write from now on."""
        self._schema.grow(pa.schema(schema))

    def write(self, partition: int, page: Any) -> None:
        """Append a page to its partition's file. Any thread may call it."""
        batch = pa.record_batch(page)
        with self._locks[partition], writing(self._staging.target):
            self._files[partition].write(batch)

    def producer_done(self, finished: bool) -> None:
        """Count an operator as done. After the last one the folder appears if all have `finished`."""
        if not self._producers.count_done(finished):
            return
        try:
            if self._producers.all_finished:
                self._commit()
        finally:
            self._drop()

    def _commit(self) -> None:
        with writing(self._staging.target):
            parts = [{"rows": file.n_rows, "bytes": file.complete()} for file in self._files]
            manifest = {
                "format": FORMAT,
                "keys": list(self._keys),
                "schema": base64.b64encode(self._schema.now.serialize()).decode(),
                "partitions": parts,
            }
            fault_site("write_open")
            with open(self._staging.file(MANIFEST), "w", encoding="utf-8") as target:
                json.dump(manifest, target, indent=1)
        self._staging.become_target()

    def _drop(self) -> None:
        """Close the open files and remove the staging folder."""
        for file in self._files:
            file.abandon()
        self._staging.remove()
