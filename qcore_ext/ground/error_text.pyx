"""Texts of errors. Names and texts of objects that users wrote may raise themselves."""

import threading

from qcore_ext.ground.status import ExecutionError, MemoryLimitError, QcoreError

# Reads the name of a class without asking its metaclass.
_name_of = type.__dict__["__name__"].__get__


def class_name(cls):
    """Return the name of a class, whatever its metaclass does. Raises only if memory is short, as all of these do."""
    return str.__str__(_name_of(cls))


def is_interrupt(error):
    """Whether the error is the user's Ctrl-C, which Python raises on the main thread only, and not an operator's."""
    return issubclass(type(error), KeyboardInterrupt) and threading.get_ident() == threading.main_thread().ident


def text_of(thing, call=str):
    """Return str(thing), or the result of `call`. If that raises, return a text that says so. Ctrl-C is raised."""
    try:
        return str.__str__(call(thing))
    except BaseException as why:
        if is_interrupt(why):
            raise
        method = "__str__" if call is str else "__repr__"
        return f"a {class_name(type(thing))} whose {method} raised {class_name(type(why))}"


def show_value(thing):
    """Return repr(thing), or a text that says that it raises."""
    return text_of(thing, repr) if type(thing) is not str else repr(thing)


cdef bint add_origin(object error, str where, object operator_name, object node_id):
    """Add its origin to the text of a QcoreError that has none. False: the class of the error does not allow it."""
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
    """Return the error to show for what an operator raised.

    A QcoreError keeps its class. A MemoryError becomes a MemoryLimitError, any other error an ExecutionError caused by
    it. Each names the operator, the plan node, and what the operator was doing, or which of its ends was called
    (`ending`). Ctrl-C is returned unchanged. SystemExit, GeneratorExit and CancelledError of an operator therefore end
    its query, and not the program or the coroutine that reads it.
    """
    kind = type(error)
    if is_interrupt(error):
        return error
    where = f"{operator_name} (node {node_id})" + (f" {doing}" if doing else "")
    how = f" in {ending}()" if ending else ""
    if ending is None and issubclass(kind, QcoreError) and add_origin(error, where, operator_name, node_id):
        return error
    # pyarrow has an error that is both a MemoryError and an error of Arrow.
    made = MemoryLimitError if issubclass(kind, MemoryError) else ExecutionError
    explained = made(f"{where} failed{how}: {class_name(kind)}: {text_of(error)}", operator_name, node_id)
    explained.__cause__ = error
    return explained
