"""Read the files, sections and filters of a DataFrame that only scans files from Spark's physical plan."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from qcore.connectors.base import FileSplit
from qcore.errors import PlanError
from qcore.expression.tree import Expr, call
from qcore.record import record
from qcore.spark.predicates import Conditions, Untranslated, plain_value
from qcore.spark.source_files import CORRECTED, Calendars, FileStamp, footers_of, legacy_column
from qcore.spark.types import arrow_schema

PARQUET_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
PARQUET_SCAN = "org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScan"
# Spark's own classes of file lists. Those of table formats may also have deleted rows and renamed columns.
FILE_INDEXES = frozenset(
    f"org.apache.spark.sql.execution.datasources.{name}"
    for name in ("InMemoryFileIndex", "CatalogFileIndex", "PrunedInMemoryFileIndex")
)
# The text of a PartitionedFile. With it one py4j call fetches all files of a partition. The path is URL-encoded.
PRINTED_FILE = re.compile(r"path: (\S*?), range: (\d+)-(\d+), partition values: \[(.*?)\](?=, path: |\)$)", re.DOTALL)
# The text of whole numbers, days and microseconds in it.
PRINTED_NUMBER = re.compile(r"-?[0-9]{1,19}")
# The text of an attribute: its name, its id and, for a long, an L.
PRINTED_ATTRIBUTE = re.compile(r"(.*)#(\d+)L?")
# The text of Hadoop's FileStatus. With it one call fetches the sizes and times of all files.
PRINTED_STATUS = re.compile(
    r"path=(\w+:.*?); isDirectory=false; length=(\d+); replication=\d+; blocksize=\d+; modification_time=(\d+);",
    re.DOTALL,
)
# Schemes that Hadoop and Arrow name differently.
SCHEMES = {"s3a": "s3", "s3n": "s3"}
# Keys of a column's metadata that change how it is read.
READING_METADATA = ("EXISTS_DEFAULT", "CURRENT_DEFAULT", "parquet.field.id", "__CHAR_VARCHAR_TYPE_STRING")


@record(frozen=True)
class FileScan:
    """A DataFrame that is a projection and a filter of files.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns that are read, including those of folder names.
    columns : tuple of str
        For each column of the DataFrame, the column of `schema`.
    predicate : Expr or None
        The filter.
    splits : tuple of FileSplit
        Spark's sections, in the order of its partitions.
    stamps : dict
        Size and modification time of each file when Spark planned the scan, by path.
    ignore_case : bool
        Whether columns are found without regard to case.
    """

    schema: pa.Schema
    columns: tuple[str, ...]
    predicate: Expr | None
    splits: tuple[FileSplit, ...]
    stamps: dict[str, FileStamp]
    ignore_case: bool


def file_scan(df: Any) -> FileScan:
    """Return the scan that a classic DataFrame is. Raises Untranslated, with the reason, if it is more than a scan."""
    plan = df._jdf.queryExecution().sparkPlan()
    leaves = plan.collectLeaves()
    if leaves.length() != 1:
        raise Untranslated(f"the plan reads {leaves.length()} sources")
    leaf = leaves.head()
    kind = leaf.getClass().getSimpleName()
    if kind == "FileSourceScanExec":
        scan: _FileSource | _BatchSource = _FileSource(leaf, df.sparkSession._jvm)
    elif kind == "BatchScanExec":
        scan = _BatchSource(leaf, df.sparkSession._jvm)
    else:
        raise Untranslated(f"the plan reads from {kind}, not from files")
    conf = df.sparkSession.conf
    if conf.get("spark.sql.parquet.fieldId.read.enabled", "false") == "true":
        raise Untranslated("columns are found by field id (spark.sql.parquet.fieldId.read.enabled)")
    schema = scan.schema()
    columns = _columns_by_id(leaf, schema)
    conditions = Conditions(columns, {field.name: field.type for field in schema})
    predicates: list[Expr] = []
    _walk(plan, leaf, columns, conditions, predicates)
    predicate = None
    for part in predicates:
        predicate = part if predicate is None else call("and", predicate, part)
    held = tuple(_column(columns, name, number) for name, number in attributes_of(plan.output()))
    ignore_case = conf.get("spark.sql.caseSensitive", "false") != "true"
    stamps: dict[str, FileStamp] = {}
    splits = tuple(scan.splits(schema, stamps))
    _refuse_legacy_files(stamps, schema, _calendars(conf, scan), not ignore_case)
    return FileScan(schema, held, predicate, splits, stamps, ignore_case)


def _calendars(conf: Any, scan: _FileSource | _BatchSource) -> Calendars:
    def mode(option: str) -> str:
        configured = conf.get(f"spark.sql.parquet.{option}ModeInRead", CORRECTED)
        return (scan.option(f"{option}Mode") or configured).upper()

    return Calendars(mode("datetimeRebase"), mode("int96Rebase"))


def _refuse_legacy_files(paths: Iterable[str], schema: pa.Schema, calendars: Calendars, same_case: bool) -> None:
    """Raise Untranslated if Spark converts dates or instants of a file to another calendar."""
    if not any(pa.types.is_date(type_) or pa.types.is_timestamp(type_) for type_ in schema.types):
        return
    for footer in footers_of(paths):
        name = legacy_column(footer, list(schema), calendars, same_case)
        if name is not None:
            raise Untranslated(f"the column {name} of {footer.location.path} is in Spark's legacy calendar")


def _columns_by_id(leaf: Any, schema: pa.Schema) -> dict[int, str]:
    columns = {}
    for name, number in attributes_of(leaf.output()):
        if schema.get_field_index(name) < 0:
            raise Untranslated(f"the column {name} is not stored in the files")
        columns[number] = name
    return columns


def attributes_of(listed: Any) -> list[tuple[str, int]]:
    """Return the names and ids of a list of attributes, from its text: that is one call of py4j, not four for each."""
    texts = listed.mkString("\n").split("\n")
    found = [PRINTED_ATTRIBUTE.fullmatch(text) for text in texts]
    n = listed.length()
    if len(found) == n and None not in found:
        return [(match[1], int(match[2])) for match in found if match is not None]
    # A name has a line break, or there are no attributes.
    attributes = [listed.apply(i) for i in range(n)]
    return [(attribute.name(), attribute.exprId().id()) for attribute in attributes]


def _column(columns: dict[int, str], name: str, number: int) -> str:
    """The column of the files that the attribute of a name and an id is."""
    held = columns.get(number)
    if held is None:
        raise Untranslated(f"the column {name} is computed")
    return held


def _walk(node: Any, leaf: Any, columns: dict[int, str], conditions: Conditions, predicates: list[Expr]) -> None:
    """Collect the filters and renamed columns between the plan's root and its leaf, from the leaf upwards."""
    if node.equals(leaf):
        return
    kind = node.getClass().getSimpleName()
    if kind not in ("ProjectExec", "FilterExec", "ColumnarToRowExec"):
        raise Untranslated(f"the plan has {kind} above the scan")
    _walk(node.child(), leaf, columns, conditions, predicates)
    if kind == "FilterExec":
        predicates.append(conditions.condition(node.condition()))
    elif kind == "ProjectExec":
        listed = node.projectList()
        # Spark shows a renamed column as `a#1 AS b#2`. Without any, the classes of the columns need not be asked for.
        for i in range(listed.length() if " AS " in listed.mkString("\n") else 0):
            item = listed.apply(i)
            if item.getClass().getSimpleName() == "Alias":
                child = item.child()
                if child.getClass().getSimpleName() != "AttributeReference":
                    raise Untranslated(f"the column {item.name()} is computed: {child.sql()}")
                columns[item.exprId().id()] = _column(columns, child.name(), child.exprId().id())


