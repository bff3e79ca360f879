"""The command line program `qcore`."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from qcore.config import VERSION, bytes_of
from qcore.errors import QcoreError, SettingError

if TYPE_CHECKING:
    import pyarrow as pa

# Modules that import pyarrow are imported when a query is run, so that --help and usage errors are fast.

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
# Rows of a result shown on a terminal.
TERMINAL_ROWS = 40

#: The values of --format: a table for people, and the keys of output.WRITERS.
FORMATS = ("table", "csv", "json", "arrow", "parquet")
BINARY_FORMATS = ("arrow", "parquet")
FORMAT_OF_SUFFIX = {
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".parquet": "parquet",
}


def command() -> int:
    """Run the command as the main program of a process and return its exit status."""
    status = main()
    # The interpreter's last collections would visit the objects of all modules for 60 to 90 ms.
    gc.freeze()
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 after an error, 2 for bad usage, 130 after an interrupt."""
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
        if options.command is None:
            parser.print_help(sys.stderr)
            return EXIT_USAGE
        tables = parse_tables(parser, options.table)
        check_output(parser, options)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        run_sql(options, tables)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone. Otherwise the interpreter would flush standard output at exit and report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return fail("interrupted", EXIT_INTERRUPTED)
    except QcoreError as error:
        if options.debug:
            raise
        return fail(str(error))
    except OSError as error:
        if options.debug:
            raise
        return fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except Exception as error:
        if options.debug:
            raise
        return fail(f"{type(error).__name__}: {error} (--debug shows the traceback)")
    return EXIT_OK


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="qcore", description="Run SQL over Parquet, CSV, ORC and Arrow files.")
    parser.add_argument("--version", action="version", version=f"qcore {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    sql = commands.add_parser(
        "sql",
        help="run one query and print or write its result",
        description="Run one query and print or write its result.",
        epilog="example: qcore sql 'select count(*) from t' --table t=trips.parquet",
    )
    sql.add_argument("text", help="the query, or - to read it from standard input")
    sql.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="name a file, folder or glob as a table; may be given several times",
    )
    sql.add_argument(
        "--threads", type=positive, metavar="N", help="number of worker threads (default: one for each processor)"
    )
    sql.add_argument(
        "--memory-limit",
        type=size,
        metavar="SIZE",
        help="memory that the query may use, such as 512MB or 1.5GiB (default: no limit)",
    )
    sql.add_argument(
        "--format", choices=FORMATS, help="output format (default: by the suffix of the output file, else table)"
    )
    sql.add_argument("--output", metavar="FILE", help="write the result to FILE (default: standard output)")
    plan = sql.add_mutually_exclusive_group()
    plan.add_argument("--explain", action="store_true", help="print the plan without running the query")
    plan.add_argument(
        "--analyze", action="store_true", help="run the query and print the plan with the rows and times of each node"
    )
    sql.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def positive(text: str) -> int:
    """Parse an argument that is a whole number above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def size(text: str) -> int | None:
    """Parse an argument that is a number of bytes, with or without a unit."""
    try:
        return bytes_of(text, "the limit")
    except SettingError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_tables(parser: argparse.ArgumentParser, definitions: Sequence[str]) -> dict[str, str]:
    """Return paths by table name. Bad usage ends the command."""
    tables: dict[str, str] = {}
    for definition in definitions:
        name, equals, path = definition.partition("=")
        if not (name and equals and path):
            parser.error(f"--table takes NAME=PATH, not {definition!r}")
        if name in tables:
            parser.error(f"--table names {name!r} twice; give several files as a glob or a folder")
        tables[name] = path
    return tables


def check_output(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Choose the format if none was given. Bad usage ends the command."""
    if options.format is None:
        suffix = Path(options.output).suffix.lower() if options.output else ""
        options.format = FORMAT_OF_SUFFIX.get(suffix, "table")
    shows_plan = options.explain or options.analyze
    if options.format in BINARY_FORMATS and not options.output and not shows_plan and sys.stdout.isatty():
        parser.error(f"--format {options.format} is binary: add --output FILE, or redirect standard output")


