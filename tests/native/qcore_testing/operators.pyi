from typing import Any

from typing_extensions import disjoint_base

from qcore_ext.data.capsule import Stream
from qcore_ext.data.schema import Schema
from qcore_ext.execution.driver import Driver
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account
from qcore_ext.ground.memory_pool import MemoryPool

@disjoint_base
class BatchSource(Operator):
    def __init__(self, batches: list[Any], memory: Account, schema: Schema | None = None) -> None: ...

@disjoint_base
class Collector(Operator):
    def __init__(self, memory: Account) -> None: ...
    def take(self) -> Any: ...

@disjoint_base
class FakeOperator(Operator):
    def __init__(
        self,
        name: str,
        script: list[Any] | None = None,
        source: bool = False,
        log: Any = None,
        fail: dict[str, BaseException] | None = None,
        accepts: list[bool] | None = None,
        needs_input: bool = True,
        relay: bool = False,
        rows: int = 1,
        rest: list[Any] | None = None,
        endless: Any = None,
        breaks: str | None = None,
    ) -> None: ...
    @property
    def log(self) -> Any: ...
    @property
    def polls(self) -> int: ...
    @property
    def finish_called(self) -> bool: ...
    @property
    def is_waiting(self) -> bool: ...
    def wake(self) -> None: ...

@disjoint_base
class Relay(Operator):
    def __init__(self, memory: Account, is_sink: bool = False) -> None: ...

@disjoint_base
class Repeater(Operator):
    def __init__(self, batch: Any, n_times: int, memory: Account) -> None: ...

@disjoint_base
class Nap:
    def __init__(self, memory: MemoryPool) -> None: ...
    def sleep(self) -> None: ...
    @property
    def asleep(self) -> bool: ...
    def fire(self) -> int: ...

@disjoint_base
class Resource:
    def fire_until(self, stopped: list[Any]) -> None: ...

@disjoint_base
class Sleeper(Operator):
    def __init__(self, resource: Resource, n_waits: int) -> None: ...
    @property
    def n_left(self) -> int: ...

@disjoint_base
class LongCall(Operator):
    def __init__(self, memory: Account) -> None: ...
    @property
    def n_calls(self) -> int: ...
    @property
    def is_inside(self) -> bool: ...
    def end(self) -> None: ...

def import_batches(source: Any) -> list[Any]: ...
def read_stream(stream: Stream, account: Account) -> list[Any]: ...
def poll(driver: Driver, at: int) -> int: ...
def run_driver(driver: Driver) -> int: ...
def run_chain(
    operators: list[Operator],
    batches: Any = None,
    schema: Any = None,
    timeout: float = 60.0,
    slice_ms: float = 10.0,
) -> list[Any]: ...