def _schema_of(*structs: Any) -> pa.Schema:
    fields = [item for struct in structs for item in json.loads(struct.json())["fields"]]
    for item in fields:
        marks = [mark for mark in READING_METADATA if mark in item.get("metadata", {})]
        if marks:
            raise Untranslated(f"the column {item['name']} has the metadata {marks[0]}, which changes how it is read")
    try:
        schema = arrow_schema({"fields": fields})
    except PlanError as error:
        raise Untranslated(str(error)) from error
    for field in schema:
        if pa.types.is_nested(field.type) or pa.types.is_duration(field.type) or pa.types.is_null(field.type):
            raise Untranslated(f"the column {field.name} is {field.type}")
    return schema


class _FileSource:
    """A scan by Spark's data source version 1, the default of spark.read.parquet."""

    def __init__(self, leaf: Any, jvm: Any) -> None:
        self._leaf = leaf
        self._jvm = jvm
        relation = leaf.relation()
        format = relation.fileFormat().getClass().getName()
        self._index = relation.location()
        index = self._index.getClass().getName()
        if format != PARQUET_FORMAT:
            raise Untranslated(f"the files are read by {format}")
        if index not in FILE_INDEXES:
            raise Untranslated(f"the files are listed by {index}")
        self._partition_schema = relation.partitionSchema()

    def option(self, name: str) -> str | None:
        """An option of the read, whatever the case of its name."""
        for line in self._leaf.relation().options().mkString("\n").splitlines():
            key, _, value = line.partition(" -> ")
            if key.lower() == name.lower():
                return str(value)
        return None

    def schema(self) -> pa.Schema:
        """Columns read from the files, then those of folder names."""
        return _schema_of(self._leaf.requiredSchema(), self._partition_schema)

    def splits(self, schema: pa.Schema, stamps: dict[str, FileStamp]) -> Iterator[FileSplit]:
        """Spark's sections. Also notes the sizes and times of the files."""
        rdds = self._leaf.inputRDDs()
        if rdds.length() != 1 or rdds.head().getClass().getSimpleName() != "FileScanRDD":
            raise Untranslated("the files are not read by one FileScanRDD")
        partitions = rdds.head().filePartitions()
        listed = [partitions.apply(i) for i in range(partitions.length())]
        return _splits(self._jvm, listed, self._partition_schema, schema, self._index, stamps)


