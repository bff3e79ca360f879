"""Dialects: the meaning of SQL text where engines differ."""

from __future__ import annotations

from dataclasses import dataclass, fields

_CHOICES = {
    "division": ("float", "integer"),
    "caret": ("power", "xor"),
    "null_order": ("nulls_last", "nulls_first", "nulls_max", "nulls_min"),
    "concat_null": ("skip", "null"),
    "float_to_integer": ("round", "truncate"),
    "log_base": ("ten", "e"),
    "like_escape": ("none", "backslash"),
    "first_day_of_week": ("zero", "one"),
    "round_half": ("away", "even"),
    "out_of_domain": ("error", "nan"),
    "log_of_zero": ("error", "infinite", "null"),
    "substring_start": ("from_end", "standard", "zero_is_one"),
    "regexp_replace": ("first", "all"),
    "time_pattern": ("postgresql", "java"),
    "name_case": ("any", "lower"),
    "similar_to": ("standard", "regexp"),
    "timestamp": ("local", "instant"),
    "syntax": ("standard", "spark"),
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The meaning of SQL text where engines differ. The defaults are those of qcore's dialect.

    Attributes
    ----------
    division : {'float', 'integer'}
        The result of `/` for two integers: 7 / 2 is 3.5 or 3. `//` is the integer quotient in both.
    caret : {'power', 'xor'}
        The meaning of `x ^ y`. Exclusive or binds less than `&`, power more than `*`. `**` is power in both.
    null_order : {'nulls_last', 'nulls_first', 'nulls_max', 'nulls_min'}
        The default of ORDER BY. With max or min, nulls are larger or smaller than every value.
    concat_null : {'skip', 'null'}
        concat(a, null) is a, or null.
    float_to_integer : {'round', 'truncate'}
        cast(2.7 as int) is 3 or 2; the same for decimals.
    log_base : {'ten', 'e'}
        The base of log(x).
    like_escape : {'none', 'backslash'}
        The escape character of a LIKE without ESCAPE.
    first_day_of_week : {'zero', 'one'}
        The number of Sunday in dayofweek(x) and extract(dow from x).
    round_half : {'away', 'even'}
        round(2.5) of a float is 3, away from zero, or 2, the even neighbour.
    out_of_domain : {'error', 'nan'}
        The result of sqrt(-1), ln(-1), asin(2), sin('inf') and similar calls.
    log_of_zero : {'error', 'infinite', 'null'}
        The result of ln(0), log10(0) and log2(0). With 'null' logarithms of negative numbers are null too.
    substring_start : {'from_end', 'standard', 'zero_is_one'}
        substring(s, -2) is the last two letters. With 'standard' it is the whole text: positions before the first
        letter count. With 'zero_is_one' it is the last two letters, and a start of 0 means 1.
    regexp_replace : {'first', 'all'}
        The matches that regexp_replace(s, pattern, new) without flags replaces.
    syntax : {'standard', 'spark'}
        With 'standard' "x" is a name. With 'spark' it is a text, texts have backslash escapes, and `x` is a name.
        Functions and operators that exist only in Spark, or have another meaning there, are those of Spark.
    time_pattern : {'postgresql', 'java'}
        The language of a pattern without % in to_char and to_date: 'YYYY-MM-DD HH24:MI' or 'yyyy-MM-dd HH:mm'.
    name_case : {'any', 'lower'}
        With 'any' names match in any case, and results keep the spelling. With 'lower' unquoted names are converted to
        lower case: the column of `select ID as Total` is Total or total.
    similar_to : {'standard', 'regexp'}
        The pattern of SIMILAR TO: that of the standard, with % and _ as in LIKE, or a regular expression that matches
        the whole text.
    timestamp : {'local', 'instant'}
        The type TIMESTAMP: a local time without a time zone, or an instant, as TIMESTAMP WITH TIME ZONE. In Spark's
        dialect it is an instant in a session with a time zone.
    """

    division: str = "float"
    caret: str = "power"
    null_order: str = "nulls_last"
    concat_null: str = "skip"
    float_to_integer: str = "round"
    log_base: str = "ten"
    like_escape: str = "none"
    first_day_of_week: str = "zero"
    round_half: str = "away"
    out_of_domain: str = "error"
    log_of_zero: str = "error"
    substring_start: str = "from_end"
    regexp_replace: str = "first"
    time_pattern: str = "postgresql"
    name_case: str = "any"
    similar_to: str = "standard"
    timestamp: str = "local"
    syntax: str = "standard"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value not in _CHOICES[field.name]:
                raise ValueError(f"{field.name} is one of {', '.join(_CHOICES[field.name])}, not {value!r}")

    @staticmethod
    def find(dialect: Dialect | str | None) -> Dialect:
        """Find a dialect by its name: 'qcore', 'duckdb', 'postgresql' or 'spark'. A Dialect is returned unchanged.

        Raises
        ------
        ValueError
            The name is unknown.
        """
        if isinstance(dialect, Dialect):
            return dialect
        if dialect is None:
            return QCORE
        if dialect not in DIALECTS:
            raise ValueError(f"there is no dialect {dialect!r}; there are {', '.join(DIALECTS)}")
        return DIALECTS[dialect]


QCORE = Dialect()
DIALECTS = {
    "qcore": QCORE,
    "duckdb": Dialect(out_of_domain="nan", log_of_zero="infinite", similar_to="regexp"),
    "postgresql": Dialect(
        division="integer",
        null_order="nulls_max",
        like_escape="backslash",
        round_half="even",
        substring_start="standard",
        name_case="lower",
    ),
    "spark": Dialect(
        caret="xor",
        null_order="nulls_min",
        concat_null="null",
        float_to_integer="truncate",
        log_base="e",
        like_escape="backslash",
        first_day_of_week="one",
        out_of_domain="nan",
        log_of_zero="null",
        substring_start="zero_is_one",
        regexp_replace="all",
        time_pattern="java",
        syntax="spark",
    ),
}
