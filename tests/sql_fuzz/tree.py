"""A query as a tree of texts that can be written in either dialect and reduced part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Dialects:
    """A text that DuckDB and qcore write differently for the same meaning."""

    duckdb: str
    qcore: str


Part = Union[str, Dialects, "Tree"]


class Tree:
    """Parts in order. `sort` says what can replace it: a kind of value, a query, a relation; "" nothing."""

    __slots__ = ("sort", "parts")

    def __init__(self, sort: str, *parts: Part) -> None:
        self.sort = sort
        self.parts = parts

    def sql(self, dialect: str) -> str:
        """The text in `dialect`: "duckdb" or "qcore"."""
        return "".join(_text(part, dialect) for part in self.parts)

    def children(self) -> list[Tree]:
        """The parts of the tree that are trees."""
        return [part for part in self.parts if isinstance(part, Tree)]

    def with_children(self, children: Sequence[Tree]) -> Tree:
        """The same tree with other children."""
        left = iter(children)
        return Tree(self.sort, *(next(left) if isinstance(part, Tree) else part for part in self.parts))

    def size(self) -> int:
        """The number of trees in this one."""
        return 1 + sum(child.size() for child in self.children())

    def walk(self) -> Iterator[Tree]:
        """This tree and all below it, parents first."""
        yield self
        for child in self.children():
            yield from child.walk()


class Listed(Tree):
    """Trees with a separator. All but `minimum` may be dropped. Without any tree there is no text."""

    __slots__ = ("separator", "minimum", "before", "after")

    def __init__(
        self, items: Sequence[Tree], separator: str = ", ", minimum: int = 1, before: str = "", after: str = ""
    ) -> None:
        super().__init__("", *items)
        self.separator, self.minimum, self.before, self.after = separator, minimum, before, after

    def sql(self, dialect: str) -> str:
        """The items, between `before` and `after`."""
        if not self.parts:
            return ""
        return self.before + self.separator.join(_text(part, dialect) for part in self.parts) + self.after

    def with_children(self, children: Sequence[Tree]) -> Listed:
        """The same list with other items."""
        return Listed(children, self.separator, self.minimum, self.before, self.after)


class Fixed(Tree):
    """A tree that is never reduced, because the answer is unique only with all of it."""

    __slots__ = ()

    def __init__(self, *parts: Part) -> None:
        super().__init__("", *parts)

    def with_children(self, children: Sequence[Tree]) -> Fixed:
        """This tree."""
        return self


def optional(tree: Tree | None, before: str = "", after: str = "") -> Listed:
    """A clause that may be left out."""
    return Listed([] if tree is None else [tree], minimum=0, before=before, after=after)


def _text(part: Part, dialect: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Dialects):
        return part.duckdb if dialect == "duckdb" else part.qcore
    return part.sql(dialect)


# The last text to which a value of a sort is reduced.
SIMPLEST = {
    "int": ("null::bigint", "1"),
    "float": ("null::double", "1.0::double"),
    "text": ("null::varchar", "'a'"),
    "bool": ("null::boolean", "true", "false"),
    "date": ("null::date", "date '2000-02-29'"),
    "timestamp": ("null::timestamp", "timestamp '2000-02-29 12:34:56'"),
}


def smaller(tree: Tree) -> Iterator[Tree]:
    """Trees that are one step smaller, those with the largest steps first."""
    if isinstance(tree, Fixed):
        return
    if tree.sort:
        inside = [part for part in tree.walk() if part is not tree and part.sort == tree.sort]
        yield from sorted(inside, key=Tree.size)
        decimal = (f"cast(null as {tree.sort})", f"cast(1 as {tree.sort})") if tree.sort.startswith("decimal") else ()
        simplest = SIMPLEST.get(tree.sort, decimal)
        if tree.sql("qcore") not in simplest:
            yield from (Tree(tree.sort, text) for text in simplest)
    children = tree.children()
    if isinstance(tree, Listed):
        for size in range(len(children) // 2, 0, -1):
            for start in range(0, len(children), size):
                rest = children[:start] + children[start + size :]
                if len(rest) >= tree.minimum:
                    yield tree.with_children(rest)
        if tree.minimum == 0 and len(children) == 1:
            yield tree.with_children([])
    for position, child in enumerate(children):
        for less in smaller(child):
            yield tree.with_children([*children[:position], less, *children[position + 1 :]])
