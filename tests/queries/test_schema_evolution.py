"""Sources whose parts have different schemas, and how results report new schemas (SPEC D2, D4, D5, D6, D7)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as paorc
import pyarrow.parquet as pq
import pytest

import qcore
from oracle import assert_same_rows
from qcore import FileSplit, IterOutcome, PlanBuilder, PollPull, SchemaChangeError, col

FIRST = pa.table({"a": pa.array([1, 2, None], pa.int32()), "s": ["x", "y", None]})
SECOND = pa.table({"s": pa.array(["z"], pa.large_string()), "b": [True], "a": pa.array([2**40])})
THIRD = pa.table({"a": [Decimal("1.25"), None], "f": pa.array([0.5, 1.5], pa.float32())})
UNION = pa.schema([("a", pa.decimal128(21, 2)), ("s", pa.string()), ("b", pa.bool_()), ("f", pa.float32())])


def write(table: pa.Table, path: Path) -> str:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".orc":
        paorc.write_table(table.cast(pa.schema([f.with_type(wide(f.type)) for f in table.schema])), path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return str(path)


def wide(type: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(type) else type


def up_front(*tables: pa.Table) -> pa.Table:
    """The oracle: DuckDB's union of the tables by name, each cast to the widest types."""
    with duckdb.connect() as connection:
        parts = []
        for i, table in enumerate(tables):
            connection.register(f"t{i}", table)
            casts = [
                f"cast({field.name} as {sql_type(UNION.field(field.name).type)}) {field.name}" for field in table.schema
            ]
            parts.append(f"select {', '.join(casts)} from t{i}")
        return connection.sql(" union all by name ".join(parts)).to_arrow_table()


def sql_type(type: pa.DataType) -> str:
    return {"string": "varchar", "bool": "boolean", "float": "float"}.get(str(type), "decimal(21, 2)")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".orc"])
def test_files_of_one_scan(tmp_path: Path, suffix: str) -> None:
    """D6: the columns of all files by name, in the widest types. Rows of a file without a column have nulls in it."""
    tables = [FIRST, SECOND, THIRD]
    paths = [write(table, tmp_path / f"{i}{suffix}") for i, table in enumerate(tables)]
    session = qcore.Session(threads=2)
    session.register("t", paths)
    result = session.execute(PlanBuilder({"t": paths}).scan("t").build()).to_arrow()
    assert_same_rows(result, up_front(*tables), check_names=True)
    assert result.schema == UNION
    grouped = session.sql("select s, count(*) n, sum(a) t from t where a > 0 group by s").to_arrow()
    with duckdb.connect() as connection:
        connection.register("t", up_front(*tables))
        query = "select s, count(*), sum(a) from t where a > 0 group by s"
        assert_same_rows(grouped, connection.sql(query).to_arrow_table())


def test_text_files_of_one_scan(tmp_path: Path) -> None:
    """D6: types that are inferred from the first lines of each file are widened, too."""
    parts = [pa.table({"a": [1, 2], "s": ["x", "y"]}), pa.table({"s": ["z"], "a": [0.5]}), pa.table({"a": [3]})]
    for i, part in enumerate(parts):
        pacsv.write_csv(part, tmp_path / f"{i}.csv")
    result = qcore.sql("select a, s from t order by a", {"t": str(tmp_path / "*.csv")}).to_arrow()
    assert result.to_pydict() == {"a": [0.5, 1.0, 2.0, 3.0], "s": ["z", "x", "y", None]}


