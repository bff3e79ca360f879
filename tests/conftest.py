"""Fixtures of all tests: checks for leaks after each test, the oracle, TPC-H data."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qcore_ext
from processes import pytest_runtest_protocol, pytest_xdist_make_scheduler  # noqa: F401  hooks
from qcore_ext.ground.dispatch import use_level
from qcore_ext.ground.lock import lock_misuses

if TYPE_CHECKING:
    import duckdb

    import qcore

# Operators run in checked mode (docs/ARCHITECTURE.md), unless the environment sets 0.
os.environ.setdefault("QCORE_DEBUG", "1")
ROOT = Path(__file__).resolve().parents[1]
TESTED = Path(qcore_ext.__path__[0]).resolve().parent
# Operators for tests (qcore_testing): built beside their sources in place, installed beside the wheel by `make test`.
NATIVE = [str(ROOT / "tests" / "native")] if TESTED == ROOT else []
sys.path[:0] = NATIVE
# Processes that tests start import the qcore under test, not a checkout they happen to run in.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTED), *NATIVE, os.environ.get("PYTHONPATH")]))
os.environ["PYTHONSAFEPATH"] = "1"

# Of combinations whose values all occurred before, one in so many runs in `make test-all`, the others in `.ci/nightly`.
NIGHTLY_SHARE = 3

# The seconds that the last worker may take to drop its objects after the end of a query.
SETTLE_SECONDS = 20.0


def spark_obstacle() -> str | None:
    """The reason why tests of Spark cannot run here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is missing: pip install 'qcore[spark]'"
    if shutil.which("java") is None:
        return "Java is missing: apt-get install openjdk-17-jre-headless"
    return None


@pytest.fixture(params=[2, 3, 4])
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    """Each x86-64 level that the processor supports. Its kernels are used in one test."""
    if not use_level(request.param):
        pytest.skip(f"this processor does not support x86-64-v{request.param}")
    yield request.param
    assert any(use_level(best) for best in (4, 3, 2))


def pytest_report_header() -> str:
    """The first lines of a run: the folder of the tested qcore, and whether Spark runs."""
    if os.environ.get("QCORE_TEST_INSTALLED") == "1" and TESTED == ROOT:
        raise pytest.UsageError(f"the checkout {TESTED} would be tested, not the installed wheel")
    return f"qcore: {TESTED}; Spark: {spark_obstacle() or 'yes'}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark sweeps; mark tests of Spark by their path, and skip them where Spark cannot run."""
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.sweep)
    mark_sweeps(items)
    obstacle = spark_obstacle()
    for item in items:
        if "spark" in item.path.relative_to(ROOT).as_posix():
            item.add_marker(pytest.mark.spark)
            if obstacle:
                item.add_marker(pytest.mark.skip(reason=obstacle))


