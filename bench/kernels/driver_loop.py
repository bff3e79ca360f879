"""Nanoseconds that a step of the driver's loop costs, over operators that do nothing: run as a script.

A step is one question to an operator (get_output) and what follows from it: perhaps a batch handed to the next one, and
the timing of each call. Checked mode is off, unless --checked asks for it.
"""

from __future__ import annotations

import argparse
import os
import time

import pyarrow as pa

REPEATS = 7
BATCHES = 300_000


def nanos_a_step(n_operators: int, n_batches: int) -> float:
    """Of one driver with a chain of `n_operators`, least of several runs."""
    from qcore_ext.data.capsule import PyBatch
    from qcore_ext.execution.task import Task
    from qcore_ext.ground.memory import Account
    from qcore_testing.operators import Relay, Repeater

    batch = PyBatch.from_arrow(pa.record_batch({"x": pa.array(range(100))}))
    figures = []
    for _ in range(REPEATS):
        memory = Account()
        relays = [Relay(memory) for _ in range(n_operators - 2)]
        task = Task([[[Repeater(batch, n_batches, memory), *relays, Relay(memory, is_sink=True)]]])
        began = time.thread_time_ns()
        task.run_on_caller()
        took = time.thread_time_ns() - began
        figures.append(took / task.stats()["pipelines"][0]["steps"])
    return min(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--checked", action="store_true")
    options = parser.parse_args()
    os.environ["QCORE_DEBUG"] = "1" if options.checked else "0"
    print(f"checked mode {'on' if options.checked else 'off'}")
    print(f"{'operators':>9} {'ns/step':>8}")
    for n_operators in (2, 3, 5, 10):
        print(f"{n_operators:9} {nanos_a_step(n_operators, options.batches):8.1f}")


if __name__ == "__main__":
    main()
