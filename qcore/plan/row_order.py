"""The order in which a table's rows come, by one of its columns."""

from __future__ import annotations

from qcore.record import record


@record(frozen=True)
class RowOrder:
    """What a table knows of the order of its rows by a column of integers, dates or timestamps without nulls.

    Without fences the rows of every batch are neighbours in the table, and the whole table is in ascending order of the
    column. With fences the table has parts, such as the row groups of a file, and one driver reads all rows of a part,
    one after another. The values of a part are between two neighbouring fences, both included, and no other part has a
    value between them. The rows of a part need not be in order.

    Attributes
    ----------
    fences : tuple of int
        In ascending order.
    """

    fences: tuple[int, ...] = ()
