"""Exceptions of the engine, and how code without the GIL raises them."""

from qcore_ext.ground.lock cimport locks_not_held


class QcoreError(Exception):
    """Base class of every error that qcore raises on purpose."""


class PlanError(QcoreError):
    """The plan, the SQL text, an expression or a source cannot be run as given. Raised before any row is computed."""


class ExecutionError(QcoreError):
    """A running operator failed.

    Attributes
    ----------
    operator : str or None
        The operator's name.
    node_id : str or None
        Id of the plan node the operator belongs to.
    """

    def __init__(self, message, operator=None, node_id=None):
        super().__init__(message)
        self.operator = operator
        self.node_id = node_id


class UntoldError(ExecutionError):
    """A failure that could not be described: making its error raised another one, or memory was short.

    It is made before anything runs, so recording a failure needs no memory and calls no code of a user.
    """

    def __init__(self):
        super().__init__("an operator failed, and describing its error failed too")

    def __str__(self):
        text = super().__str__()
        return text if self.operator is None else f"{self.operator} (node {self.node_id}): {text}"


class SchemaChangeError(ExecutionError):
    """A schema change during a query that an operator cannot carry. Names operator, column and both types."""


class SchemaConflictError(SchemaChangeError, PlanError):
    """The parts of one source have schemas that do not widen into one. Raised before anything runs."""


class MemoryLimitError(ExecutionError):
    """A reservation exceeds a memory limit, or the machine has no memory left.

    Attributes
    ----------
    is_shared : bool
        Whether the limit is that of all queries of a session.
    """

    is_shared = False


class Cancelled(QcoreError):
    """The query was cancelled."""


class Timeout(QcoreError):
    """The query ran longer than its timeout, or a wait lasted longer than its own."""


cdef int raise_execution(const char* message) except -1 nogil:
    locks_not_held()
    with gil:
        raise ExecutionError(message.decode("utf-8", "replace"))


cdef int raise_plan(const char* message) except -1 nogil:
    locks_not_held()
    with gil:
        raise PlanError(message.decode("utf-8", "replace"))


cdef int raise_memory_limit(const char* message) except -1 nogil:
    locks_not_held()
    with gil:
        raise MemoryLimitError(message.decode("utf-8", "replace"))


cdef int raise_schema_change(const char* message) except -1 nogil:
    locks_not_held()
    with gil:
        raise SchemaChangeError(message.decode("utf-8", "replace"))
