"""The options of COPY statements (SPEC Q2). tests/writing tests the written files."""

from __future__ import annotations

from pathlib import Path

import pytest

import qcore
from qcore.errors import PlanError
from qcore.functions.dialect import QCORE
from qcore.sql.copying import Copy, read_copy


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("select 1", None),
        ("-- COPY\nselect 1", None),
        ("COPY (select 1) TO 'x.parquet'", Copy("select 1", "x.parquet", False, "snappy", None)),
        ("/* it */ copy t to 'x.parquet';", Copy("SELECT * FROM t", "x.parquet", False, "snappy", None)),
        ("copy \"T u\" to 'x.parquet'", Copy('SELECT * FROM "T u"', "x.parquet", False, "snappy", None)),
        (
            "copy (select (1) as \"to\", ')' as b) to 'x' (format PARQUET, Compression 'ZSTD', row_group_size 10)",
            Copy("select (1) as \"to\", ')' as b", "x", False, "zstd", 10),
        ),
        (
            "copy t to 'folder' (per_thread_output, compression uncompressed)",
            Copy("SELECT * FROM t", "folder", True, "none", None),
        ),
        ("copy t to 'x' (format parquet, per_thread_output 0)", Copy("SELECT * FROM t", "x", False, "snappy", None)),
    ],
)
def test_parts(text: str, copy: Copy | None) -> None:
    assert read_copy(text, QCORE) == copy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("copy t", "COPY cannot be read; the syntax is COPY"),
        ("copy to 'x.parquet'", "COPY cannot be read"),
        ("copy () to 'x.parquet'", "COPY cannot be read"),
        ("copy t to x", "COPY cannot be read"),
        ("copy t to 'x.parquet' snappy", "COPY cannot be read after its path"),
        ("copy t to 'x.parquet' (format parquet,, compression zstd)", "COPY cannot be read after its path"),
        ("copy t to 'x.csv'", "COPY writes Parquet, not 'csv'"),
        ("copy t to 'x.parquet' (format csv)", "COPY writes Parquet, not 'csv'"),
        ("copy t to 'x.parquet' (level 3)", "COPY has no option LEVEL"),
        ("copy t to 'x.parquet' (row_group_size many)", "ROW_GROUP_SIZE is a number of rows, not 'many'"),
        ("copy (select 1 to 'x.parquet'", "a bracket is not closed"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        read_copy(text, QCORE)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="COPY; the columns of a file must have different names"):
        qcore.sql(f"copy (select 1 as a, 2 as a) to '{tmp_path}/x.parquet'", {})
    assert not list(tmp_path.iterdir())