def mark_sweeps(items: list[pytest.Item]) -> None:
    """Mark combinations of a test marked `each_value` as `sweep` once all values in them occurred in earlier ones, and
    most of these as `nightly`.

    The order is the same in every run, and random, so that values which occur again meet different partners.
    """
    met: dict[tuple[object, str], set[tuple[str, int]]] = {}
    n_sweeps: Counter[tuple[object, str]] = Counter()
    marked = [
        item
        for item in items
        if item.get_closest_marker("each_value") and not item.get_closest_marker("sweep") and hasattr(item, "callspec")
    ]
    for item in sorted(marked, key=lambda item: zlib.crc32(item.nodeid.encode())):
        test = (item.parent, item.originalname)  # type: ignore[attr-defined]
        seen = met.setdefault(test, set())
        # Combinations share the objects of a parameter's values.
        values = {(name, id(value)) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
        if values <= seen:
            item.add_marker(pytest.mark.sweep)
            if n_sweeps[test] % NIGHTLY_SHARE:
                item.add_marker(pytest.mark.nightly)
            n_sweeps[test] += 1
        seen |= values


def pytest_collection_finish() -> None:
    """Collected tests and imported modules live until the end: collections of garbage need not visit them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def held_by_engine() -> dict[str, int]:
    """The live counters that are not zero. All are zero when no query runs and no result is held."""
    from qcore_ext.ground.memory import live_counts

    counts = live_counts()
    return {name: counts[name] for name in ("structs", "buffers", "reserved_bytes") if counts[name]}


@functools.cache
def plan_caches() -> weakref.WeakSet[Any]:
    """All plan caches there are, and those that sessions will make: to look for them among all objects takes long."""
    from qcore.session.plan_cache import PlanCache

    caches = weakref.WeakSet(held for held in gc.get_objects() if isinstance(held, PlanCache))
    initialize = PlanCache.__init__

    def note(self: PlanCache, *args: Any, **kwargs: Any) -> None:
        initialize(self, *args, **kwargs)
        caches.add(self)

    PlanCache.__init__ = note  # type: ignore[method-assign]
    return caches


def drop_kept_plans() -> None:
    """Empty the plan caches of sessions that live on, such as those of a module: lowered plans hold the engine's
    schemas and programs.
    """
    if "qcore.session.plan_cache" in sys.modules:
        for cache in list(plan_caches()):
            cache.clear()


def user_threads() -> set[threading.Thread]:
    """Threads that the interpreter would wait for at its end."""
    return {thread for thread in threading.enumerate() if thread.is_alive() and not thread.daemon}


def settles(condition: object) -> bool:
    """Wait until `condition()` is false. Returns False if it is still true after SETTLE_SECONDS."""
    assert callable(condition)
    deadline = time.monotonic() + SETTLE_SECONDS
    pause = 0.0005
    young_only = True  # most tests leave garbage that is young; a whole collection takes 10 ms
    while condition():
        if time.monotonic() > deadline:
            return False
        gc.collect(1 if young_only else 2)
        if not young_only:
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        young_only = False
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note a failure: leaks are then not reported, because the traceback keeps objects alive."""
    outcome = yield
    if outcome.get_result().failed:  # type: ignore[attr-defined]
        item.failed = True  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a live batch, column or buffer, a reserved byte, or a thread (SPEC D8, D9).

    Fail it also if a thread waited for a lock or the GIL while it held a lock.
    """
    threads_before = user_threads()
    misuses_before = lock_misuses()
    yield
    if getattr(request.node, "failed", False):
        return
    assert lock_misuses() == misuses_before, "a lock was held while another, or the GIL, was waited for"
    if held_by_engine():
        drop_kept_plans()
    assert settles(held_by_engine), f"left behind: {held_by_engine()}"
    assert settles(lambda: user_threads() - threads_before), f"threads left: {user_threads() - threads_before}"


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A new DuckDB: the oracle."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        yield connection


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> tuple[qcore.Session, duckdb.DuckDBPyConnection]:
    """The module's TABLES in a session of two threads, and in DuckDB."""
    import duckdb

    import qcore

    session, database = qcore.Session(threads=2), duckdb.connect()
    for name, table in request.module.TABLES.items():
        database.register(name, table)
        session.register(name, table)
    return session, database


@pytest.fixture(scope="session")
def tpch_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H at scale 0.01: a folder with lineitem.parquet and the other seven."""
    folder = tmp_path_factory.mktemp("tpch")
    tool = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if tool is None:
        pytest.fail("tpchgen-cli is missing: pip install 'qcore[dev]'")
    subprocess.run([tool, "parquet", "-s", "0.01", "--output-dir", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The only Spark session of the run. It has two cores. A failing task is tried four times, as on a cluster.

    A process has one Spark context, so a test that made one before would set the options of all later tests.
    """
    from pyspark.sql import SparkSession

    # Workers run this interpreter, which has pyarrow. By default they run the first python3 of the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("qcore tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.session.timeZone", "America/New_York")  # results must not depend on it
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """Sets options of the session for one test: conf(name, value)."""
    before: dict[str, str | None] = {}

    def set_option(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield set_option
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