def fail(message: str, status: int = EXIT_ERROR) -> int:
    """Print an error on standard error and return the exit status."""
    with contextlib.suppress(BrokenPipeError):
        print(f"qcore: {message}", file=sys.stderr, flush=True)
    return status


def run_sql(options: argparse.Namespace, tables: dict[str, str]) -> None:
    """Run the query, or plan it, and write the result or the plan."""
    import qcore
    from qcore.output import WRITERS

    text = sys.stdin.read() if options.text == "-" else options.text
    result = qcore.sql(text, tables=tables, threads=options.threads, memory_limit=options.memory_limit)
    if options.explain or options.analyze:
        plan = result.explain(analyze=True) if options.analyze else result.explain()
        write_to(options.output, lambda sink: write_text(plan, sink))
    elif options.format == "table":
        on_terminal = not options.output and sys.stdout.isatty()
        write_to(options.output, lambda sink: write_table(result, sink, on_terminal))
    else:
        write_to(options.output, lambda sink: WRITERS[options.format](result, result.schema, sink))


def write_to(path: str | None, write: Callable[[IO[bytes]], None]) -> None:
    """Call `write` with a file, or with standard output if `path` is None. The file appears complete or not at all."""
    from qcore.writing.file_sets import StagingFolder, replace_file, resolve_target

    if path is None:
        sys.stdout.flush()
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if is_special(path):
        with open_named(path, path) as sink:
            write(sink)
        return
    target = resolve_target(os.path.abspath(path), "--output")
    staging = StagingFolder(target)
    try:
        partial = staging.file(os.path.basename(target))
        with open_named(partial, path) as sink:
            write(sink)
        replace_file(partial, target)
    finally:
        staging.remove()


def open_named(path: str, name: str) -> IO[bytes]:
    """Open a file for writing. An error calls it `name`, the name that the user gave."""
    try:
        return open(path, "wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None


def is_special(path: str) -> bool:
    """Whether the path, links resolved, is a device, a pipe or a socket such as /dev/stdout: written in place."""
    from qcore.writing.file_sets import status_of

    status = status_of(path)
    return status is not None and not stat.S_ISREG(status.st_mode)


def write_text(text: str, sink: IO[bytes]) -> None:
    """Write text and a line end."""
    sink.write(text.rstrip("\n").encode(errors="replace") + b"\n")


def write_table(result: Any, sink: IO[bytes], on_terminal: bool) -> None:
    """Write the result as an aligned table; on a terminal only its first rows, cut to the terminal's width."""
    import pyarrow as pa

    from qcore.text_table import render

    rows_max = TERMINAL_ROWS if on_terminal else None
    kept, n_rows = first_rows(result, rows_max)
    table = pa.Table.from_batches(kept, schema=result.schema)
    width = shutil.get_terminal_size().columns if on_terminal else None
    unicode = not on_terminal or "utf" in (sys.stdout.encoding or "").lower()
    note = f"{n_rows:,} row{'' if n_rows == 1 else 's'}"
    if table.num_rows < n_rows:
        note += f", first {table.num_rows} shown; --output FILE writes all"
    write_text(f"{render(table, width, unicode)}\n({note})", sink)


def first_rows(batches: Iterator[pa.RecordBatch], rows_max: int | None) -> tuple[list[pa.RecordBatch], int]:
    """Return the first `rows_max` rows, and the number of all rows."""
    kept, n_rows = [], 0
    for batch in batches:
        wanted = batch.num_rows if rows_max is None else rows_max - n_rows
        if wanted > 0 and batch.num_rows:
            kept.append(batch.slice(0, wanted))
        n_rows += batch.num_rows
    return kept, n_rows
