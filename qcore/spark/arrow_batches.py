"""The rows of a DataFrame as Arrow batches that its tasks hand to Python.

Spark's way is mapInArrow. It converts rows to Arrow in the JVM, and since version 4 adds up the bytes of all columns
after each row. Then Python reads an Arrow stream. The way of DataFrame.toArrow() is an RDD of serialized batches: the
same conversion without the sums. 6M rows of six numbers took 0.85 of the time, and 0.43 with a text among them. It is
not public; Spark 4.2 is the first that lets its caller choose the rows of a batch. Nothing limits the bytes of a batch.
So it is used with as many rows of fixed width as a batch may have bytes, and with 500 other rows: half a gigabyte if
they have a megabyte each. DataFrames with binary columns are left to mapInArrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from qcore.spark.spark_job import is_connect

# Spark ends a batch of mapInArrow after a row that makes it larger. A task finds the setting among the properties of
# its job, unless the session has it.
BATCH_BYTES_CONF = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_BYTES_LIMIT = (1 << 31) - 1
BATCH_ROWS_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
# Bytes of a batch of rows of fixed width, at most.
BATCH_BYTES_MAX = 64 << 20
# Rows of a batch with texts, at most.
LONG_ROWS_MAX = 500


def row_bytes(schema: pa.Schema) -> int | None:
    """The bytes of a row; None: they are not the same for all rows."""
    try:
        return sum(-(-type_.bit_width // 8) for type_ in schema.types)
    except ValueError:
        return None


def rows_of_batch(schema: pa.Schema, limit: int) -> int | None:
    """How many rows a batch may have if nothing limits its bytes; None: any number may be too large.

    `limit` is that of the session, or 0.
    """
    width = row_bytes(schema)
    if width is None and any(map(has_bytes, schema.types)):
        return None
    n_rows = LONG_ROWS_MAX if width is None else BATCH_BYTES_MAX // max(width, 1)
    return max(1, min(limit, n_rows) if limit > 0 else n_rows)


def has_bytes(type_: pa.DataType) -> bool:
    """Whether a type is binary, or has binary fields or elements."""
    if pa.types.is_nested(type_):
        return any(has_bytes(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_))


def run_over_batches(
    df: Any, schema: pa.Schema, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], result: str
) -> list[Any]:
    """Run a function over the batches of each partition, as DataFrame.mapInArrow does; return its rows.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Columns with different names.
    schema : pyarrow.Schema
        Their types.
    work : callable
        Self-contained, so that executors need pyarrow and not this package.
    result : str
        The schema of its rows, as mapInArrow takes it.
    """
    if is_connect(df):
        return list(df.mapInArrow(work, result).collect())
    limit = int(df.sparkSession.conf.get(BATCH_ROWS_CONF))
    found = batch_rdd(df, rows_of_batch(schema, limit))
    if found is not None:
        rdd, message = found
        rows: list[Any] = rdd.mapPartitions(over_messages(work, message)).collect()
        return rows
    width = row_bytes(schema)
    if width is not None and 0 < limit * width <= BATCH_BYTES_MAX:
        # A property of this thread, and of the jobs that it starts.
        df.sparkSession.sparkContext.setLocalProperty(BATCH_BYTES_CONF, str(NO_BYTES_LIMIT))
    return list(df.mapInArrow(work, result).collect())


def batch_rdd(df: Any, n_rows: int | None) -> tuple[Any, bytes] | None:
    """The RDD of a DataFrame's batches of up to `n_rows` as Arrow IPC messages, and the message of their schema.

    None: Spark's classes are not those that are expected, or batches need a limit of their bytes. That is so if n_rows
    is None, and if the session has set such a limit.
    """
    if n_rows is None:
        return None
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    session, frame = df.sparkSession, df._jdf
    try:
        if session._jsparkSession.conf().contains(BATCH_BYTES_CONF):
            return None
        zone = session.conf.get("spark.sql.session.timeZone")
        # Texts have offsets of 32 bits, here and below.
        layout = session._jvm.org.apache.spark.sql.util.ArrowUtils.toArrowSchema(frame.schema(), zone, False)
        message = bytes(layout.serializeAsMessage())
        batches = frame.toArrowBatchRdd(n_rows, zone, True, False)
    except Py4JJavaError:
        raise  # of the query: making the RDD runs some of its jobs, such as those of broadcasts
    except (Py4JError, TypeError, AttributeError):
        return None
    return RDD(batches.toJavaRDD(), session.sparkContext, NoOpSerializer()), message


def over_messages(
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: bytes
) -> Callable[[Iterator[bytes]], Iterator[Any]]:
    """Return the function over the messages of a partition that gives the rows of `work` as tuples."""

    def run(messages: Iterator[bytes]) -> Iterator[Any]:
        import pyarrow as pa

        layout = pa.ipc.read_schema(pa.py_buffer(schema))

        def batches() -> Iterator[pa.RecordBatch]:
            for message in messages:
                batch = pa.ipc.read_record_batch(pa.py_buffer(message), layout)
                batch.validate()  # the sizes of buffers, which tell whether Spark has another layout
                yield batch

        for batch in work(batches()):
            yield from zip(*(column.to_pylist() for column in batch.columns))  # noqa: B905 - Python of executors

    return run
