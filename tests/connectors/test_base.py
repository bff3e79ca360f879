"""Splits of files, policies, and messages about unknown columns; SPEC V10."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from qcore.connectors.base import (
    FileSplit,
    TableStatistics,
    check_policy,
    select_fields,
    under_policy,
)
from qcore.errors import PlanError


def test_file_splits_travel() -> None:
    split = FileSplit("x.parquet", 4, 10, {"k": 1})  # type: ignore[arg-type]
    assert split.partition_values == (("k", 1),)
    assert pickle.loads(pickle.dumps(split)) == split


def test_columns_that_are_not_there() -> None:
    schema = pa.schema([(f"column {i:02}", pa.int8()) for i in range(12)])
    names = ["column 03", "column 01"]
    assert [field.name for field in select_fields(schema, names, "t")] == names
    with pytest.raises(PlanError, match="no column 'colum 03'; did you mean 'column 03'"):
        select_fields(schema, ["colum 03"], "t")
    with pytest.raises(PlanError, match="did you mean 'ID'"):
        select_fields(pa.schema({"ID": pa.int8()}), ["id"], "t")
    with pytest.raises(PlanError, match=r"'zzz'; its columns are: column 00, .*column 09, …$"):
        select_fields(schema, ["zzz"], "t")
    with pytest.raises(PlanError, match="'zzz'; it has no columns"):
        select_fields(pa.schema([]), ["zzz"], "t")


def test_policies() -> None:
    class Plain:
        schema = pa.schema([])

    class Evolving(Plain):
        def under_policy(self, policy: str) -> str:
            return policy

    plain, evolving = Plain(), Evolving()
    assert under_policy(plain, "error") is plain  # type: ignore[arg-type, comparison-overlap]
    assert under_policy(evolving, None) is evolving  # type: ignore[arg-type, comparison-overlap]
    assert under_policy(evolving, "evolve") == "evolve"  # type: ignore[arg-type, comparison-overlap]
    with pytest.raises(PlanError, match="on_schema_change is 'error' or 'evolve', not 'x'"):
        check_policy("x")


def test_unknown_statistics() -> None:
    assert TableStatistics(3).column("x").min is None
