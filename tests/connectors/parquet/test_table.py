"""Parquet connector: sections, pruning, dictionaries, decimals as stored, bad files (SPEC V3, V10)."""

from __future__ import annotations

import datetime
import decimal
import itertools
import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from reading import read_split, read_splits, read_table

from oracle import assert_same_rows
from qcore.connectors.base import FileSplit
from qcore.connectors.files import FileTable, SplitTable
from qcore.connectors.parquet.footer import FOOTERS
from qcore.connectors.parquet.table import ALIGNMENTS_MAX
from qcore.connectors.storage import locate
from qcore.errors import ExecutionError, PlanError
from qcore.expression.tree import col, lit
from random_tables import KEY_TYPES, NESTED_TYPES, SIZES, random_table

WRITABLE = [type for type in KEY_TYPES if not pa.types.is_duration(type) and type != pa.timestamp("s")]


def write(path: Path, table: pa.Table, **options: object) -> str:
    pq.write_table(table, path, **options)
    return str(path)


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("null_share", [0.0, 0.1, 1.0])
def test_reads_what_was_written(tmp_path: Path, n_rows: int, null_share: float) -> None:
    table = random_table(1, n_rows, [*WRITABLE, *NESTED_TYPES], null_share, extremes=True)
    path = write(tmp_path / "t.parquet", table, row_group_size=700)
    assert_same_rows(read_table(FileTable(path)), pq.read_table(path), ordered=True)


@pytest.mark.parametrize("store_as_integer", [True, False])
@pytest.mark.parametrize("dictionary", [True, False])
def test_decimals_stored_as_integers(tmp_path: Path, store_as_integer: bool, dictionary: bool) -> None:
    """If pyarrow decodes, decimals of up to 18 digits have 4 or 8 bytes and others 16. The values do not change."""
    types = {"d9": pa.decimal128(9, 2), "d18": pa.decimal128(18, 4), "d38": pa.decimal128(38, 10), "i": pa.int64()}
    table = random_table(2, 3000, types, 0.2, extremes=True)
    path = write(
        tmp_path / "t.parquet",
        table,
        store_decimal_as_integer=store_as_integer,
        use_dictionary=dictionary,
        row_group_size=1000,
    )
    assert_same_rows(read_table(FileTable(path)), table, ordered=True)
    file = FileTable("t.parquet", SubTreeFileSystem(str(tmp_path), LocalFileSystem()))
    assert file.schema.types == table.schema.types
    stream = read_split(file, next(iter(file.splits(("d9", "d18"), None, 1))), ("d9", "d18"))
    widths = [type.bit_width for type in stream.schema.types]
    assert widths == ([32, 64] if store_as_integer else [128, 128])
    assert_same_rows(read_table(file), table, ordered=True)


def test_strings_of_few_values_come_as_dictionaries(tmp_path: Path) -> None:
    """If pyarrow decodes, as it does for files of another file system."""
    few = pa.array(["A", "N", "R", None] * 1000)
    many = pa.array([f"comment number {i}, of its own" for i in range(4000)])
    write(tmp_path / "t.parquet", pa.table({"few": few, "many": many}))
    file = FileTable("t.parquet", SubTreeFileSystem(str(tmp_path), LocalFileSystem()))
    read = read_split(file, next(iter(file.splits(("few", "many"), None, 1))), ("few", "many"))
    assert pa.types.is_dictionary(read.schema.field("few").type)
    assert read.schema.field("many").type == pa.string()
    assert_same_rows(read_table(file), pa.table({"few": few, "many": many}), ordered=True)