def test_files_must_agree_when_asked_to(tmp_path: Path) -> None:
    """D6: on_schema_change="error" names the column, both types and both files before the query runs."""
    paths = [write(table, tmp_path / f"{i}.parquet") for i, table in enumerate((FIRST, SECOND))]
    message = r"'a' is int32 in .*0\.parquet and int64 in .*1\.parquet.*on_schema_change='evolve'"
    with pytest.raises(SchemaChangeError, match=message):
        qcore.Session().register("t", paths, on_schema_change="error")
    with pytest.raises(SchemaChangeError, match=message):
        PlanBuilder().scan("t", source=paths, on_schema_change="error")
    session = qcore.Session(threads=1)
    session.register("t", paths)
    plan = PlanBuilder().scan("t", schema=pa.schema([("a", pa.int64())]), on_schema_change="error").build()
    with pytest.raises(SchemaChangeError, match=message):
        session.execute(plan)
    same = [write(FIRST, tmp_path / f"same{i}.parquet") for i in range(2)]
    assert PlanBuilder().scan("t", source=same, on_schema_change="error").build().schema.names == ["a", "s"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (FIRST.select(["a"]), r"column 's' \(string\) of .*0\.parquet is not in .*1\.parquet"),
        (FIRST.append_column("n", pa.array([1, 2, 3])), r"column 'n' \(int64\) of .*1\.parquet is not in .*0\.parquet"),
        (FIRST.select(["s", "a"]), r"order \['a', 's'\] in .*0\.parquet and \['s', 'a'\]"),
    ],
)
def test_columns_and_their_order_must_agree(tmp_path: Path, second: pa.Table, message: str) -> None:
    """D6: columns that are dropped, added or reordered are changes. Other layouts of text are not."""
    paths = [write(table, tmp_path / f"{i}.parquet") for i, table in enumerate((FIRST, second))]
    with pytest.raises(SchemaChangeError, match=message):
        qcore.Session().register("t", paths, on_schema_change="error")
    large = FIRST.set_column(1, "s", FIRST["s"].cast(pa.large_string()))
    write(large, tmp_path / "1.parquet")
    qcore.Session().register("t", [paths[0], write(large, tmp_path / "2.parquet")], on_schema_change="error")


def test_an_unknown_policy() -> None:
    for make in (
        lambda: PlanBuilder().scan("t", schema=FIRST.schema, on_schema_change="ignore"),
        lambda: qcore.Session().register("t", FIRST, on_schema_change="ignore"),
        lambda: PlanBuilder().source(Changing([]), on_schema_change="ignore"),
    ):
        with pytest.raises(qcore.PlanError, match="on_schema_change is 'error' or 'evolve', not 'ignore'"):
            make()


def test_batches_of_a_list() -> None:
    """D6: a list of batches of different schemas is one table, unless "error" is set or types are in conflict."""
    batches = [batch for table in (FIRST, SECOND, THIRD) for batch in table.to_batches()]
    session = qcore.Session(threads=2)
    session.register("t", batches)
    assert_same_rows(session.sql("select * from t").to_arrow(), up_front(FIRST, SECOND, THIRD), check_names=True)
    with pytest.raises(SchemaChangeError, match="'a' is int32 in batch 0 and int64 in batch 1"):
        session.register("t", batches, on_schema_change="error")
    with pytest.raises(SchemaChangeError, match="'a' is int32 in batch 0 and string in batch 1") as raised:
        session.register("t", [batches[0], pa.record_batch({"a": ["x"]})])
    assert isinstance(raised.value, qcore.PlanError)


def read_split(path: str, schema: pa.Schema, on_schema_change: str | None) -> list[dict[str, Any]]:
    plan = PlanBuilder().scan("t", schema=schema, on_schema_change=on_schema_change).build()
    task = qcore.Task(plan, drivers=1)
    task.add_split("t", FileSplit(path))
    task.no_more_splits("t")
    return [row for batch in task.batches(timeout=30) for row in batch.to_pylist()]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_splits_added_by_hand(tmp_path: Path, suffix: str) -> None:
    """D6, V3: splits are read under the declared schema. Errors name the column, both types and the file."""
    path = write(FIRST, tmp_path / f"1{suffix}")
    declared = pa.schema([("n", pa.date32()), ("a", pa.int64())])
    assert read_split(path, declared, "evolve") == [{"n": None, "a": a} for a in (1, 2, None)]
    with pytest.raises(SchemaChangeError, match=rf"1\{suffix} has no column 'n' \(date32"):
        read_split(path, declared, "error")
    with pytest.raises(qcore.ExecutionError, match="no column 'n'"):
        read_split(path, declared, None)
    for policy, type in (("evolve", pa.int8()), ("evolve", pa.string()), ("error", pa.int64())):
        with pytest.raises(SchemaChangeError, match=rf"TableScan \(node t\).*'a' of .*1\{suffix} is int32, .* {type}"):
            read_split(path, pa.schema([("a", type)]), policy)
    assert read_split(path, pa.schema([("a", pa.int8())]), None) == [{"a": 1}, {"a": 2}, {"a": None}]


