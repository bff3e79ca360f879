"""record() compared with dataclass(): classes made by both behave alike."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from qcore.record import record

OPTIONS = [
    {"eq": eq, "frozen": frozen, "slots": slots}
    for eq in (True, False)
    for frozen in (True, False)
    for slots in (True, False)
]
BOTH: list[Callable[..., Any]] = [record, dataclasses.dataclass]


def make_classes(decorator: Callable[..., Any], **options: bool) -> tuple[type, type]:
    """A class and one derived from it."""

    @decorator(**options)
    class Base:
        """A base."""

        a: int
        b: str = "x"

    @decorator(**options)
    class Derived(Base):
        """A class with every kind of field."""

        c: list[int] = field(default_factory=list)
        d: float = field(default=1.5, repr=False)
        e: int = field(default=0, compare=False)
        f: int = field(default=9, init=False)

    return Base, Derived


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_instances(options: dict[str, bool]) -> None:
    shown = []
    for decorator in BOTH:
        base, derived = make_classes(decorator, **options)
        one, other = derived(1, "y", [3], e=4), derived(1, b="y", c=[3], e=5)
        changed = dataclasses.replace(one, a=2, d=2.5)
        names = [(each.name, each.type, each.init) for each in dataclasses.fields(derived)]
        attributes = [getattr(changed, name) for name, _, _ in names]
        assert derived(1).c is not derived(1).c
        shown.append(
            [
                repr(base(1)),
                repr(one),
                one == other,
                one == changed,
                one != other,
                base(1) == derived(1),
                base(1) == base(1),
            ]
            + [names, attributes, dataclasses.is_dataclass(one), dataclasses.asdict(one), derived.__match_args__]
            + [hasattr(one, "__dict__"), base.__hash__ is None, derived.b if not options["slots"] else ""]
        )
    assert shown[0] == shown[1]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_wrong_arguments(options: dict[str, bool]) -> None:
    for arguments, names in (
        ((), {}),
        ((1, "x", [], 1.0, 0, 9), {}),
        ((1,), {"z": 1}),
        ((1,), {"a": 1}),
        ((1,), {"f": 1}),
    ):
        told = []
        for decorator in BOTH:
            _, derived = make_classes(decorator, **options)
            with pytest.raises(TypeError) as caught:
                derived(*arguments, **names)
            told.append(str(caught.value))
        assert told[0] == told[1]


@pytest.mark.parametrize("slots", [False, True])
def test_frozen(slots: bool) -> None:
    base, derived = make_classes(record, frozen=True, slots=slots)
    one = derived(1)
    for act in (lambda: setattr(one, "a", 2), lambda: delattr(one, "b"), lambda: setattr(one, "z", 2)):
        with pytest.raises(FrozenInstanceError):
            act()
    assert (one.a, one.b) == (1, "x")
    assert len({base(1), base(1), base(2)}) == 2
    assert hash(base(1)) == hash((1, "x"))

    class Free(base):
        """A derived class that is not a record. It may have more attributes."""

    free = Free(3)
    free.z = 4
    with pytest.raises(FrozenInstanceError):
        free.a = 4
    assert (free.a, free.z) == (3, 4)


def test_one_field_and_none() -> None:
    for decorator in BOTH:

        @decorator(frozen=True)
        class One:
            a: Any

        @decorator(frozen=True)
        class Empty:
            pass

        # Tuples compare by identity first, so a value that does not equal itself counts as equal.
        nan = float("nan")
        assert One(nan) == One(nan)
        assert One(1) != One(2)
        assert hash(One(1)) == hash((1,))
        assert Empty() == Empty()
        assert hash(Empty()) == hash(())
        assert repr(Empty()).endswith("Empty()")


def test_own_methods_stay() -> None:
    for decorator in BOTH:

        @decorator(frozen=True)
        class Own:
            a: int
            total: int = field(init=False)

            def __post_init__(self) -> None:
                object.__setattr__(self, "total", self.a + 1)

            def __repr__(self) -> str:
                return "own"

            def __eq__(self, other: object) -> bool:
                return True

            def __hash__(self) -> int:
                return 7

        assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1)), Own(1).total) == ("own", True, 7, 2)

        @decorator
        class Equal:
            a: int

            def __eq__(self, other: object) -> bool:
                return True

        assert Equal.__hash__ is None


def test_a_record_that_holds_itself() -> None:
    base, _ = make_classes(record)
    one = base(1)
    one.b = one
    assert repr(one).endswith("Base(a=1, b=...)")


@record(frozen=True, slots=True)
class Slots:
    """A class of the module, for pickle."""

    a: int
    b: list[int] = field(default_factory=list)


@record(frozen=True)
class Plain:
    """A class of the module, for pickle."""

    a: int
    b: list[int] = field(default_factory=list)


@pytest.mark.parametrize("cls", [Slots, Plain])
def test_copies(cls: Any) -> None:
    one = cls(1, [2])
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one == copy.copy(one)


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the default of Wrong\.a is mutable; use default_factory"):

        @record
        class Wrong:
            a: list[int] = []  # noqa: RUF012