def test_any_cutting_of_the_bytes_gives_every_row_once(tmp_path: Path) -> None:
    """SPEC V3: a split may begin and end at any byte. It has the row groups whose middle byte it has."""
    table = random_table(3, 5000, {"a": pa.int64(), "s": pa.string()}, 0.1)
    path = write(tmp_path / "t.parquet", table, row_group_size=333)
    file = FileTable(path)
    size = Path(path).stat().st_size
    draw = random.Random(4)
    for n_cuts in (0, 1, 2, 5, 40):
        cuts = [0, *sorted(draw.randrange(size) for _ in range(n_cuts)), size]
        splits = [FileSplit(path, a, b - a) for a, b in itertools.pairwise(cuts)]
        assert_same_rows(read_splits(file, splits, ("a", "s")), table, ordered=True)
    splits = [FileSplit(path, 0, size // 2), FileSplit(path, size // 2)]
    assert_same_rows(read_splits(file, splits, ("a", "s")), table, ordered=True)


def test_own_splits_follow_row_groups(tmp_path: Path) -> None:
    table = random_table(5, 400_000, {"a": pa.int64()}, 0.1)
    path = write(tmp_path / "t.parquet", table, row_group_size=100_000)
    assert len(list(FileTable(path).splits(("a",), None, 2))) == 4
    small = write(tmp_path / "small.parquet", table, row_group_size=1000)
    splits = list(FileTable(small).splits(("a",), None, 2))
    assert 7 <= len(splits) <= 9, "about 64 K rows a split"
    assert_same_rows(read_splits(FileTable(small), splits, ("a",)), table, ordered=True)
    assert len(list(FileTable(small).splits(("a",), None, 100))) >= 100


def test_large_row_group_is_read_in_batches(tmp_path: Path) -> None:
    types = {"a": pa.int64(), "d": pa.decimal128(12, 2), "s": pa.string()}
    table = random_table(6, 600_000, types, 0.1, n_distinct={"s": 5})
    path = write(tmp_path / "t.parquet", table, row_group_size=1 << 20, store_decimal_as_integer=True)
    file = FileTable(path)
    stream = file.open(FileSplit(path), ("s", "d", "a"), None, 50_000)
    batches = list(pa.RecordBatchReader.from_stream(stream))
    stream.close()
    assert max(batch.num_rows for batch in batches) <= 50_000
    assert sum(batch.num_rows for batch in batches) == 600_000
    assert_same_rows(read_table(file, ("a", "d", "s")).slice(0, 5000), table.slice(0, 5000), ordered=True)


def test_no_columns_still_count_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", pa.table({"a": range(5000)}), row_group_size=1000)
    file = FileTable(path)
    rows = [batch.num_rows for split in file.splits((), None, 1) for batch in read_split(file, split, ()).to_batches()]
    assert sum(rows) == 5000


def test_row_groups_are_pruned_by_statistics(tmp_path: Path) -> None:
    """SPEC V10."""
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i // 100) for i in range(10_000)]
    table = pa.table({"day": days, "n": range(10_000)})
    path = write(tmp_path / "t.parquet", table, row_group_size=1000)
    file = FileTable(path)
    condition = col("day").between(datetime.date(2020, 1, 15), datetime.date(2020, 1, 16))
    splits = list(file.splits(("n",), condition, 10))
    assert len(splits) == 1
    # Pruning also happens when a split made elsewhere is opened.
    assert read_split(file, FileSplit(path), ("n",), condition).num_rows == 1000
    assert list(file.splits(("n",), col("day") < datetime.date(1990, 1, 1), 10)) == []


def test_statistics_of_the_table(tmp_path: Path) -> None:
    one = write(tmp_path / "1.parquet", pa.table({"a": [1, 2, None], "s": ["x", "y", "z"]}))
    two = write(tmp_path / "2.parquet", pa.table({"a": [7, 8], "s": ["b", None]}))
    statistics = FileTable([one, two]).statistics()
    assert statistics.row_count == 5
    assert (statistics.column("a").min, statistics.column("a").max, statistics.column("a").null_count) == (1, 8, 1)
    assert (statistics.column("s").min, statistics.column("s").max) == ("b", "z")
    assert statistics.column("nothing").min is None


def test_statistics_say_nothing_where_nothing_is_known(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3], "nulls": pa.array([None] * 3, pa.int64()), "l": [[1], [2], []]})
    path = write(tmp_path / "t.parquet", table, write_statistics=["nulls"])
    statistics = FileTable(path).statistics()
    assert statistics.column("a").min is None and statistics.column("l").min is None
    assert statistics.column("nulls").null_count == 3 and statistics.column("nulls").min is None
    assert len(list(FileTable(path).splits(("a",), col("a") > 100, 2))) == 1


