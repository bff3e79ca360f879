"""Every function can be stopped in the middle of long texts and lists (SPEC V7). Processor time is measured."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from function_arguments import ARGUMENTS, ELEMENTS, LETTERS, N_ROWS, TABLE, calls_of

from qcore import Cancelled, MemoryLimitError, PlanBuilder, QcoreError, Session, Task, Timeout
from qcore.expression.tree import Expr
from qcore.functions.catalogue import scalar_functions
from qcore_ext.ground.fault import Faults
from sweeps import every

pytestmark = pytest.mark.timeout(300)

# The longest processor time between two looks. The best of RUNS_MAX runs counts, because the machine may be busy.
SECONDS_MAX = 0.2
RUNS_MAX = 3
# A run ends after this time. All rows are alike, so that the rest of a run shows nothing new.
RUN_SECONDS_MAX = 2.0
# Functions that take longer, with the time and the reason. There are none.
LONGER: dict[str, tuple[float, str]] = {}
# Functions that are not called, with the reason. There are none.
NOT_CALLED: dict[str, str] = {}


# Two equal batches, because there may be no look after the last one.
TWICE = pa.Table.from_batches(TABLE.combine_chunks().to_batches() * 2)


def seconds_to_stop(plan: Any) -> float:
    """The longest processor time between two looks.

    Objects of other tests are frozen: a garbage collection between two looks would walk them. Beside 1.5 million
    objects it took 0.16 of the 0.18 seconds of a call of list_count_distinct.
    """
    gc.freeze()
    try:
        with Faults() as faults, contextlib.suppress(Timeout):
            for _ in Task(plan, drivers=1).batches(timeout=RUN_SECONDS_MAX):
                pass
    finally:
        gc.unfreeze()
    return faults.longest_look_seconds


def best_seconds_to_stop(expr: Expr, most: float) -> float:
    """The same for a projection of TWICE. The best of several runs, which end when one is below `most`."""
    plan = PlanBuilder().values(TWICE).project({"x": expr}).build()
    seconds = seconds_to_stop(plan)
    for _ in range(RUNS_MAX - 1):
        if seconds <= most:
            break
        seconds = min(seconds, seconds_to_stop(plan))
    return seconds


@pytest.mark.parametrize("name", every(40, sorted(set(scalar_functions()) - set(NOT_CALLED))))
def test_v7_functions_look_often(name: str) -> None:
    """V7: each function of docs/FUNCTIONS.md runs, and never longer than SECONDS_MAX between two looks."""
    most = LONGER[name][0] if name in LONGER else SECONDS_MAX
    given, tried = calls_of(name)
    n_run = 0
    for i, expr in enumerate([*given, *tried]):
        try:
            seconds = best_seconds_to_stop(expr, most)
        except QcoreError:
            # Some functions do not take all values of a type.
            if i < len(given):
                raise
            continue
        n_run += 1
        assert seconds <= most, expr
    assert n_run > 0, f"no call of {name} succeeds: add its arguments to tests/function_arguments.py"


def test_listed_names_are_functions() -> None:
    assert {*ARGUMENTS, *LONGER, *NOT_CALLED} <= set(scalar_functions())


# --- texts of megabytes ---

# 200 rows of 2 MB each. Rows share their texts, since only what kernels read counts. Few are not ASCII, since upper()
# and lower() read those in Python.
HUGE_TEXTS = ["ab" * 1_000_000 + "needle", " " * 2_000_000 + "x", "ab" * 1_000_000 + "é", "x" * 2_000_000]
N_HUGE = 200
HUGE_ROWS = pa.array([2 if row % 40 == 2 else (0, 1, 3)[row % 3] for row in range(N_HUGE)], pa.int32())
HUGE = pa.table(
    {
        "s": pa.DictionaryArray.from_arrays(HUGE_ROWS, HUGE_TEXTS),
        # Equal texts at other addresses.
        "same": pa.DictionaryArray.from_arrays(HUGE_ROWS, list(HUGE_TEXTS)),
        "part": ["needle", "%a%b%q", "é", "x"] * (N_HUGE // 4),
    }
)
HUGE_CALLS = (
    "length(s)", "position(part in s)", "s like '%needle%'", "s like '%n__dle'", "s ilike '%NEEDLE%'", "s like part",
    "contains(s, part)", "trim(s)", "ltrim(s)", "left(s, -3)", "right(s, -3)", "substring(s, 1999990, 4)",
    "substring(s, -5, 4)", "replace(s, 'absent', '')", "split_part(s, 'b', -1)", "lpad(s, 10)", "s = same",
    "s is distinct from same", "s < same", "lower(s)", "upper(s)", "reverse(s)",
    "s || part", "concat_ws(part, s, 'x')", "nullif(s, same)", "greatest(s, same)",
)  # fmt: skip
HUGE_QUERIES = [f"select count({expression}) from t" for expression in HUGE_CALLS]


@pytest.mark.parametrize(
    "sql", every(4, [*HUGE_QUERIES, "select count(*) from t where length(s) > 9 and s not like '%nee%le'"])
)
def test_v7_kernels_look_by_bytes_of_text(sql: str) -> None:
    """V7: a vector of long texts takes long, so looks depend on bytes."""
    seconds = []
    while len(seconds) < RUNS_MAX and (not seconds or min(seconds) > SECONDS_MAX):
        with Faults() as faults:
            Session(threads=1).sql(sql, {"t": HUGE}).to_arrow()
        # A look after 4 MB: three texts.
        assert faults.passes["stop"] >= N_HUGE // 3
        seconds.append(faults.longest_look_seconds)
    assert min(seconds) <= SECONDS_MAX


MANY = pa.table({"s": TABLE["text"].take(pa.array(np.arange(6000) % N_ROWS)), "i": list(range(6000))})
LISTS = pa.table({"l": TABLE["numbers"], "i": list(range(N_ROWS))})
# The work in milliseconds, by the time for a pair of characters or an element, and the looks expected in it.
LONG_CALLS = {
    "levenshtein": ("select max(levenshtein(s, reverse(s) || i)) from t", 6000 // 64),
    "damerau": ("select max(damerau_levenshtein(s, reverse(s) || i)) from t", 6000 // 64),
    "jaro": ("select max(jaro_winkler_similarity(s, reverse(s) || i)) from t", 6000 // 64),
    "hamming": ("select max(hamming(s, reverse(s))) from t", N_ROWS // 64),
    "transform": ("select max(len(list_transform(l, v -> v * 2 + i))) from l", N_ROWS * ELEMENTS // 2048),
    "filter": ("select max(len(list_filter(l, v -> v % 7 = i))) from l", N_ROWS * ELEMENTS // 2048),
    "reduce": ("select max(list_reduce(l, (a, v) -> a + v)) from l", ELEMENTS),
    "replace by pattern": ("select max(regexp_replace(s, '(x.*y.*z.*)+$', i::text)) from t", 10),
    "extract all": ("select max(len(regexp_extract_all(s, '[xyz]'))) from t", 10),
    "distinct": ("select max(len(list_distinct(l))) from l", N_ROWS),
    "sort": ("select max(len(list_sort(l))) from l", N_ROWS),
    "has any": ("select max(list_has_any(l, list_transform(l, v -> -v))::int) from l", N_ROWS),
    "statistics": ("select max(list_entropy(l)) from l", N_ROWS),
    "repeat": ("select max(length(repeat(s, 2000))) from t where i < 2000", 2000 * 2000 * LETTERS // (4 << 20)),
    "replace": ("select max(length(replace(s, 'x', s || s))) from t where i < 2000", 2000 * 20_000 // (4 << 20)),
    "range": ("select max(len(range(20000 + i))) from (select i from t limit 100) t", 100),
}


@pytest.mark.parametrize("name", every(8, LONG_CALLS))
def test_v7_long_calls_of_functions_stop(name: str) -> None:
    """V7: the number of looks grows with the work. The query can end at each of them, and leaves nothing."""
    sql, least = LONG_CALLS[name]
    with Faults() as faults:
        whole = Session(threads=1).sql(sql, {"t": MANY, "l": LISTS}).to_arrow()
    looks = faults.passes["stop"]
    assert whole.num_rows == 1
    assert looks >= least
    for nth in (1, looks // 3, looks // 2):
        with Faults("stop", nth) as faults, pytest.raises(Cancelled):
            Session(threads=1).sql(sql, {"t": MANY, "l": LISTS}).to_arrow()
        assert faults.fired


def test_v7_one_long_value_is_looked_into() -> None:
    """V7: a single list or pair of texts can take long."""
    table = pa.table({"s": ["ab" * 4000], "l": [list(range(300_000))]})
    for sql in (
        "select levenshtein(s, reverse(s)) from t",
        "select list_distinct(l) from t",
        "select list_position(l, -1) from t",
        "select list_reduce(l[1:2000], (a, v) -> a + v) from t",
    ):
        with Faults() as faults:
            Session(threads=1).sql(sql, {"t": table}).to_arrow()
        assert faults.passes["stop"] > 16, sql


@pytest.mark.parametrize(
    "sql", ["select len(range(i)) from t", "select repeat('x', i) from t", "select len(list_resize([1], i)) from t"]
)
def test_functions_with_large_results_respect_the_memory_limit(sql: str) -> None:
    """The error is raised before the memory is allocated."""
    table = pa.table({"i": [10**7, 10**7 + 1]})
    with pytest.raises(MemoryLimitError):
        Session(threads=1, memory_limit=10_000_000).sql(sql, {"t": table}).to_arrow()


LONG_CONSTANTS = (
    "select levenshtein(repeat('ab', 200000), repeat('ba', 200000)) as d",
    "select i from t where levenshtein(repeat('ab', 200000), repeat('ba', 200000)) > i",
    "select levenshtein(repeat('ab', 200000), repeat('ba', 200000)) + i as k, count(*) from t group by k",
    "select i from t order by levenshtein(repeat('ab', 200000), repeat('ba', 200000)) + i",
    "select t.i from t join t as u on t.i = u.i + levenshtein(repeat('ab', 200000), repeat('ba', 200000))",
)


@pytest.mark.parametrize("sql", every(3, LONG_CONSTANTS))
def test_v7_a_constant_that_takes_long_is_given_up(sql: str) -> None:
    """V7: a driver computes it while it binds its operators, and the query can be cancelled meanwhile."""
    began = time.process_time()
    result = Session(threads=1).sql(sql, {"t": pa.table({"i": [1, 2]})})
    task = result.task
    task.start()
    time.sleep(0.5)
    task.cancel()
    with pytest.raises(Cancelled):
        task.wait(60)
    assert time.process_time() - began < 20  # of some minutes


@pytest.mark.parametrize("sql", every(3, LONG_CONSTANTS))
def test_v7_a_constant_that_takes_long_heeds_the_timeout(sql: str) -> None:
    began = time.process_time()
    with pytest.raises(Timeout):
        Session(threads=1, timeout=0.5).sql(sql, {"t": pa.table({"i": [1, 2]})}).to_arrow()
    assert time.process_time() - began < 20


def test_what_a_lambda_computes_counts_as_the_query_s() -> None:
    table = pa.table({"l": [list(range(2_000_000))]})
    with pytest.raises(MemoryLimitError):
        Session(threads=1, memory_limit=4_000_000).sql(
            "select len(list_transform(l, v -> v * 2)) from t", {"t": table}
        ).to_arrow()
