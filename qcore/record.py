"""Classes with fields, like `dataclasses.dataclass`, but faster to import.

dataclass() compiles up to six methods of each class when the module is imported. That takes 60 ms for the classes of
qcore, and a query uses a third of them. record() compiles only `__init__`, when the first instance is made; classes
share the other methods. `dataclasses.fields`, `replace` and `is_dataclass` work as for a dataclass, and type checkers
treat the class as one. Classes that applications construct or derive from use dataclass(), so that help() shows their
arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from inspect import get_annotations
from itertools import chain
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["record"]

# What dataclasses.fields() looks for.
_FIELDS = "__dataclass_fields__"
_KIND: Any = dataclasses._FIELD  # type: ignore[attr-defined]


if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(cls=None, /, *, eq=True, frozen=False, slots=False):
        """`dataclass` with these options, for modules with postponed annotations."""

        def decorate(cls):
            return _decorate_class(cls, eq, frozen, slots)

        return decorate if cls is None else decorate(cls)


def _decorate_class(cls: type, eq: bool, frozen: bool, slots: bool) -> type:
    inherited = [getattr(base, _FIELDS, {}) for base in reversed(cls.__mro__[1:])]
    own = [_field(cls, name, type) for name, type in get_annotations(cls).items()]
    fields = {each.name: each for each in chain(*(some.values() for some in inherited), own)}
    if slots:
        cls = _with_slots(cls, own)
    setattr(cls, _FIELDS, fields)
    _define(cls, "__match_args__", tuple(each.name for each in fields.values() if each.init))
    _define(cls, "__init__", _first_init(cls, fields.values(), frozen))
    _define(cls, "__repr__", _repr)
    if eq:
        _define_equality(cls, [each.name for each in fields.values() if each.compare], frozen)
    if frozen:
        _freeze(cls, fields.keys())
    if frozen and slots:
        _define(cls, "__getstate__", _state)
        _define(cls, "__setstate__", _set_state)
    return cls


def _define(cls: type, name: str, value: Any) -> None:
    """Set an attribute that the class does not define itself."""
    if name not in cls.__dict__:
        setattr(cls, name, value)


def _field(cls: type, name: str, type: str) -> Field:
    """The Field of an annotation. Its default stays as an attribute of the class."""
    default = cls.__dict__.get(name, MISSING)
    if isinstance(default, Field):
        field = default
        if field.default is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, field.default)
    else:
        field = dataclasses.field(default=default)
    if field.default is not MISSING and field.default.__class__.__hash__ is None:
        raise ValueError(f"the default of {cls.__name__}.{name} is mutable; use default_factory")
    field.name, field.type = name, type
    field._field_type = _KIND  # type: ignore[attr-defined]
    return field


def _with_slots(cls: type, fields: Iterable[Field]) -> type:
    names = [field.name for field in fields]
    body = {name: value for name, value in cls.__dict__.items() if name not in (*names, "__dict__", "__weakref__")}
    made = type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": tuple(names)})
    made.__qualname__ = cls.__qualname__
    return made


def _first_init(cls: type, fields: Iterable[Field], frozen: bool) -> Callable[..., None]:
    """An __init__ that compiles the real one at its first call and replaces itself with it."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        init = _compiled_init(cls, fields, frozen)
        cls.__init__ = init  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _compiled_init(cls: type, fields: Iterable[Field], frozen: bool) -> Callable[..., None]:
    arguments, body = ["self"], []
    values: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    for field in fields:
        name = value = field.name
        default = f"_default_{name}"
        argument = name
        if field.default is not MISSING:
            values[default] = field.default
            argument = f"{name}={default}"
        elif field.default_factory is not MISSING:
            values[default] = field.default_factory
            argument, value = f"{name}=_missing", f"{default}() if {name} is _missing else {name}"
        if field.init:
            arguments.append(argument)
        elif default not in values:
            continue
        else:
            value = default if field.default is not MISSING else f"{default}()"
        slot = getattr(cls, name, None)
        if frozen and isinstance(slot, MemberDescriptorType):
            # In half the time of object.__setattr__.
            values[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n  ".join(body or ["pass"])
    text = f"def make({', '.join(values)}):\n def __init__({', '.join(arguments)}):\n  {lines}\n return __init__"
    made: dict[str, Any] = {}
    exec(text, made)
    init: Callable[..., None] = made["make"](**values)
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (field.name for field in getattr(self, _FIELDS).values() if field.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _define_equality(cls: type, names: list[str], frozen: bool) -> None:
    values: Callable[[Any], Any] = attrgetter(*names) if len(names) > 1 else _values_of(names)
    own = cls.__dict__
    # A class that defines __eq__ alone has __hash__ = None.
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    _define(cls, "__eq__", __eq__)
    if not has_hash:
        cls.__hash__ = __hash__ if frozen else None  # type: ignore[method-assign, assignment]


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    """Return a getter of the values as a tuple, also for no name or one name."""
    return lambda self: tuple([getattr(self, name) for name in names])


def _freeze(cls: type, names: Iterable[str]) -> None:
    """Make assignment to a field an error. A derived class that is not a record may have further attributes."""

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            _refuse("assign to", name)
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            _refuse("delete", name)
        object.__delattr__(self, name)

    _define(cls, "__setattr__", __setattr__)
    _define(cls, "__delattr__", __delattr__)


def _refuse(act: str, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot {act} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)