class _BatchSource:
    """A scan by Spark's data source version 2 (spark.sql.sources.useV1SourceList without parquet)."""

    def __init__(self, leaf: Any, jvm: Any) -> None:
        self._leaf = leaf
        self._jvm = jvm
        self._scan = leaf.scan()
        name = self._scan.getClass().getName()
        if name != PARQUET_SCAN:
            raise Untranslated(f"the files are read by {name}")
        if self._scan.pushedAggregate().isDefined():
            raise Untranslated("Spark computes an aggregate from the files' footers")
        self._index = self._scan.fileIndex()
        index = self._index.getClass().getName()
        if index not in FILE_INDEXES:
            raise Untranslated(f"the files are listed by {index}")

    def option(self, name: str) -> str | None:
        """An option of the read, whatever the case of its name."""
        value = self._scan.options().get(name)
        return None if value is None else str(value)

    def schema(self) -> pa.Schema:
        """Columns read from the files, then those of folder names."""
        return _schema_of(self._scan.readDataSchema(), self._scan.readPartitionSchema())

    def splits(self, schema: pa.Schema, stamps: dict[str, FileStamp]) -> Iterator[FileSplit]:
        """Spark's sections. Also notes the sizes and times of the files."""
        partitions = self._leaf.inputPartitions()
        listed = [partitions.apply(i) for i in range(partitions.length())]
        return _splits(self._jvm, listed, self._scan.readPartitionSchema(), schema, self._index, stamps)


def _splits(
    jvm: Any, partitions: list[Any], partition_struct: Any, schema: pa.Schema, index: Any, stamps: dict[str, FileStamp]
) -> Iterator[FileSplit]:
    listed = _listed_stamps(index)
    folders = _FolderValues(partition_struct, schema)
    # Each step of this name is a call of py4j.
    text_of = jvm.scala.runtime.ScalaRunTime.stringOf
    for partition in partitions:
        files = partition.files()
        printed = _parse_files(text_of(files), files)
        for number, (url, start, end, values) in enumerate(printed):
            path = file_path(url)
            if path not in stamps:
                stamps[path] = listed[path] if path in listed else _stamp(files[number])
            yield FileSplit(path, start, end - start, folders.of(url, values, files, number))


