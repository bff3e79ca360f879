"""Random operators between those of a lowered plan, and checks of the calls that all operators got."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import qcore
from driver_fuzz.scenario import Scenario
from driver_fuzz.user_operators import Injected
from qcore.lowering.lowered import LoweredPlan, Run
from qcore.lowering.pipelines import Lowering
from qcore_testing.random_operator import Bell, RandomOperator


@dataclass
class Disturbance:
    """The state that the random operators of one run share."""

    scenario: Scenario
    injected: Injected
    bell: Bell = field(default_factory=Bell)
    log: list[Any] = field(default_factory=list)
    task: qcore.Task | None = None
    on_cancel: threading.Event = field(default_factory=threading.Event)
    lowerings: Iterator[int] = field(default_factory=itertools.count)

    def at_step(self, is_chosen: bool) -> dict[int, Any]:
        """The behaviour of one random operator."""
        if not is_chosen:
            return {}
        fault = self.scenario.fault
        if fault == "error":
            return {self.scenario.step: self.injected}
        if fault == "early finish":
            return {self.scenario.step: None}
        if fault == "cancel":
            return {self.scenario.step: self.cancel}
        return {}

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.on_cancel.set()

    def insert_operators(self, lowered: LoweredPlan) -> None:
        """Put random operators between the engine's; each round of a recursion is lowered by itself."""
        lowering = next(self.lowerings)
        rng = random.Random(f"{self.scenario.seed}, {lowering}")
        addresses = [
            (number, position)
            for number, pipeline in enumerate(lowered.pipelines)
            for position in range(1, len(pipeline.steps))
        ]
        chosen = [address for address in addresses if rng.random() < self.scenario.share]
        if self.scenario.fault in ("error", "early finish", "cancel") and not chosen:
            chosen = [rng.choice(addresses)]
        faulty = rng.choice(chosen) if chosen else None
        for number, position in sorted(chosen, reverse=True):
            pipeline = lowered.pipelines[number]
            faulty_driver = rng.randrange(pipeline.drivers) if (number, position) == faulty else -1
            seed = rng.getrandbits(32)

            def make(driver: int, run: Run, at: Any = (number, position, faulty_driver, seed)) -> RandomOperator:
                number, position, faulty_driver, seed = at
                return RandomOperator(
                    (lowering, number, driver, position),
                    run.memory,
                    random.Random(seed + driver),
                    self.bell,
                    self.log,
                    self.at_step(driver == faulty_driver),
                )

            pipeline.steps.insert(position, make)
            pipeline.node_ids.insert(position, "random")


def lowering_with(disturbance: Disturbance) -> type[Lowering]:
    """Lowers plans, and puts random operators into the lowered plans."""

    class RandomLowering(Lowering):
        def finish(self, root: Any) -> LoweredPlan:
            lowered = super().finish(root)
            disturbance.insert_operators(lowered)
            return lowered

    return RandomLowering


@contextlib.contextmanager
def ringing(bell: Bell, rng: random.Random) -> Iterator[None]:
    """While the body runs, another thread rings the bell."""
    stopped = threading.Event()

    def ring() -> None:
        while not stopped.wait(rng.random() * 0.001):
            bell.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def check_log(log: list[Any]) -> None:
    """Fail unless calls came in order, and each operator was closed once, the root of a driver first."""
    known = {"open", "finish", "abandon", "close"}
    assert not [entry for entry in log if entry[1] not in known], log
    counts = Counter(log)
    assert not counts or max(counts.values()) == 1, counts.most_common(3)
    addresses = {address for address, _ in log}
    assert {address for address, call in log if call == "close"} == addresses
    closes = [address for address, call in log if call == "close"]
    for chain in {address[:-1] for address in addresses}:
        positions = [address[-1] for address in closes if address[:-1] == chain]
        assert positions == sorted(positions, reverse=True), (chain, positions)
