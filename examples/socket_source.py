"""Rows from the lines of a socket: a polled source that waits without holding a thread.

    python examples/socket_source.py

One thread watches the sockets of all partitions with a selector. A partition without data gives its waker to that
thread and answers PENDING. Meanwhile the engine's threads run other queries.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import qcore

SCHEMA = pa.schema({"line": pa.string()})


class Watcher:
    """Calls a function once when a socket has data to read."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._new: list[tuple[socket.socket, Callable[[], None]]] = []
        self._alarm, self._wake = socket.socketpair()
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def when_readable(self, connection: socket.socket, callback: Callable[[], None]) -> None:
        with self._lock:
            self._new.append((connection, callback))
        self._wake.send(b"n")

    def close(self) -> None:
        self._wake.send(b"q")
        self._thread.join()
        self._selector.close()
        self._alarm.close()
        self._wake.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._alarm:
                    self._selector.unregister(key.fileobj)
                    key.data()
                elif b"q" in self._alarm.recv(4096):
                    return
            with self._lock:
                new, self._new = self._new, []
            for connection, callback in new:
                self._selector.register(connection, selectors.EVENT_READ, callback)


class Lines(qcore.SourceOperator):
    """Makes one row of each line. Each connection is one partition."""

    def __init__(self, connections: list[socket.socket], watcher: Watcher) -> None:
        self.partitions = len(connections)
        self._connections = connections
        self._watcher = watcher

    def output_schema(self, schema: None) -> pa.Schema:
        return SCHEMA

    def init_local_state(self, cx: Any, global_state: Any) -> dict[str, bytes]:
        self._connections[cx.partition].setblocking(False)
        return {"begun": b""}

    def poll_pull(self, cx: Any, local: dict[str, bytes], global_state: Any, partition: int) -> qcore.PollPull:
        connection = self._connections[partition]
        try:
            received = connection.recv(65536)
        except BlockingIOError:
            self._watcher.when_readable(connection, cx.waker().wake)
            return qcore.PollPull.PENDING
        if not received and not local["begun"]:
            return qcore.PollPull.EXHAUSTED
        *lines, local["begun"] = (local["begun"] + received).split(b"\n")
        if not received:
            lines, local["begun"] = [lines[0] if lines else local["begun"]], b""
        texts = [line.decode("utf-8", "replace") for line in lines]
        return qcore.PollPull.batch(pa.record_batch([pa.array(texts, pa.string())], schema=SCHEMA))

    def close(self, cx: Any, local: Any, global_state: Any, partition: int) -> None:
        self._connections[partition].close()


def count_lines(connections: list[socket.socket], threads: int = 1) -> dict[str, int]:
    """Counts each line, until the other ends of all connections are closed."""
    watcher = Watcher()
    try:
        plan = (
            qcore.PlanBuilder()
            .source(Lines(connections, watcher))
            .aggregate(keys=["line"], aggs={"times": ("count",)})
            .build()
        )
        rows = qcore.Session(threads=threads).execute(plan).to_arrow().to_pylist()
    finally:
        watcher.close()
    return {row["line"]: row["times"] for row in rows}


if __name__ == "__main__":
    here, there = zip(*[socket.socketpair() for _ in range(3)], strict=True)
    for i, sender in enumerate(there):
        sender.sendall(b"hello\nworld\n" * (i + 1))
        sender.close()
    print(count_lines(list(here)))
