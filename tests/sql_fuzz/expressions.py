"""Random expressions of a wanted kind over the columns of a scope.

Both engines must agree on them. Where DuckDB and qcore differ (docs/SQL.md), the text avoids the difference and says
why.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sql_fuzz import times
from sql_fuzz.tables import (
    BOOL,
    DATE,
    DATES,
    DECIMALS,
    EIGHTHS,
    FLOAT,
    INSTANTS,
    INT,
    MOMENTS,
    NULL,
    TEXT,
    TIMES,
    TIMESTAMP,
    UBIG,
    WORDS,
    Facts,
    Kind,
)
from sql_fuzz.tree import Dialects, Listed, Part, Tree
from sql_fuzz.values import (
    COMPARABLE,
    FLOAT_EXACT,
    INT_MAX,
    Column,
    Value,
    compose,
    else_clause,
    merged_facts,
    quote_text,
)

PATTERNS = ("%", "a%", "%a", "%e%", "_", "__%", "%special%requests%", "one%b", "%漢%", "na_ve", "12", "%_score%")
EXPRESSIONS = ("a|b", "^[a-z ]+$", "e.", "[0-9]+", "^$", "(s).*(s)", "漢", "^.{1,3}$")
UNSIGNED = Dialects("ubigint", "bigint unsigned")
TYPE_NAMES: dict[str, Part] = {
    "int": "bigint", "float": "double", "text": "varchar", "bool": "boolean", "blob": "bytea", "ubig": UNSIGNED,
    "millis": "timestamp", "ints": "bigint[]", "texts": "varchar[]",
}  # fmt: skip


@dataclass
class Expressions:
    """Makes expressions over `columns`. `subquery`, if any, makes a scalar subquery of a kind; `condition_subquery`
    a condition with a subquery.
    """

    rng: random.Random
    columns: Sequence[Column]
    subquery: Callable[[Kind], Value | None] | None = None
    condition_subquery: Callable[[], Tree | None] | None = None
    _makers: dict[str, Callable[[Kind, int], Value]] = field(init=False)

    def __post_init__(self) -> None:
        self._makers = {
            "int": self._int,
            "float": self._float,
            "text": self._text,
            "date": lambda kind, depth: times.date(self, depth),
            "timestamp": lambda kind, depth: times.timestamp(self, depth),
            "instant": lambda kind, depth: times.instant(self, kind, depth),
            "bool": lambda kind, depth: self.condition(depth),
            "decimal": self._decimal,
        }

    def value(self, kind: Kind, depth: int) -> Value:
        """A value of a kind. `depth` limits the nesting."""
        maker = self._makers.get(kind.family)
        if depth <= 0 or maker is None or self.rng.random() < 0.3:
            return self.leaf(kind)
        if self.rng.random() < 0.2:
            return self._of_any_kind(kind, depth - 1)
        if self.subquery is not None and self.rng.random() < 0.08:
            found = self.subquery(kind)
            if found is not None:
                return found
        return maker(kind, depth - 1)

    def column(self, kind: Kind, fits: Callable[[Facts], bool] = lambda facts: True) -> Value | None:
        """A column of a kind, or None."""
        found = [column for column in self.columns if column.facts.kind == kind and fits(column.facts)]
        return self.rng.choice(found).value() if found else None

    def leaf(self, kind: Kind) -> Value:
        """A column, or a literal if no column fits."""
        found = self.column(kind) if self.rng.random() < 0.85 else None
        return found or self.literal(kind)

    def literal(self, kind: Kind) -> Value:
        """A constant of the kind."""
        rng = self.rng
        if rng.random() < 0.06:
            return self.null(kind)
        if kind == INT:
            return compose(Facts(INT, 16), str(rng.randint(-3, 12)))
        if kind == FLOAT:
            # Without the cast the constant is a decimal.
            return compose(Facts(FLOAT, 16), f"cast({rng.choice(EIGHTHS)} as double)")
        if kind == TEXT:
            return compose(Facts(TEXT), quote_text(rng.choice(WORDS)))
        if kind == DATE:
            return compose(Facts(DATE), f"date '{rng.choice(DATES)}'")
        if kind == TIMESTAMP:
            return compose(Facts(TIMESTAMP), f"timestamp '{rng.choice(TIMES).isoformat(' ')}'")
        if kind in INSTANTS:
            # Read in its zone, as a constant with another has another type here.
            text = rng.choice(MOMENTS).isoformat(" ")
            return compose(Facts(kind), f"(timestamp '{text}' at time zone '{kind.zone}')")
        if kind == BOOL:
            return compose(Facts(BOOL), rng.choice(["true", "false"]))
        if kind == UBIG:
            return compose(Facts(UBIG, 4), f"cast({rng.randint(0, 3)} as ", UNSIGNED, ")")
        if kind.family == "decimal":
            unscaled = rng.choice([-350, -100, -5, 0, 1, 50, 125, 1000])
            number = f"{unscaled / 10**kind.scale:.{kind.scale}f}"
            return compose(Facts(kind, 1001), f"cast({number} as {kind})")
        return self.null(kind)

    def firm_literal(self, kind: Kind) -> Value:
        """A constant that is not null."""
        while (found := self.literal(kind)).tree.sql("qcore").find("null") >= 0:
            pass
        return found

    def null(self, kind: Kind) -> Value:
        """A null of the kind."""
        if kind == NULL:
            return compose(Facts(kind), "null")
        if kind in INSTANTS:
            return compose(Facts(kind), f"(cast(null as timestamp) at time zone '{kind.zone}')")
        return compose(Facts(kind), "cast(null as ", TYPE_NAMES.get(kind.family, str(kind)), ")")

    # --- conditions ---

    def condition(self, depth: int) -> Value:
        """A condition: true, false or null."""
        rng = self.rng
        shape = rng.random()
        if depth <= 0 or shape < 0.45:
            return self._comparison(max(depth, 0))
        if shape < 0.62:
            word = rng.choice([" and ", " or "])
            parts = [self.condition(depth - 1).tree for _ in range(rng.choice([2, 2, 3]))]
            return compose(Facts(BOOL), Listed(parts, word, before="(", after=")"))
        if shape < 0.7:
            return compose(Facts(BOOL), "(not ", self.condition(depth - 1).tree, ")")
        if shape < 0.76:
            test = rng.choice(["null", "not null", "true", "not true", "false", "not false"])
            return compose(Facts(BOOL), "(", self.condition(depth - 1).tree, f" is {test})")
        if shape < 0.84 and self.condition_subquery is not None:
            found = self.condition_subquery()
            if found is not None:
                return Value(found, Facts(BOOL))
        if shape < 0.9:
            return self._of_any_kind(BOOL, depth - 1)
        return self.leaf(BOOL)

    def _comparison(self, depth: int) -> Value:
        rng = self.rng
        shape = rng.random()
        if shape < 0.1:
            kind = self.present_kind()
            test = rng.choice(["is null", "is not null"])
            return compose(Facts(BOOL), "(", self.value(kind, depth - 1).tree, f" {test})")
        if shape < 0.22:
            word = rng.choice(["like", "not like", "ilike"])
            text = self.value(TEXT, depth - 1)
            if rng.random() < 0.2:
                name = Dialects("regexp_matches", "regexp_like")
                return compose(Facts(BOOL), name, "(", text.tree, f", {quote_text(rng.choice(EXPRESSIONS))})")
            if rng.random() < 0.2:
                name, part = rng.choice(["starts_with", "ends_with"]), quote_text(rng.choice(WORDS))
                return compose(Facts(BOOL), f"{name}(", text.tree, f", {part})")
            return compose(Facts(BOOL), "(", text.tree, f" {word} {quote_text(rng.choice(PATTERNS))})")
        kind = self.present_kind(COMPARABLE)
        left = self.exact_value(kind, depth)
        if shape < 0.4:
            word = rng.choice(["in", "not in"])
            value = self.literal if rng.random() < 0.8 else self.leaf_exact
            values = [self._or_decimal(kind, value(kind)).tree for _ in range(rng.randint(1, 5))]
            return compose(Facts(BOOL), "(", left.tree, f" {word} ", Listed(values, before="(", after=")"), ")")
        if shape < 0.5:
            word = rng.choice(["between", "not between"])
            low, high = (self._or_decimal(kind, self.exact_value(kind, depth - 1)) for _ in range(2))
            return compose(Facts(BOOL), "(", left.tree, f" {word} ", low.tree, " and ", high.tree, ")")
        operators = ["=", "=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
        right = self._or_decimal(kind, self.exact_value(self._beside(kind), depth))
        return compose(Facts(BOOL), "(", left.tree, f" {rng.choice(operators)} ", right.tree, ")")

    def exact_value(self, kind: Kind, depth: int) -> Value:
        """A value that may be compared because both engines compute it exactly alike."""
        for _ in range(4):
            found = self.value(kind, depth - 1)
            if found.facts.exact:
                return found
        return self.leaf_exact(kind)

    def leaf_exact(self, kind: Kind) -> Value:
        """A column or literal whose values are exact."""
        return self.column(kind, lambda facts: facts.exact) or self.literal(kind)

    def _beside(self, kind: Kind) -> Kind:
        """A kind to compare with: mostly the same kind, sometimes another kind of number."""
        if self.rng.random() < 0.85:
            return kind
        if kind == INT and any(c.facts.limit > FLOAT_EXACT for c in self.columns if c.facts.kind == INT):
            # One engine compares as doubles, where neighbouring values become equal.
            return kind
        others = {
            INT: (FLOAT, DECIMALS[0]), FLOAT: (INT, DECIMALS[0]), DECIMALS[0]: (INT, FLOAT), DATE: (TIMESTAMP,),
        }  # fmt: skip
        return self.rng.choice(others.get(kind, (kind,)))

    def _or_decimal(self, kind: Kind, value: Value) -> Value:
        """A value to combine with one of the kind. Beside a double it is often a constant with a point, a decimal."""
        if kind != FLOAT or self.rng.random() < 0.7:
            return value
        return compose(Facts(FLOAT, 16), str(self.rng.choice(EIGHTHS)))

    def present_kind(self, among: Sequence[Kind] | None = None) -> Kind:
        """The kind of a random column."""
        kinds = [column.facts.kind for column in self.columns if among is None or column.facts.kind in among]
        return self.rng.choice(kinds) if kinds else INT

    # --- any kind ---

    def _of_any_kind(self, kind: Kind, depth: int) -> Value:
        """CASE, coalesce, nullif, greatest, least."""
        rng = self.rng
        shape = rng.random()
        if shape < 0.5:
            values = [self.value(kind, depth) for _ in range(rng.choice([2, 2, 3]))]
            values[0] = self._or_decimal(kind, values[0])
            branches = [Tree("", "when ", self.condition(depth - 1).tree, " then ", value.tree) for value in values[1:]]
            otherwise = else_clause(values[0].tree if rng.random() < 0.7 else None)
            if rng.random() < 0.25:
                tested = self.present_kind(COMPARABLE)
                subject = self.exact_value(tested, depth).tree
                branches = [
                    Tree("", "when ", self.exact_value(tested, 0).tree, " then ", value.tree) for value in values[1:]
                ]
                return Value(
                    Tree(str(kind), "(case ", subject, " ", Listed(branches, " "), otherwise, " end)"),
                    merged_facts(values),
                )
            return Value(Tree(str(kind), "(case ", Listed(branches, " "), otherwise, " end)"), merged_facts(values))
        if shape < 0.75:
            values = [self.value(kind, depth), self._or_decimal(kind, self.value(kind, depth))]
            values += [self.value(kind, depth)] if rng.random() < 0.5 else []
            return Value(
                Tree(str(kind), Listed([v.tree for v in values], before="coalesce(", after=")")), merged_facts(values)
            )
        first, second = self.exact_value(kind, depth), self.exact_value(kind, depth)
        if shape < 0.9 or kind in (BOOL, UBIG):
            # nullif has the type of its first argument in one engine, and the common type in the other.
            return Value(Tree(str(kind), "nullif(", first.tree, ", ", second.tree, ")"), merged_facts([first, second]))
        name = rng.choice(["greatest", "least"])
        return Value(Tree(str(kind), f"{name}(", first.tree, ", ", second.tree, ")"), merged_facts([first, second]))

    # --- numbers ---

    def _bigint(self, depth: int, limit: float) -> Value:
        """A 64-bit integer. Narrow integers overflow in one engine and are widened in the other."""
        for _ in range(4):
            found = self.value(INT, depth)
            if found.facts.limit <= limit:
                break
        else:
            found = self.column(INT, lambda facts: facts.limit <= limit) or self.literal(INT)
        return compose(Facts(INT, found.facts.limit), "cast(", found.tree, " as bigint)")

    def _int(self, kind: Kind, depth: int) -> Value:
        rng = self.rng
        shape = rng.random()
        if shape < 0.55:
            a, b = self._bigint(depth, 2**20), self._bigint(depth, 2**20)
            word = rng.choice(["+", "-", "*"])
            limit = a.facts.limit * b.facts.limit if word == "*" else a.facts.limit + b.facts.limit
            return compose(Facts(INT, limit), "(", a.tree, f" {word} ", b.tree, ")")
        if shape < 0.65:
            a, b = self._bigint(depth, 2**40), self._bigint(depth, 2**40)
            # DuckDB divides integers with //. Division by zero is null in DuckDB and an error in qcore.
            word: Part = rng.choice([" // ", " % "])
            return compose(Facts(INT, a.facts.limit), "(", a.tree, word, "nullif(", b.tree, ", 0))")
        if shape < 0.72:
            a = self._bigint(depth, 2**40)
            return compose(Facts(INT, a.facts.limit), rng.choice(["abs(", "(- "]), a.tree, ")")
        if shape < 0.82:
            return compose(Facts(INT, 100), "length(", self.value(TEXT, depth).tree, ")")
        if shape < 0.92:
            return times.number(self, depth)
        if shape < 0.94:
            return compose(Facts(INT, INT_MAX), "try_cast(", self.value(TEXT, depth).tree, " as bigint)")
        if shape < 0.96:
            return self._of_text_or_bits(depth)
        return compose(Facts(INT, 2), "cast(", self.condition(depth).tree, " as bigint)")

    def _of_text_or_bits(self, depth: int) -> Value:
        """Integers that are functions of a text, or of the bits of integers."""
        rng = self.rng
        if rng.random() < 0.5:
            text = self.value(TEXT, depth).tree
            part = f", {quote_text(rng.choice(['a', 'e', '漢', 'x']))})"
            return compose(Facts(INT, 2**21), *rng.choice([("strpos(", text, part), ("ascii(", text, ")")]))
        a, b = self._bigint(depth, 2**20), self._bigint(depth, 2**20)
        limit = 2 * max(a.facts.limit, b.facts.limit)
        return compose(Facts(INT, limit), "(", a.tree, rng.choice([" & ", " | "]), b.tree, ")")

    def _float(self, kind: Kind, depth: int) -> Value:
        rng = self.rng
        shape = rng.random()
        if shape < 0.4:
            a, b = self._double(depth), self._double(depth)
            word = rng.choice(["+", "-", "*"])
            limit = a.facts.limit * b.facts.limit if word == "*" else a.facts.limit + b.facts.limit
            facts = Facts(FLOAT, limit, a.facts.finite and b.facts.finite, a.facts.exact and b.facts.exact)
            return compose(facts, "(", a.tree, f" {word} ", b.tree, ")")
        if shape < 0.55:
            a = self._bigint(depth, FLOAT_EXACT)
            return compose(Facts(FLOAT, a.facts.limit), "cast(", a.tree, " as double)")
        if shape < 0.65:
            a = self._double(depth)
            name = rng.choice(["abs", "floor", "ceil", "-"])
            return compose(a.facts, f"{name}(", a.tree, ")")
        if shape < 0.8:
            a, b = self._double(depth), self._double(depth)
            # Division by zero is null in DuckDB, and follows IEEE 754 in qcore.
            facts = Facts(FLOAT, 2**60, a.facts.finite and b.facts.finite, exact=False)
            return compose(facts, "(", a.tree, " / nullif(", b.tree, ", cast(0 as double)))")
        a = self._bigint(depth, 2**20)
        name = rng.choice(["sqrt", "ln", "exp"])
        # Arguments stay in the functions' domains, and below 20 for exp.
        inner = {"sqrt": "abs(", "ln": "1 + abs(", "exp": "20 - abs("}[name]
        return compose(Facts(FLOAT, 2**60, exact=False), f"{name}(cast({inner}", a.tree, ") as double))")

    def _double(self, depth: int) -> Value:
        """A double with few digits. One engine computes narrow floats in single precision."""
        for _ in range(4):
            found = self.value(FLOAT, depth)
            if found.facts.limit <= 2**20:
                break
        else:
            found = self.column(FLOAT, lambda facts: facts.limit <= 2**20) or self.literal(FLOAT)
        return compose(replace(found.facts, narrow=False), "cast(", found.tree, " as double)")

    def _decimal(self, kind: Kind, depth: int) -> Value:
        rng = self.rng
        shape = rng.random()
        if shape < 0.5 and kind.precision <= 20:
            a, b = self._small_decimal(kind, depth), self._small_decimal(kind, depth)
            word = rng.choice(["+", "-"])
            # The cast keeps the kind, because both engines give the sum one more digit.
            limit = a.facts.limit + b.facts.limit
            if limit < 10 ** (kind.precision - 1):
                return compose(Facts(kind, limit), "cast((", a.tree, f" {word} ", b.tree, f") as {kind})")
        if shape < 0.65 and kind.precision <= 20:
            a, b = self._small_decimal(kind, depth), self._bigint(depth, 20)
            limit = a.facts.limit * b.facts.limit
            if limit < 10 ** (kind.precision - 1):
                return compose(Facts(kind, limit), "cast((", a.tree, " * ", b.tree, f") as {kind})")
        if shape < 0.75:
            a = self.leaf(kind)
            return compose(a.facts, rng.choice(["abs(", "(- "]), a.tree, ")")
        other = rng.choice([other for other in DECIMALS if other.scale <= kind.scale])
        a = self.leaf(other)
        limit = a.facts.limit * 10 ** (kind.scale - other.scale)
        if limit < 10**kind.precision:
            return compose(Facts(kind, limit), "cast(", a.tree, f" as {kind})")
        return self.leaf(kind)

    def _small_decimal(self, kind: Kind, depth: int) -> Value:
        """A decimal with few digits, for arithmetic."""
        found = self.value(kind, depth)
        if found.facts.limit <= 10**6:
            return found
        return self.column(kind, lambda facts: facts.limit <= 10**6) or self.literal(kind)

    # --- text and time ---

    def _text(self, kind: Kind, depth: int) -> Value:
        rng = self.rng
        text = self.value(TEXT, depth).tree
        facts = Facts(TEXT)
        shape = rng.random()
        if shape < 0.2:
            return compose(facts, "(", text, " || ", self.value(TEXT, depth).tree, ")")
        if shape < 0.3:
            return compose(facts, "concat(", text, ", ", self.value(TEXT, depth).tree, ")")
        if shape < 0.5:
            # Positions start at 1. The engines differ before the first character.
            length = rng.choice(["", f", {rng.randint(0, 12)}"])
            return compose(facts, "substring(", text, f", {rng.randint(1, 14)}{length})")
        if shape < 0.65:
            return compose(facts, rng.choice(["upper(", "lower(", "trim(", "ltrim(", "rtrim("]), text, ")")
        if shape < 0.72:
            return compose(facts, rng.choice(["left(", "right("]), text, f", {rng.randint(0, 14)})")
        if shape < 0.8:
            old, new = rng.choice(["a", "e", "special", " "]), rng.choice(["", "X", "漢", "longer"])
            if rng.random() < 0.3:
                expression = quote_text(rng.choice(EXPRESSIONS))
                return compose(facts, "regexp_replace(", text, f", {expression}, {quote_text(new)}, 'g')")
            return compose(facts, "replace(", text, f", {quote_text(old)}, {quote_text(new)})")
        if shape < 0.86:
            return self._longer_or_cut(text)
        if shape < 0.9:
            return compose(facts, "cast(", self._bigint(depth, INT_MAX).tree, " as varchar)")
        if shape < 0.95:
            return compose(facts, "cast(", self.value(DATE, depth).tree, " as varchar)")
        return compose(facts, "cast(", self.condition(depth).tree, " as varchar)")

    def _longer_or_cut(self, text: Tree) -> Value:
        """Functions of a text and of constants."""
        rng = self.rng
        name = rng.choice(["lpad", "rpad", "repeat", "reverse", "split_part", "translate", "concat_ws"])
        if name == "concat_ws":
            return compose(Facts(TEXT), "concat_ws('-', ", text, ", ", self.leaf(TEXT).tree, ")")
        rest = {
            "lpad": f", {rng.randint(0, 9)}, {quote_text(rng.choice(['x', 'ab', '漢']))}",
            "rpad": f", {rng.randint(0, 9)}, {quote_text(rng.choice(['x', 'ab', '漢']))}",
            "repeat": f", {rng.randint(0, 3)}",
            "reverse": "",
            "split_part": f", {quote_text(rng.choice([' ', 'e', '-', ': ']))}, {rng.randint(1, 3)}",
            "translate": ", 'abe', 'xy'",
        }[name]
        return compose(Facts(TEXT), f"{name}(", text, rest, ")")
