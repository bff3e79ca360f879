from typing import TypeAlias

from typing_extensions import disjoint_base

from qcore_ext.data.schema import Schema
from qcore_ext.flow.operator import Operator
from qcore_ext.ground.memory import Account

KINDS: dict[str, int]
MODES: dict[str, int]
EXCLUSIONS: dict[str, int]

# A bound of a frame: None if it is unbounded, a number, the months, days and nanoseconds of an interval, or a column
# and the sign of its values.
_Bound: TypeAlias = int | float | tuple[int, int, int] | tuple[str, int] | None
# The order of a holistic aggregate's values, and its constant.
_Holistic: TypeAlias = tuple[tuple[tuple[bool, bool], ...], str | float | None]

@disjoint_base
class Window(Operator):
    def __init__(
        self,
        node_id: str,
        query_memory: Account,
        partition_keys: list[str],
        order: list[tuple[str, bool, bool]],
        calls: list[
            tuple[
                str,
                str | None,
                int | str,
                tuple[str, _Bound, _Bound, str],
                tuple[bool, bool],
                tuple[tuple[str, ...], str | None, _Holistic | None],
            ]
        ],
        schema: Schema,
    ) -> None: ...
