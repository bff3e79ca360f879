"""Hash joins, one thread, build and probe apart: python bench/kernels/join.py [probe rows].

Nanoseconds a row, GB of probe rows a second, and the share of random access: the time of one random line of a table as
large as the build rows, in the same run, to the time of a probe row.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from memory_speed import limits_text, line_nanos
from qcore_ext.ground.memory import Account
from qcore_ext.join.bridge import JoinBridge
from qcore_ext.join.hash_join_build import HashBuild
from qcore_ext.join.hash_join_probe import HashProbe
from qcore_testing.operators import run_chain

REPEATS = 5
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Case:
    """One join; keys are the columns that both sides have."""

    name: str
    probe: pa.Table
    build: pa.Table
    kind: str = "inner"


def cases(n: int) -> list[Case]:
    """Dense, sparse, repeated, composite and text keys, and what TPC-H Q3 does."""
    rng = np.random.default_rng(1)
    made = []
    for n_keys in (1_000, 100_000, 1_000_000):
        for name, keys in (("dense", np.arange(n_keys)), ("sparse", rng.integers(-(2**62), 2**62, n_keys))):
            build = pa.table({"k": keys, "v": rng.integers(0, 100, n_keys)})
            probe = pa.table({"k": rng.choice(keys, n), "x": rng.random(n)})
            made.append(Case(f"{n_keys} {name} keys", probe, build))
    repeated = np.repeat(rng.integers(-(2**62), 2**62, 100_000), 4)
    made.append(
        Case(
            "100000 keys, 4 rows each",
            pa.table({"k": rng.choice(repeated, n // 4)}),
            pa.table({"k": rng.permutation(repeated), "v": repeated}),
        )
    )
    # TPC-H Q3: the orders that pass two filters, with keys up to six million, joined with lineitem in key order.
    orders = pa.table({"k": np.sort(rng.choice(6_000_000, 147_000, replace=False)), "v": np.zeros(147_000, np.int32)})
    lineitem = pa.table({"k": np.sort(rng.integers(0, 6_000_000, n)), "x": rng.random(n)})
    made += [Case("Q3", lineitem, orders), Case("Q3 as a semi-join", lineitem, orders, "left_semi")]
    drawn = rng.integers(0, 100_000, n // 4)
    ids = np.arange(100_000)
    made.append(
        Case(
            "100000 pairs of int64",
            pa.table({"k": drawn, "l": drawn * 7 % 1000}),
            pa.table({"k": ids, "l": ids * 7 % 1000, "v": ids}),
        )
    )
    for name, width in (("8-byte", 8), ("16-byte", 16)):
        texts = pa.array([str(i).zfill(width) for i in ids.tolist()])
        made.append(
            Case(
                f"100000 {name} strings", pa.table({"k": texts.take(pa.array(drawn))}), pa.table({"k": texts, "v": ids})
            )
        )
    return made


def run(case: Case) -> tuple[float, float, int]:
    """CPU seconds of build and probe, and rows given."""
    memory = Account()
    keys = [name for name in case.probe.column_names if name in case.build.column_names]
    bridge = JoinBridge(case.kind, 1, 1)
    build = HashBuild("build", memory, bridge, keys, case.build.column_names)
    run_chain([build], case.build.to_batches(max_chunksize=BATCH_ROWS))
    output = [("probe", name, name) for name in case.probe.column_names]
    if case.kind == "inner":
        output.append(("build", "v", "v"))
    probe = HashProbe("probe", memory, bridge, keys, output)
    # Counts rows and drops them, so that buffers are reused as in a query.
    sink = HashBuild("sink", memory, JoinBridge("inner", 1, 1), [], [])
    run_chain([probe, sink], case.probe.to_batches(max_chunksize=BATCH_ROWS))
    built, probed = build.stats_snapshot(), probe.stats_snapshot()
    return (
        (built["add_input"]["cpu_nanos"] + built["finish"]["cpu_nanos"]) / 1e9,
        (probed["add_input"]["cpu_nanos"] + probed["get_output"]["cpu_nanos"]) / 1e9,
        probed["output_rows"],
    )


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    print(limits_text())
    head = f"{'join':28} {'build rows':>10} {'ns/row':>7} {'probe rows':>11} {'ns/row':>7} {'output':>10}"
    print(f"{head} {'GB/s':>6} {'random':>7}")
    for case in cases(n):
        runs = [run(case) for _ in range(REPEATS)]
        built, probed = min(r[0] for r in runs), min(r[1] for r in runs)
        n_build, n_probe = case.build.num_rows, case.probe.num_rows
        print(
            f"{case.name:28} {n_build:10} {built * 1e9 / n_build:7.1f} {n_probe:11} {probed * 1e9 / n_probe:7.2f} "
            f"{runs[0][2]:10} {case.probe.nbytes / probed / 1e9:6.2f} "
            f"{line_nanos(case.build.nbytes) * n_probe / probed / 1e9:7.2f}"
        )


if __name__ == "__main__":
    main()
