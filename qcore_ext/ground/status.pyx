"""Exceptions of the engine, and how code without the GIL raises them."""

from qcore_ext.ground.lock cimport locks_not_held


class QcoreError(Exception):
    """Base of every error qcore raises on purpose."""


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
    """A failure of which nothing could be said when it came: making its error raised in its turn, or memory was short.

    Made before anything runs, so that recording a failure takes neither memory nor anything of a user's (SPEC D9).
    """

    def __init__(self):
        super().__init__("an operator failed, and making the error that says how raised in its turn")

    def __str__(self):
        text = super().__str__()
        return text if self.operator is None else f"{self.operator} (node {self.node_id}): {text}"


class SchemaChangeError(ExecutionError):
    """A schema change in mid-stream that an operator cannot carry; names operator, column and both types (SPEC D6)."""


class SchemaConflictError(SchemaChangeError, PlanError):
    """The parts of one source have schemas that do not go together; found before anything runs."""


class MemoryLimitError(ExecutionError):
    """A reservation went past a memory limit, or the machine has no memory left.

    Attributes
    ----------
    is_shared : bool
        Whether the limit was that of all queries of a session.
    """

    is_shared = False


class Cancelled(QcoreError):
    """The query was cancelled."""


class Timeout(QcoreError):
    """The query ran longer than its timeout, or a wait did."""


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
