"""What errors say of failures and of objects that users wrote, whose names and texts may raise. SPEC D9."""

import threading

from qcore_ext.ground.status import ExecutionError, MemoryLimitError, QcoreError

# Reads a class's name past its metaclass.
_name_of = type.__dict__["__name__"].__get__


def class_name(cls):
    """Name of a class; whatever its metaclass says. Raises for want of memory only, as do the others here."""
    return str.__str__(_name_of(cls))


def is_interrupt(error):
    """Whether the error is the user's Ctrl-C, which Python brings to the main thread alone, and not an operator's."""
    return issubclass(type(error), KeyboardInterrupt) and threading.get_ident() == threading.main_thread().ident


def text_of(thing, call=str):
    """str(thing), or what else `call` makes of it; when that raises, what it raised. Ctrl-C is raised."""
    try:
        return str.__str__(call(thing))
    except BaseException as why:
        if is_interrupt(why):
            raise
        method = "__str__" if call is str else "__repr__"
        return f"a {class_name(type(thing))} whose {method} raised {class_name(type(why))}"


def shown(thing):
    """repr(thing), as `text_of` makes it."""
    return text_of(thing, repr) if type(thing) is not str else repr(thing)


cdef bint placed(object error, str where, object operator_name, object node_id):
    """Have a QcoreError say where it came from, unless it does. False: it is of a class that does not let us."""
    try:
        if getattr(error, "node_id", None) is not None:
            return True
        text = f"{where}: {str(error)}"
        error.operator = operator_name
        error.node_id = node_id
        error.args = (text,)
        return where in str(error)
    except BaseException as why:
        if is_interrupt(why):
            raise
        return False


def explain_failure(error, operator_name, node_id, doing=None, ending=None):
    """The error to show for what an operator raised.

    QcoreErrors keep their class, others become an ExecutionError caused by them, a MemoryLimitError for want of memory;
    each names operator, plan node and what the operator was doing, or which of its ends it was (`ending`). Ctrl-C stays
    as it is. So of SystemExit, GeneratorExit and CancelledError those of an operator end its query, and not the program
    or the coroutine that reads it.
    """
    kind = type(error)
    if is_interrupt(error):
        return error
    where = f"{operator_name} (node {node_id})" + (f" {doing}" if doing else "")
    how = f" in {ending}()" if ending else ""
    if ending is None and issubclass(kind, QcoreError) and placed(error, where, operator_name, node_id):
        return error
    # pyarrow's own among them, which is both a MemoryError and an error of Arrow.
    made = MemoryLimitError if issubclass(kind, MemoryError) else ExecutionError
    explained = made(f"{where} failed{how}: {class_name(kind)}: {text_of(error)}", operator_name, node_id)
    explained.__cause__ = error
    return explained
