"""Results as DataFrames of Spark, and plans over DataFrames by mapInArrow (SPEC S2)."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import qcore
import qcore.spark
from oracle import assert_same_rows
from qcore.errors import ExecutionError, PlanError
from qcore.spark.frames import in_layout, spark_arrow_schema

pytest.importorskip("sqlglot", reason="SQL needs the sql extra: pip install 'qcore[sql]'")

NOON = datetime.datetime(2024, 3, 10, 12, 30)
COLUMNS: dict[str, pa.Array] = {
    "text": pa.array(["a", None, "a long text beyond twelve bytes"], pa.string_view()),
    "large": pa.array(["x", "y", None], pa.large_string()),
    "word": pa.array(["u", None, "u"]).dictionary_encode(),
    "raw": pa.array([b"1", None, b"3"], pa.binary_view()),
    "u1": pa.array([255, None, 0], pa.uint8()),
    "u4": pa.array([2**32 - 1, None, 0], pa.uint32()),
    "u8": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "price": pa.array([Decimal("1.25"), None, Decimal("-7.00")], pa.decimal64(9, 2)),
    "day": pa.array([datetime.date(1500, 1, 1), None, datetime.date(2024, 2, 29)], pa.date32()),
    "at": pa.array([NOON, None, NOON], pa.timestamp("ms", "Europe/Paris")),
    "local": pa.array([NOON, None, NOON], pa.timestamp("s")),
    "gap": pa.array([datetime.timedelta(hours=5), None, datetime.timedelta(0)], pa.duration("ms")),
    "list": pa.array([["a"], None, []], pa.list_(pa.string_view())),
    "struct": pa.array(
        [{"x": 1, "y": "b"}, None, {"x": None, "y": None}], pa.struct([("x", pa.uint8()), ("y", pa.string_view())])
    ),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int16())),
    "flag": pa.array([True, None, False]),
    "nothing": pa.nulls(3),
}


def test_every_layout(spark: Any, conf: Any) -> None:
    rows = pa.table(COLUMNS)
    schema = spark_arrow_schema(rows.schema)
    frame = qcore.PlanBuilder()
    result = qcore.Session(threads=1).execute(frame.values(rows).build())
    found = result.to_spark(spark)
    assert found.columns == rows.column_names
    types = dict(found.dtypes)
    assert types["u8"] == "decimal(20,0)" and types["at"] == "timestamp" and types["local"] == "timestamp_ntz"
    assert types["text"] == types["word"] == "string" and types["price"] == "decimal(9,2)"
    back = found.toArrow()
    expected = in_layout(rows.combine_chunks().to_batches()[0], schema)
    for name in rows.column_names:
        got = back.column(name)
        if name == "at":
            got = got.cast(pa.timestamp("us", "UTC"))
        assert got.to_pylist() == expected.column(name).to_pylist(), name


def test_results(spark: Any) -> None:
    rows = pa.table({"k": ["a", "b", "a"], "x": [1, 2, 3]})
    result = qcore.sql("select k, sum(x) as s from t group by k", {"t": rows}, threads=1)
    assert_same_rows(result.to_spark(spark).toArrow(), result.to_arrow())
    none = qcore.sql("select k, x from t where x > 9", {"t": rows}, threads=1).to_spark(spark)
    assert none.count() == 0 and none.columns == ["k", "x"]


def test_types_that_spark_lacks(spark: Any) -> None:
    with pytest.raises(PlanError, match=r"column 'at' is time64.*, which is no type of Spark: cast it"):
        qcore.sql("select time '12:00:00' as at").to_spark(spark)
    with pytest.raises(PlanError, match=r"column 'u' is extension<arrow.uuid>, which is no type of Spark: .* to text"):
        qcore.sql("select null::uuid as u").to_spark(spark)
    with pytest.raises(PlanError, match="two columns named 'x'"):
        qcore.sql("select 1 as x, 2 as x").to_spark(spark)
    nanos = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(ExecutionError, match=r"column 'at' \(timestamp\[ns\]\) has values that Spark's .* cannot hold"):
        qcore.sql("select at from t", {"t": nanos}).to_spark(spark)


def test_a_stage_over_a_frame(spark: Any) -> None:
    scan = qcore.PlanBuilder().scan("rows", schema=pa.schema([("id", pa.int64()), ("word", pa.string())]))
    plan = scan.filter(qcore.col("id") >= 5).project({"word": qcore.col("word"), "twice": qcore.col("id") * 2})
    function = qcore.spark.stage(plan.build())
    frame = spark.range(0, 20, 1, 3).selectExpr("concat('w', id) as word", "id", "id as unused")
    found = frame.mapInArrow(function, function.schema).toArrow()
    assert sorted(found["twice"].to_pylist()) == [2 * i for i in range(5, 20)]
    assert sorted(found["word"].to_pylist()) == sorted(f"w{i}" for i in range(5, 20))
    missing = spark.range(3).mapInArrow(function, function.schema)
    with pytest.raises(Exception, match="the DataFrame has no column 'word'; it has id"):
        missing.collect()


def test_stages_that_are_refused() -> None:
    values = qcore.PlanBuilder().values(pa.table({"a": [1]})).build()
    with pytest.raises(PlanError, match="one scan without a source, which reads the DataFrame, and this plan has 0"):
        qcore.spark.stage(values)