class Changing(qcore.SourceOperator):
    """One partition that gives these batches."""

    partitions = 1

    def __init__(self, batches: list[pa.RecordBatch], schema: pa.Schema = FIRST.schema) -> None:
        self.batches, self.declared = batches, schema

    def output_schema(self, schema: None) -> pa.Schema:
        return self.declared

    def init_local_state(self, cx: Any, global_state: Any) -> Iterator[pa.RecordBatch]:
        return iter(self.batches)

    def poll_pull(self, cx: Any, local: Any, global_state: Any, partition: int) -> PollPull:
        batch = next(local, None)
        return PollPull.EXHAUSTED if batch is None else PollPull.batch(batch)


def batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(table.to_pylist(), schema=table.schema)


def changing(*tables: pa.Table, schema: pa.Schema = FIRST.schema) -> PlanBuilder:
    return PlanBuilder().source(Changing([batch(table) for table in tables], schema), on_schema_change="evolve")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (SECOND, r"returned a batch that does not fit: column 'a' is int64, declared as int32"),
        (FIRST.append_column("b", pa.array([True] * 3)), r".*column 'b' \(bool\) is not declared"),
        (FIRST.set_column(0, "a", pa.array([1, 2, 3])), r".*column 'a' is int64, declared as int32"),
        (FIRST.select(["s"]), r".*column 'a', declared as int32, is missing; it has 's'"),
        (FIRST.select(["s", "a"]), r".*columns come in the order \['s', 'a'\], declared as \['a', 's'\]"),
    ],
)
def test_a_source_must_keep_its_declared_schema(table: pa.Table, message: str) -> None:
    """D6: otherwise the error names the setting on_schema_change="evolve"."""
    plan = PlanBuilder().source(Changing([batch(FIRST), batch(table)])).build()
    with pytest.raises(
        SchemaChangeError, match=rf"Changing \(node 0\): {message}.*on_schema_change='evolve'"
    ) as raised:
        list(qcore.Task(plan, drivers=1).batches(timeout=30))
    assert isinstance(raised.value, qcore.ExecutionError)
    assert (raised.value.operator, raised.value.node_id) == ("Changing", "0")


def outcomes(plan: PlanBuilder) -> list[tuple[IterOutcome, list[str], int | None]]:
    """Each outcome until NONE or STOP twice, with the schema and the number of rows."""
    it = qcore.Task(plan.build(), drivers=1).iterator()
    seen: list[tuple[IterOutcome, list[str], int | None]] = []
    while len(seen) < 2 or seen[-2][0] not in (IterOutcome.NONE, IterOutcome.STOP):
        outcome = it.next()
        seen.append(
            (outcome, [str(field.type) for field in it.schema], None if it.batch is None else it.batch.num_rows)
        )
    it.close()
    return seen


def test_an_iterator_tells_of_new_schemas() -> None:
    """D2, D6, D7: OK_NEW_SCHEMA comes first and with every wider schema, but not with narrower ones. NONE stays."""
    seen = outcomes(changing(FIRST, FIRST, SECOND, FIRST, THIRD))
    first, second = ["int32", "string"], ["int64", "string", "bool"]
    third = ["decimal128(21, 2)", "string", "bool", "float"]
    assert seen == [
        (IterOutcome.OK_NEW_SCHEMA, first, 3),
        (IterOutcome.OK, first, 3),
        (IterOutcome.OK_NEW_SCHEMA, second, 1),
        (IterOutcome.OK, second, 3),
        (IterOutcome.OK_NEW_SCHEMA, third, 2),
        (IterOutcome.NONE, third, None),
        (IterOutcome.NONE, third, None),
    ]