def test_footer_is_read_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", pa.table({"a": [1]}))
    first = FOOTERS.get(locate(path))
    assert FOOTERS.get(locate(path)) is first
    write(tmp_path / "t.parquet", pa.table({"a": [1, 2, 3]}))
    assert FOOTERS.get(locate(path)).n_rows == 3


def test_int96_timestamps_are_microseconds(tmp_path: Path) -> None:
    moments = [datetime.datetime(1500, 1, 1), datetime.datetime(2020, 5, 6, 7, 8, 9, 123456), None]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us"))})
    path = write(tmp_path / "t.parquet", table.slice(1), use_deprecated_int96_timestamps=True)
    file = FileTable(path)
    assert file.schema.field("t").type == pa.timestamp("us")
    assert read_table(file).column("t").to_pylist() == moments[1:]


def test_dotted_and_nested_names(tmp_path: Path) -> None:
    table = pa.table({"a.b": [1, 2], "a": [{"b": 3, "c": 4}] * 2, "z": [5, 6]})
    path = write(tmp_path / "t.parquet", table)
    file = FileTable(path)
    assert read_table(file, ("z", "a.b")).to_pydict() == {"z": [5, 6], "a.b": [1, 2]}
    assert read_table(file, ("a",)).column("a").to_pylist() == [{"b": 3, "c": 4}] * 2
    assert file.statistics().column("z").max == 6 and file.statistics().column("a.b").max == 2


class TestFilesOfOneTable:
    def test_columns_in_another_order_and_wider_types(self, tmp_path: Path) -> None:
        """SPEC D6: int32 to int64, float32 to float64, decimals, by name."""
        narrow = {"i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(9, 2), "s": pa.string()}
        wide = {"s": pa.large_string(), "d": pa.decimal128(12, 2), "f": pa.float64(), "i": pa.int64()}
        one, two = random_table(7, 100, narrow), random_table(8, 100, wide)
        paths = [
            write(tmp_path / "1.parquet", one, store_decimal_as_integer=True),
            write(tmp_path / "2.parquet", two, store_decimal_as_integer=True),
        ]
        file = FileTable(paths)
        assert file.schema.field("i").type == pa.int64() and file.schema.field("d").type == pa.decimal128(12, 2)
        expected = one.to_pylist() + two.select(one.column_names).to_pylist()
        assert read_table(file, one.column_names).to_pylist() == expected

    def test_a_column_that_a_file_lacks_is_null(self, tmp_path: Path) -> None:
        one = write(tmp_path / "1.parquet", pa.table({"a": [1], "b": ["x"]}))
        two = write(tmp_path / "2.parquet", pa.table({"a": [2]}))
        assert read_table(FileTable([one, two])).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]

    def test_types_that_do_not_widen_are_named(self, tmp_path: Path) -> None:
        one = write(tmp_path / "1.parquet", pa.table({"a": [1]}))
        two = write(tmp_path / "2.parquet", pa.table({"a": ["x"]}))
        with pytest.raises(PlanError, match=r"'a' is int64 in .*1.parquet and string in .*2.parquet"):
            FileTable([one, two])

    def test_folder_names_give_columns(self, tmp_path: Path) -> None:
        for year, part in ((2020, "a%20b"), (2021, "__HIVE_DEFAULT_PARTITION__")):
            folder = tmp_path / f"year={year}" / f"part={part}"
            folder.mkdir(parents=True)
            write(folder / "x.parquet", pa.table({"n": [year]}))
        (tmp_path / "_SUCCESS").touch()
        file = FileTable(str(tmp_path))
        assert file.schema.types == [pa.int64(), pa.int64(), pa.string()]
        assert read_table(file).to_pylist() == [
            {"n": 2020, "year": 2020, "part": "a b"},
            {"n": 2021, "year": 2021, "part": None},
        ]
        assert len(list(file.splits(("n",), col("year") == 2021, 2))) == 1
        assert list(file.splits(("n",), col("part") == "c", 2)) == []
        assert file.statistics().column("year").min == 2020


