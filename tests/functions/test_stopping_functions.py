"""Every function stops in the middle of long texts and lists (SPEC V7): looks are timed by processor time."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from qcore import Cancelled, MemoryLimitError, PlanBuilder, QcoreError, Session, Task, col
from qcore.expression.tree import call
from qcore.expression.types import TypeMismatch
from qcore.functions.catalogue import LIST_LAMBDAS, scalar_functions
from qcore_ext.ground.fault import Faults
from sweeps import every

pytestmark = pytest.mark.timeout(300)

# Processor time of a thread between two looks, at most: of the best of so many runs, for a busy machine is slow.
SECONDS_MAX = 0.2
RUNS_MAX = 3
# Functions that take longer, with how long and why. Empty: none does.
LONGER: dict[str, tuple[float, str]] = {}
N_ROWS = 300
LETTERS, ELEMENTS = 300, 3000


def columns() -> dict[str, pa.Array]:
    """Values of each kind, long where a kind can be: different in every row, so that each is computed."""
    rng = np.random.default_rng(7)
    texts = ["".join(random.Random(row).choices("xyz, ab", k=LETTERS)) for row in range(N_ROWS)]
    lists = rng.integers(0, 1000, (N_ROWS, ELEMENTS))
    offsets = pa.array(np.arange(N_ROWS + 1, dtype=np.int32) * ELEMENTS)
    words = pa.ListArray.from_arrays(offsets, pa.array(lists.ravel().astype(str)))
    keys = pa.array(np.tile(np.arange(ELEMENTS), N_ROWS))
    return {
        "text": pa.array(texts),
        "other": pa.array([text[::-1] for text in texts]),
        "numbers": pa.ListArray.from_arrays(offsets, pa.array(lists.ravel())),
        "words": words,
        "nested": pa.ListArray.from_arrays(pa.array(np.arange(N_ROWS + 1, dtype=np.int32)), words),
        "map": pa.MapArray.from_arrays(offsets, keys, pa.array(lists.ravel())),
        "struct": pa.StructArray.from_arrays([words], names=["a"]),
        "bytes": pa.array([text.encode() for text in texts]),
        "whole": pa.array(rng.integers(1, 60, N_ROWS)),
        "real": pa.array(rng.random(N_ROWS)),
        "flag": pa.array(rng.random(N_ROWS) < 0.5),
        "time": pa.array(rng.integers(0, 10**15, N_ROWS), pa.timestamp("us")),
        "zoned": pa.array(rng.integers(0, 10**15, N_ROWS), pa.timestamp("us", "UTC")),
        "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * N_ROWS),
    }


TABLE = pa.table(columns())
LONG = ("text", "other", "numbers", "words", "nested", "map", "struct", "bytes")
# How many lists of arguments are tried for each function: those with long values first.
LISTS_MAX = 4


def argument_lists(name: str) -> list[tuple[str, ...]]:
    """Columns that the function takes by its signature, as many as are long before those that are not."""
    function = scalar_functions()[name]
    found = []
    most = min(function.arguments_max, max(function.arguments_min, 2), 6)
    for count in range(max(function.arguments_min, 1), most + 1):
        choices = TABLE.schema.names if count <= 3 else ["text", "numbers", "whole", "real"]
        for names in itertools.product(choices, repeat=count):
            try:
                function.signature([TABLE.schema.field(each).type for each in names])
            except (TypeMismatch, QcoreError, AttributeError, TypeError, IndexError):
                continue
            found.append(names)
    found.sort(key=lambda names: (-sum(each in LONG for each in names), names))
    return found[:LISTS_MAX]


def seconds_to_stop(plan: Any) -> float:
    """The longest processor time between two looks. Of two batches alike, for there may be no look behind the last."""
    with Faults() as faults:
        for _ in Task(plan, drivers=1).batches():
            pass
    return faults.longest_look_seconds


SKIPPED = {*LIST_LAMBDAS}
TWICE = pa.Table.from_batches(TABLE.combine_chunks().to_batches() * 2)


@pytest.mark.parametrize("name", every(12, sorted(set(scalar_functions()) - SKIPPED)))
def test_v7_functions_look_often(name: str) -> None:
    most = LONGER[name][0] if name in LONGER else SECONDS_MAX
    for names in argument_lists(name):
        given = PlanBuilder().values(TWICE.select(sorted(set(names))))
        try:
            plan = given.project({"x": call(name, *map(col, names))}).build()
            seconds = seconds_to_stop(plan)
            for _ in range(RUNS_MAX - 1):
                if seconds <= most:
                    break
                seconds = min(seconds, seconds_to_stop(plan))
        except QcoreError:
            continue  # these values are nothing to it: it takes constants, or texts of another form
        assert seconds <= most, names


MANY = pa.table({"s": TABLE["text"].take(pa.array(np.arange(6000) % N_ROWS)), "i": list(range(6000))})
LISTS = pa.table({"l": TABLE["numbers"], "i": list(range(N_ROWS))})
# Milliseconds of work at least, by what a pair of letters or an element takes, and the looks there are to be in it.
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


@pytest.mark.parametrize("name", LONG_CALLS)
def test_v7_long_calls_of_functions_stop(name: str) -> None:
    """V7: looks are as many as the work asks for, and from any of them the query ends with nothing left."""
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
    """V7: a single pair of texts, or a single list, that takes for long."""
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
def test_functions_that_make_much_heed_the_memory_limit(sql: str) -> None:
    """The error comes before the memory is taken."""
    table = pa.table({"i": [10**7, 10**7 + 1]})
    with pytest.raises(MemoryLimitError):
        Session(threads=1, memory_limit=10_000_000).sql(sql, {"t": table}).to_arrow()


def test_v7_a_constant_that_takes_long_is_given_up() -> None:
    """V7: it is computed when a driver binds its operators, and its query can be cancelled meanwhile."""
    result = Session(threads=1).sql("select levenshtein(repeat('ab', 200000), repeat('ba', 200000)) as d")
    task = result.task
    task.start()
    began = time.process_time()
    time.sleep(0.5)
    task.cancel()
    with pytest.raises(Cancelled):
        task.wait(60)
    assert time.process_time() - began < 20  # of some minutes


def test_what_a_lambda_computes_counts_as_the_query_s() -> None:
    table = pa.table({"l": [list(range(2_000_000))]})
    with pytest.raises(MemoryLimitError):
        Session(threads=1, memory_limit=4_000_000).sql(
            "select len(list_transform(l, v -> v * 2)) from t", {"t": table}
        ).to_arrow()
