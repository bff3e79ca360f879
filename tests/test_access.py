"""The setting file_access limits the files that a query's text may read and write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import qcore
from qcore import PlanBuilder
from qcore.access import FileAccess
from qcore.connectors.files import FileTable

ROWS = pa.table({"a": [1, 2, 3]})
REFUSED = "the session's setting file_access does not allow this file"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder that is allowed and one that is not, with the same files."""
    for name in ("in", "out"):
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(ROWS, folder / "a.parquet")
        pacsv.write_csv(ROWS, folder / "a.csv")
        pyarrow.feather.write_feather(ROWS, folder / "a.arrow")
        pyarrow.orc.write_table(ROWS, folder / "a.orc")
    return tmp_path / "in", tmp_path / "out"


def session_of(access: Any) -> qcore.Session:
    session = qcore.Session(threads=1, file_access=access)
    session.register("t", ROWS)
    return session


STATEMENTS = [
    "select * from '{}'",
    "from '{}'",
    "select * from read_parquet('{}')",
    "select * from t, '{}' as f",
    "select * from t where a in (select a from '{}')",
    "select (select count(*) from '{}')",
    "with w as (select * from '{}') select * from w",
    "explain select * from '{}'",
    "explain analyze select * from '{}'",
    "describe '{}'",
    "create table made as select * from '{}'",
    "create view v as select * from '{}'",
    "insert into t select a from '{}'",
    "copy (select * from '{}') to '{in_}/w.parquet'",
    "select * from read_parquet(['{in_}/a.parquet', '{}'])",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_statement_reads_what_is_off(statement: str, folders: tuple[Path, Path]) -> None:
    pytest.importorskip("sqlglot")
    in_, out = folders
    (in_ / "link.parquet").symlink_to(out / "a.parquet")
    (in_ / "folder").symlink_to(out)
    allowed = statement.format(in_ / "a.parquet", in_=in_)
    session_of([str(in_)]).sql(allowed).to_arrow()
    session_of([in_]).sql(allowed).to_arrow()
    (in_ / "w.parquet").unlink(missing_ok=True)
    for path in (
        out / "a.parquet",
        out / "nothing.parquet",
        out / "*.parquet",
        f"{in_}/../out/a.parquet",
        f"{in_}/../*/a.parquet",
        in_ / "link.parquet",
        in_ / "folder" / "a.parquet",
        in_ / "*" / "a.parquet",
        in_ / "*.parquet",
        f"file://{out}/a.parquet",
        f"file://{in_}/*/../../out/a.parquet",
        f"file://{in_}/%2e%2e/out/a.parquet",
        "s3://bucket/a.parquet",
    ):
        with pytest.raises(qcore.PlanError, match=REFUSED):
            session_of([str(in_)]).sql(statement.format(path, in_=in_)).to_arrow()
    with pytest.raises(qcore.PlanError, match=REFUSED):
        session_of("none").sql(allowed).to_arrow()
    assert not (in_ / "w.parquet").exists()


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.arrow", "a.orc"])
def test_files_are_checked_again_when_they_are_opened(name: str, folders: tuple[Path, Path]) -> None:
    """A table made while the path was allowed does not read what it leads to later."""
    in_, out = folders
    table = FileTable(str(in_ / name), access=FileAccess.of([str(in_)]))
    plan = PlanBuilder().scan("f", source=table).build()
    assert qcore.Session(threads=1).execute(plan).to_arrow() == ROWS
    (in_ / name).unlink()
    (in_ / name).symlink_to(out / name)
    with pytest.raises(qcore.QcoreError, match=REFUSED):
        list(qcore.Task(plan, drivers=1).batches())


def test_copy_writes_where_it_is_allowed(folders: tuple[Path, Path]) -> None:
    pytest.importorskip("sqlglot")
    in_, out = folders
    (in_ / "folder").symlink_to(out)
    (in_ / "new.parquet").symlink_to(out / "new.parquet")
    for form in ("copy t to '{}'", "copy t to '{}' (format parquet, per_thread_output true)", "explain copy t to '{}'"):
        for path in (out / "x.parquet", in_ / "folder" / "x.parquet", f"{in_}/../out/x.parquet", out / "a.parquet"):
            with pytest.raises(qcore.PlanError, match=f"{REFUSED}|exists already"):
                session_of([str(in_)]).sql(form.format(path))
    with pytest.raises(qcore.PlanError, match=REFUSED):
        session_of([str(in_)]).sql(f"copy t to '{in_}/new.parquet'")
    with pytest.raises(qcore.PlanError, match=REFUSED):
        session_of("none").sql(f"copy t to '{in_}/x.parquet'")
    session_of([str(in_)]).sql(f"copy t to '{in_}/x.parquet'").to_arrow()
    assert sorted(os.listdir(out)) == ["a.arrow", "a.csv", "a.orc", "a.parquet"]
    assert pq.read_table(in_ / "x.parquet") == ROWS


def test_the_paths_of_plans_are_checked(folders: tuple[Path, Path]) -> None:
    in_, out = folders
    for path, allowed in ((in_ / "a.parquet", True), (out / "a.parquet", False)):
        plan = PlanBuilder().scan("f", source=str(path)).build()
        if allowed:
            assert session_of([str(in_)]).execute(plan).to_arrow() == ROWS
        else:
            with pytest.raises(qcore.PlanError, match=REFUSED):
                session_of([str(in_)]).execute(plan)
    for written in (
        PlanBuilder().values(ROWS).write_parquet(out / "x.parquet"),
        PlanBuilder().values(ROWS).write_parquet(out / "x"),
        PlanBuilder().values(ROWS).write_parquet(out / "x").limit(1),
        PlanBuilder().values(ROWS).partitioned_output(["a"], 2, path=out / "x"),
    ):
        with pytest.raises(qcore.PlanError, match=REFUSED):
            list(session_of([str(in_)]).execute(written.build()).task.batches())
    assert sorted(os.listdir(out)) == ["a.arrow", "a.csv", "a.orc", "a.parquet"]


def test_files_of_substrait_plans_are_checked(folders: tuple[Path, Path]) -> None:
    plan_messages = pytest.importorskip("substrait.plan_pb2")
    in_, out = folders
    schema = {"names": ["a"], "struct": {"types": [{"i64": {"nullability": "NULLABILITY_NULLABLE"}}]}}

    def plan_of(*items: dict[str, str]) -> bytes:
        read = {"read": {"base_schema": schema, "local_files": {"items": list(items)}}}
        made = plan_messages.Plan(relations=[{"root": {"input": read, "names": ["a"]}}])
        return bytes(made.SerializeToString())

    inside = {"uri_file": f"file://{in_}/a.parquet"}
    assert session_of([str(in_)]).substrait(plan_of(inside)).to_arrow() == ROWS
    for item in (
        {"uri_file": f"file://{out}/a.parquet"},
        {"uri_file": f"{in_}/../out/a.parquet"},
        {"uri_path": f"{out}/a.parquet"},
        {"uri_folder": f"file://{out}"},
        {"uri_path_glob": f"{in_}/../out/*.parquet"},
        {"uri_file": "s3://bucket/a.parquet?endpoint_override=127.0.0.1:9"},
    ):
        with pytest.raises(qcore.PlanError, match=REFUSED):
            session_of([str(in_)]).substrait(plan_of(inside, item))
    with pytest.raises(qcore.PlanError, match=REFUSED):
        session_of("none").substrait(plan_of(inside))


def test_registered_files_are_not_restricted(folders: tuple[Path, Path]) -> None:
    pytest.importorskip("sqlglot")
    _, out = folders
    session = session_of("none")
    session.register("f", str(out / "a.parquet"))
    assert session.sql("select * from f").to_arrow() == ROWS
    assert session.sql("select * from g", {"g": str(out / "*.csv")}).to_arrow() == ROWS
    assert session.execute(PlanBuilder().scan("f", schema=ROWS.schema).build()).to_arrow() == ROWS


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    for setting in ("some", 3, [1], [""], None):
        with pytest.raises(ValueError, match='file_access is "any", "none", or a list'):
            qcore.Session(file_access=setting)  # type: ignore[arg-type]
    session = qcore.Session(threads=1)
    session.change(file_access="none")
    session.change(threads=2)
    assert session.settings.file_access == FileAccess.of("none")


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("s3://bucket/data", True),
        ("s3://bucket/data/a.parquet", True),
        ("s3://bucket/data/*/a.parquet", True),
        ("s3://bucket/database/a.parquet", False),
        ("s3://bucket/data*/a.parquet", False),
        ("s3://bucket/other/a.parquet", False),
        ("s3://bucket/data/../other/a.parquet", False),
        ("s3://bucket/data/%2e%2e/other/a.parquet", False),
        ("s3://bucket/data%2F..%2Fother/a.parquet", False),
        ("s3://key:secret@bucket/data/a.parquet", False),
        ("s3://bucket/data/a.parquet?endpoint_override=127.0.0.1:9", False),
        ("gs://bucket/data/a.parquet", False),
        ("simplecache::s3://bucket/data/a.parquet", False),
        ("s3://bucket/data/a.zip::file:///etc/passwd", False),
        ("s3://asked/data/a.parquet", False),
        ("s3://asked/data/a.parquet?region=eu", True),
        ("s3://asked/data/a.parquet?region=eu&endpoint_override=127.0.0.1:9", False),
    ],
)
def test_urls_are_allowed_by_prefix(url: str, allowed: bool) -> None:
    access = FileAccess.of(["s3://bucket/data/", "s3://asked/data?region=eu"])
    if allowed:
        access.check_name(url)
    else:
        with pytest.raises(qcore.PlanError, match="file_access"):
            access.check_name(url)
    with pytest.raises(qcore.PlanError, match="file_access"):
        FileAccess.of("none").check_name(url)


def test_query_strings_of_urls_in_queries_are_refused() -> None:
    """They name servers: s3://…?endpoint_override=127.0.0.1:80 would read from the local network."""
    pytest.importorskip("sqlglot")
    for url in ("s3://b/a.parquet?endpoint_override=127.0.0.1:9&scheme=http", "s3://b/a?access_key=x&secret_key=y"):
        with pytest.raises(qcore.PlanError, match=r"the URL has a query string.*file_access"):
            qcore.Session(threads=1).sql(f"select * from '{url}'")
        with pytest.raises(qcore.PlanError, match=r"the URL has a query string.*file_access"):
            qcore.sql(f"select * from read_parquet('{url}')")