class TestBadInput:
    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match=r"no such file: .*absent\.parquet"):
            FileTable(str(tmp_path / "absent.parquet"))
        table = SplitTable(pa.schema([("a", pa.int64())]))
        with pytest.raises(ExecutionError, match=r"no such file: .*absent\.parquet"):
            table.open(FileSplit(str(tmp_path / "absent.parquet")), ("a",), None, 1000)

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all, really", b"PAR1" + b"x" * 50 + b"PAR1"])
    def test_corrupt_footer(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "bad.parquet"
        path.write_bytes(content)
        with pytest.raises(PlanError, match=r"bad\.parquet is not a valid Parquet file"):
            FileTable(str(path))

    def test_corrupt_page(self, tmp_path: Path) -> None:
        path = tmp_path / "t.parquet"
        write(path, random_table(9, 5000, {"a": pa.int64(), "s": pa.string()}), compression="zstd")
        data = bytearray(path.read_bytes())
        data[60:2000] = b"\xff" * 1940
        path.write_bytes(data)
        with pytest.raises(ExecutionError, match=r"cannot read .*t\.parquet, row group 0: column 'a' cannot"):
            read_table(FileTable(str(path)))
        remote = FileTable("t.parquet", SubTreeFileSystem(str(tmp_path), LocalFileSystem()))
        with pytest.raises(ExecutionError, match=r"cannot read t\.parquet, row groups \[0\]"):
            read_table(remote)

    def test_section_past_the_end(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.parquet", pa.table({"a": [1]}))
        size = Path(path).stat().st_size
        file = FileTable(path)
        for start, length in ((size, None), (0, size + 1), (size - 1, 2), (10**12, 5)):
            message = rf"t\.parquet asks for bytes {start} .* the file has {size} bytes"
            with pytest.raises(ExecutionError, match=message):
                file.open(FileSplit(path, start, length), ("a",), None, 1000)
        with pytest.raises(ExecutionError, match="must not be negative"):
            file.open(FileSplit(path, -1), ("a",), None, 1000)

    def test_unknown_column(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.parquet", pa.table({"l_orderkey": [1], "b": [2]}))
        with pytest.raises(PlanError, match=r"no column 'l_oderkey'; did you mean 'l_orderkey'\?"):
            list(FileTable(path).splits(("l_oderkey",), None, 1))
        declared = SplitTable(pa.schema([("L_ORDERKEY", pa.int64())]))
        with pytest.raises(ExecutionError, match=r"t\.parquet has no column 'L_ORDERKEY'"):
            declared.open(FileSplit(path), ("L_ORDERKEY",), None, 1000)

    def test_declared_type_that_the_values_do_not_fit(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.parquet", pa.table({"a": ["x"]}))
        table = SplitTable(pa.schema([("a", pa.int64())]))
        with pytest.raises(ExecutionError, match=r"column 'a' of .*t\.parquet is string .* declared int64"):
            table.open(FileSplit(path), ("a",), None, 1000)

    def test_two_columns_of_one_name(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
        with pytest.raises(PlanError, match="two columns named 'a'"):
            FileTable(path)


def test_application_declares_columns_and_adds_splits(tmp_path: Path) -> None:
    """SPEC V3: columns of files that the planner has not seen are found by name and cast to the declared types."""
    path = write(tmp_path / "t.parquet", pa.table({"b": pa.array([1, 2], pa.int32()), "a": ["x", "y"]}))
    table = SplitTable(pa.schema([("a", pa.string()), ("b", pa.int64()), ("p", pa.date32())]))
    split = FileSplit(path, partition_values={"p": datetime.date(2020, 1, 1)})
    read = read_split(table, pickle.loads(pickle.dumps(split)), ("p", "b", "a"))
    assert read.to_pylist()[1] == {"p": datetime.date(2020, 1, 1), "b": 2, "a": "y"}


def test_one_file_under_several_declarations(tmp_path: Path) -> None:
    """V10, D6: each scan gets a file with the types that it declares, also if other scans declared others before."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int32()), "b": ["x", "y", "x"]}), path)
    declared = [
        [("a", pa.int32()), ("b", pa.string())],
        [("b", pa.string()), ("a", pa.int64())],
        [("a", pa.float64())],
        [("a", pa.decimal128(12, 2)), ("c", pa.date32())],
    ]
    for fields in [*declared, *reversed(declared)]:
        schema = pa.schema(fields)
        found = read_table(FileTable(str(path), schema=schema))
        assert found.schema.types == schema.types
        made = {"a": [1, 2, 3], "b": ["x", "y", "x"], "c": [None] * 3}
        assert_same_rows(found, pa.table({name: pa.array(made[name], type_) for name, type_ in fields}))


def test_many_choices_of_columns(tmp_path: Path) -> None:
    """V10: the cache of a file's readers is bounded. More choices of columns than it holds are read right."""
    names = [f"c{i}" for i in range(12)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({name: [i, i + 1] for i, name in enumerate(names)}), path)
    table = FileTable(str(path))
    for pair in itertools.permutations(range(12), 2):
        found = read_table(table, tuple(names[i] for i in pair))
        assert found.to_pydict() == {names[i]: [i, i + 1] for i in pair}
    assert len(FOOTERS.get(locate(str(path))).alignments) <= ALIGNMENTS_MAX


def test_one_filter_over_files_of_other_bounds(tmp_path: Path) -> None:
    """V10: the result of pruning by a filter is used for the same file only, not for another file under its name."""
    passing = col("a") > 15
    paths = [tmp_path / "low.parquet", tmp_path / "high.parquet"]
    for path, start in zip(paths, (0, 10), strict=True):
        pq.write_table(pa.table({"a": range(start, start + 10)}), path, row_group_size=5)
    table = FileTable([str(path) for path in paths])
    for _ in range(2):
        assert [split.path for split in table.splits(("a",), passing, 1)] == [str(paths[1])]
        assert read_table(table, ("a",), passing).column("a").to_pylist() == list(range(15, 20))
    pq.write_table(pa.table({"a": range(100, 111)}), paths[0], row_group_size=5)
    assert read_table(table, ("a",), passing).num_rows == 11 + 5


def test_tables_and_splits_pickle(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", pa.table({"a": [1, 2]}))
    file = pickle.loads(pickle.dumps(FileTable(path)))
    splits = pickle.loads(pickle.dumps(list(file.splits(("a",), None, 1))))
    assert read_splits(file, splits, ("a",)).to_pydict() == {"a": [1, 2]}


def test_filter_on_decimals_and_strings_prunes(tmp_path: Path) -> None:
    prices = [decimal.Decimal(i) / 100 for i in range(4000)]
    table = pa.table({"price": pa.array(prices, pa.decimal128(15, 2)), "word": [f"w{i:05}" for i in range(4000)]})
    path = write(tmp_path / "t.parquet", table, row_group_size=1000, store_decimal_as_integer=True)
    file = FileTable(path)
    assert len(list(file.splits(("price",), col("price") < decimal.Decimal("9.99"), 4))) == 1
    assert len(list(file.splits(("price",), col("price") >= lit(30), 4))) == 1
    assert len(list(file.splits(("price",), col("word").like("w0100%"), 4))) == 1
    assert len(list(file.splits(("price",), col("word").isin(["w00001", "w03999"]), 4))) == 2