def test_the_first_outcome() -> None:
    """D5, D7: the first outcome is a schema without rows if a filter passes none, and NONE if there is no data."""
    new, none = IterOutcome.OK_NEW_SCHEMA, IterOutcome.NONE
    types = ["int32", "string"]
    filtered = [changing(FIRST).filter(col("a") > 10), PlanBuilder().values(FIRST).filter(col("a") > 10)]
    for plan in filtered:
        assert outcomes(plan) == [(new, types, 0), (none, types, None), (none, types, None)]
    for plan in (changing(), PlanBuilder().values(FIRST.slice(3)), changing().filter(col("a") > 10)):
        assert outcomes(plan) == [(none, types, None), (none, types, None)]
    assert outcomes(changing(FIRST.slice(3)))[0] == (new, types, 0)


def test_rows_that_statistics_left_out_were_data(tmp_path: Path) -> None:
    """D5: if statistics exclude every row group, the first outcome is still a schema."""
    path = write(FIRST, tmp_path / "1.parquet")
    plan = qcore.Session(threads=1).execute(PlanBuilder().scan("t", source=path).filter(col("a") > 10).build()).plan
    it = qcore.Task(plan, drivers=1).iterator()
    assert [it.next(), it.next()] == [IterOutcome.OK_NEW_SCHEMA, IterOutcome.NONE]


def test_a_stop_stays() -> None:
    """D7, D9."""
    seen = outcomes(changing(FIRST, pa.table({"a": ["x"]})))
    assert [outcome for outcome, _, _ in seen] == [IterOutcome.OK_NEW_SCHEMA, IterOutcome.STOP, IterOutcome.STOP]


def test_a_result_is_of_one_schema() -> None:
    """D4: batches that widen to the declared schema are read. For others the error says what to do."""
    session = qcore.Session(threads=1)
    within = session.execute(changing(FIRST, SECOND, THIRD, schema=UNION).build())
    assert within.schema == UNION
    assert_same_rows(within.to_arrow(), up_front(FIRST, SECOND, THIRD))
    for table, message in (
        (FIRST.set_column(0, "a", pa.array([1, 2, 3])), r"result's column 'a' changed from int32 to int64.*iterator"),
        (FIRST.append_column("n", pa.array([1, 2, 3])), r"result has a new column 'n' \(int64\)"),
    ):
        with pytest.raises(SchemaChangeError, match=message):
            session.execute(changing(FIRST, table).build()).to_arrow()
        assert session.execute(changing(FIRST, table).project(["s"]).build()).to_arrow().num_rows == 6


def test_sinks_see_schemas_grow() -> None:
    """D6, V12: a callback gets the wider batches, and a sink in Python is bound again."""
    given: list[pa.RecordBatch] = []
    list(qcore.Task(changing(FIRST, SECOND, FIRST).callback(given.append).build(), drivers=1).batches(timeout=30))
    assert [batch.schema.names for batch in given] == [["a", "s"], ["a", "s", "b"], ["a", "s", "b"]]
    assert given[2].to_pylist() == [{**row, "b": None} for row in FIRST.to_pylist()]

    class Collecting(qcore.SinkOperator):
        bound: ClassVar[list[pa.Schema]] = []

        def bind(self, schema: pa.Schema) -> None:
            self.bound.append(schema)

        def poll_push(self, cx: Any, local: Any, global_state: Any, batch: pa.RecordBatch, partition: int) -> Any:
            assert batch.schema.equals(self.bound[-1])
            return qcore.PollPush.PUSHED

    list(qcore.Task(changing(FIRST, SECOND, FIRST).sink(Collecting()).build(), drivers=1).batches(timeout=30))
    assert [schema.names for schema in Collecting.bound] == [["a", "s"], ["a", "s", "b"]]


