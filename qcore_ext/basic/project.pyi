from collections.abc import Callable

from qcore_ext.basic.program_operator import ProgramOperator
from qcore_ext.compute.program import Program
from qcore_ext.data.schema import Schema
from qcore_ext.ground.memory import Account

class Project(ProgramOperator):
    def __init__(self, node_id: str, query_memory: Account, compile: Callable[[Schema], Program]) -> None: ...