class _FolderValues:
    """The values of folder names. Files of one folder have the same, so they are read once a folder."""

    def __init__(self, partition_struct: Any, schema: pa.Schema) -> None:
        self._fields = [
            (item["name"], schema.field(item["name"]).type, partition_struct.apply(i).dataType())
            for i, item in enumerate(json.loads(partition_struct.json())["fields"])
        ]
        self._known: dict[str, tuple[tuple[str, Any], ...]] = {}

    def of(self, url: str, text: str | None, files: Any, number: int) -> tuple[tuple[str, Any], ...]:
        """The values of a file, the one of that number among `files`. `text` is Spark's text of them, if it is known.

        Values that are ambiguous in the text are fetched with some py4j calls.
        """
        if not self._fields:
            return ()
        folder = url.rpartition("/")[0]
        if folder not in self._known:
            values = None if text is None else self._of_text(text, folder)
            if values is None:
                row = files[number].partitionValues()
                values = [row.get(i, spark_type) for i, (_, _, spark_type) in enumerate(self._fields)]
            self._known[folder] = tuple(
                (name, plain_value(value, type)) for value, (name, type, _) in zip(values, self._fields, strict=True)
            )
        return self._known[folder]

    def _of_text(self, text: str, folder: str) -> list[Any] | None:
        """The values as Spark holds them, from their text. None: the text is ambiguous."""
        texts = text.split(",")
        if len(texts) != len(self._fields):
            return None
        values: list[Any] = []
        for part, (name, type, _) in zip(texts, self._fields, strict=True):
            if pa.types.is_string(type):
                # A null has the text of the word. A value may hold what ends the text, so it must be in the folder's
                # name too: there it is escaped, and the URL escapes that again.
                escaped = urllib.parse.quote(name, safe="") + "="
                named = [one.partition("=")[2] for one in folder.split("/") if one.lower().startswith(escaped.lower())]
                if part == "null" or [urllib.parse.unquote(urllib.parse.unquote(one)) for one in named] != [part]:
                    return None
                values.append(part)
            elif part == "null":
                values.append(None)
            elif PRINTED_NUMBER.fullmatch(part) and (
                pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type)
            ):
                values.append(int(part))
            else:
                return None
        return values


def _listed_stamps(index: Any) -> dict[str, FileStamp]:
    """Sizes and times of the local files that Spark has listed, by path; nothing if the list has another form."""
    if not index.getClass().getSimpleName().endswith("InMemoryFileIndex"):
        return {}
    text = index.allFiles().mkString("\n")
    found = PRINTED_STATUS.findall(text)
    if len(found) != text.count("isDirectory="):
        return {}
    paths = {path: FileStamp(int(n_bytes), int(millis)) for path, n_bytes, millis in found}
    # Paths of a FileStatus are not encoded.
    return {"/" + path[5:].lstrip("/"): stamp for path, stamp in paths.items() if path.startswith("file:")}


def _stamp(file: Any) -> FileStamp:
    return FileStamp(file.fileSize(), file.modificationTime())


def _parse_files(text: str, files: Any) -> Iterator[tuple[str, int, int, str | None]]:
    """Path, start, end and the text of folder values of files, from the text of the files.

    A value of a folder may hold anything, so the files are counted. If the count differs, the values' text is None.
    """
    found = PRINTED_FILE.findall(text)
    if len(found) == len(files):
        for url, start, end, values in found:
            yield url, int(start), int(end), values
        return
    for file in files:
        yield file.urlEncodedPath(), file.start(), file.start() + file.length(), None


def file_path(url: str) -> str:
    """Convert Spark's spelling of a path to one that connectors open: a local path, unquoted once, or a URL."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "file":
        return "/" + urllib.parse.unquote(rest).lstrip("/")
    if colon and scheme in SCHEMES:
        return f"{SCHEMES[scheme]}:{rest}"
    return url
