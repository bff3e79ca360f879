"""The qcore command, as a user's shell runs it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps import every

pytest.importorskip("sqlglot", reason="SQL needs the sql extra")

COUNT = "select count(*) as n, sum(a) as total from t where a < 10"


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"a": list(range(100)), "b": [f"text {i}" for i in range(100)]}), path)
    return f"t={path}"


def qcore(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "qcore", *arguments]
    return run(command, input=stdin.encode())


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)


def ran(*arguments: str, stdin: str = "") -> bytes:
    done = qcore(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout


def fail_command(status: int, *arguments: str) -> str:
    done = qcore(*arguments)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert done.stdout == b""
    message = done.stderr.decode()
    assert "Traceback" not in message
    return message


def test_version() -> None:
    assert ran("--version").startswith(b"qcore ")


def test_a_table_by_default(numbers: str) -> None:
    lines = ran("sql", COUNT, "--table", numbers).decode().splitlines()
    assert lines[0].split() == ["n", "│", "total"]
    assert lines[2].split() == ["10", "│", "45"]
    assert lines[3] == "(1 row)"


def test_query_from_standard_input(numbers: str) -> None:
    assert b"45" in ran("sql", "-", "--table", numbers, "--threads", "1", stdin=COUNT)


def test_csv_and_json_on_standard_output(numbers: str) -> None:
    assert ran("sql", COUNT, "--table", numbers, "--format", "csv").splitlines() == [b'"n","total"', b"10,45"]
    assert json.loads(ran("sql", COUNT, "--table", numbers, "--format", "json")) == {"n": 10, "total": 45}


def test_arrow_through_a_pipe(numbers: str) -> None:
    data = ran("sql", "select a from t order by a", "--table", numbers, "--format", "arrow")
    assert pa.ipc.open_stream(io.BytesIO(data)).read_all()["a"].to_pylist() == list(range(100))


def test_the_ending_of_the_output_file_says_the_format(numbers: str, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert ran("sql", "select b, a from t", "--table", numbers, "--output", str(path)) == b""
    assert pq.read_table(path).column_names == ["b", "a"]
    assert sorted(pq.read_table(path)["a"].to_pylist()) == list(range(100))


def test_two_tables(numbers: str) -> None:
    other = numbers.replace("t=", "u=")
    query = "select count(*) as n from t join u on t.a = u.a where u.a >= 90"
    assert b"10" in ran("sql", query, "--table", numbers, "--table", other)


def test_explain_runs_nothing_and_analyze_runs(numbers: str) -> None:
    assert b"Scan" in ran("sql", COUNT, "--table", numbers, "--explain")
    analyzed = ran("sql", COUNT, "--table", numbers, "--analyze").decode()
    assert "rows" in analyzed


BAD_USAGE = [
    (),
    ("sql",),
    ("nonsense",),
    ("sql", "select 1", "--table", "no_equals_sign"),
    ("sql", "select 1", "--table", "t=a", "--table", "t=b"),
    ("sql", "select 1", "--threads", "0"),
    ("sql", "select 1", "--threads", "two"),
    ("sql", "select 1", "--format", "xml"),
    ("sql", "select 1", "--explain", "--analyze"),
]


@pytest.mark.parametrize("arguments", every(3, [(arguments,) for arguments in BAD_USAGE]))
def test_bad_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    assert "usage: qcore" in fail_command(2, *arguments)


def test_errors_are_status_1_and_name_the_thing(numbers: str, tmp_path: Path) -> None:
    assert "nowhere" in fail_command(1, "sql", "select nowhere from t", "--table", numbers)
    assert "absent.parquet" in fail_command(1, "sql", "select * from t", "--table", f"t={tmp_path}/absent.parquet")
    assert "missing_table" in fail_command(1, "sql", "select * from missing_table", "--table", numbers)
    assert fail_command(1, "sql", "selec 1")
    target = str(tmp_path / "no_folder" / "out.csv")
    assert target in fail_command(1, "sql", COUNT, "--table", numbers, "--output", target)


def test_a_failing_query_leaves_no_file(numbers: str, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    fail_command(1, "sql", "select a // (a - 50) from t", "--table", numbers, "--output", str(target))
    assert [path.name for path in tmp_path.iterdir()] == ["numbers.parquet"]


def test_debug_shows_where(numbers: str) -> None:
    done = qcore("sql", "select nowhere from t", "--table", numbers, "--debug")
    assert done.returncode == 1
    assert b"Traceback" in done.stderr


def test_a_closed_pipe_is_no_error(numbers: str) -> None:
    command = f"{sys.executable} -m qcore sql 'select a, b from t' --table '{numbers}' --format csv | true"
    done = run(["bash", "-c", command])
    assert done.stderr == b""


def test_output_replaces_regular_files_and_goes_through_others(numbers: str, tmp_path: Path) -> None:
    """The mode and links are kept. Devices and pipes are written to. A folder is an error."""
    query = ("sql", COUNT, "--table", numbers, "--format", "csv", "--output")
    target = tmp_path / "there.csv"
    target.write_text("old")
    target.chmod(0o600)
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    rows = b'"n","total"\n10,45\n'
    assert ran(*query, str(link)) == b""
    assert (target.read_bytes(), link.is_symlink(), target.stat().st_mode & 0o777) == (rows, True, 0o600)
    assert ran(*query, "/dev/stdout") == rows
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert ran(*query, str(fifo)) == b""
    assert os.read(reader, 100) == rows
    os.close(reader)
    assert str(tmp_path) in fail_command(1, *query, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link.csv", "numbers.parquet", "there.csv"]
