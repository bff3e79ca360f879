"""The programs in examples/ do what their docstrings say (SPEC H3)."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

pytestmark = pytest.mark.timeout(120)
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_it_runs(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_distinct_rows(threads: int) -> None:
    """V5, G2: all drivers share a state, which is merged once."""
    table = pa.table({"k": pa.array([i * 7919 % 1237 for i in range(20_000)], pa.int64())})
    assert example("distinct_rows").distinct_count(table, "k", threads) == 1237


@pytest.mark.parametrize("threads", [1, 2])
def test_socket_source(threads: int) -> None:
    """G1, V7: five connections on fewer threads, each quiet most of the time."""
    here, there = zip(*[socket.socketpair() for _ in range(5)], strict=True)

    def send() -> None:
        for word in (b"al", b"pha\nbe", b"ta\nlast"):
            for sender in there:
                time.sleep(0.003)
                sender.sendall(word)
        for sender in there:
            sender.close()

    sender = threading.Thread(target=send)
    sender.start()
    assert example("socket_source").count_lines(list(here), threads) == {"alpha": 5, "beta": 5, "last": 5}
    sender.join()


def test_growing_file(tmp_path: Path) -> None:
    """D2: rows are returned while the file still grows."""
    path = tmp_path / "numbers.txt"
    path.write_text("1\n-5\n2\n")
    sums: list[int] = []

    def report(total: int) -> None:
        sums.append(total)
        with path.open("a") as file:
            file.write("1" if len(sums) == 1 else "end\n")
            file.flush()
            if len(sums) == 1:
                time.sleep(0.03)
                file.write("0\n")

    assert example("growing_file").running_sums(path, report) == 13
    assert sums == [3, 13]