def test_a_promise_of_an_operator_holds_for_each_input() -> None:
    """D6, D9: an operator declares its schema at every bind. A batch of another schema is an error."""

    class Lying(qcore.StatelessOperator):
        def execute(self, cx: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
            return batch.select(["a"])

    with pytest.raises(qcore.ExecutionError, match=r"Lying \(node 1\).*another schema than output_schema"):
        list(qcore.Task(changing(FIRST).operator(Lying).build(), drivers=1).batches(timeout=30))


def test_d6_an_operator_that_holds_batches_of_an_earlier_schema() -> None:
    """D6, H3: batches that it took before its input widened come out later under the wider schema."""

    class Holding(qcore.Operator):
        def __init__(self) -> None:
            self.held: list[pa.RecordBatch] = []

        def add_input(self, batch: pa.RecordBatch) -> None:
            self.held.append(batch)

        def get_output(self) -> pa.RecordBatch | None:
            return self.held.pop(0) if self.finish_called and self.held else None

        def is_finishing(self) -> bool:
            return self.finish_called and not self.held

    batches = list(qcore.Task(changing(FIRST, SECOND).operator(Holding).build(), drivers=1).batches(timeout=30))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [row | {"b": None} for row in FIRST.to_pylist()] + [{"a": 2**40, "s": "z", "b": True}]
    assert {batch.schema.field("a").type for batch in batches} == {pa.int64()}


def test_the_single_row_is_widened() -> None:
    """D6: the row that the operator keeps is widened when the schema changes. A row of nulls has the last schema."""
    from qcore.plan.nodes import EnforceSingleRow

    one, none = FIRST.slice(0, 1), SECOND.slice(1)
    for tables, row in (((one, none), [1, "x", None]), ((FIRST.slice(3), none), [None] * 3)):
        child = changing(*tables).build()
        batches = list(qcore.Task(EnforceSingleRow("one", child.schema, child), drivers=1).batches(timeout=30))
        assert [list(row.values()) for batch in batches for row in batch.to_pylist()] == [row]
        assert batches[0].schema.field("a").type == pa.int64()


def test_lists_beside_a_column_that_widens() -> None:
    """D6: nested columns that a sort keeps stay with their rows. Earlier rows have nulls in a new column."""
    n = 3000
    lists = pa.array([[i, i + 1] for i in range(n)])
    first = pa.table({"k": pa.array(range(n), pa.int16()), "l": lists})
    second = pa.table({"k": pa.array(range(n, 2 * n), pa.int64()), "l": lists})
    plan = changing(first, second, schema=first.schema).order_by(["k desc"])
    batches = list(qcore.Task(plan.build(), drivers=1).batches(timeout=30))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == list(reversed(first.to_pylist() + second.to_pylist()))
    late = changing(first.select(["k"]), second, schema=first.select(["k"]).schema).order_by(["k"])
    batches = list(qcore.Task(late.build(), drivers=1).batches(timeout=30))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"k": k, "l": None} for k in range(n)] + second.to_pylist()


@pytest.mark.parametrize("how", ["right", "full", "left_anti"])
def test_a_build_side_wider_than_declared_without_a_probe(how: str) -> None:
    """D6: the probe side has no batch, and the build side's rows come out in their new types."""
    probe = PlanBuilder().values(pa.table({"p": pa.array([], pa.string()), "q": pa.array([], pa.int32())}))
    build = changing(FIRST, FIRST.set_column(0, "a", pa.array([1, 2, 2**40])))
    plan = probe.hash_join(build, left_on=["p"], right_on=["s"], how=how).build()
    batches = list(qcore.Task(plan, drivers=2).batches(timeout=30))
    assert sum(map(len, batches)) == (0 if how == "left_anti" else 6)
    assert how == "left_anti" or {batch.schema.field("a").type for batch in batches} == {pa.int64()}
