"""Calls of a lambda for each element of lists: its body is a program over all elements of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from qcore.functions.arrow.list_layouts import large_lists, spans
from qcore.functions.arrow.looking import that_looks
from qcore.functions.arrow.scalar import Kernel, as_array, n_rows
from qcore.functions.nested import with_type
from qcore_ext.compute.arrow_call import calling_account, look
from qcore_ext.compute.evaluator import Evaluator
from qcore_ext.compute.program import Program
from qcore_ext.data.nested import take_rows


def list_kernel(name: str, program: Program, parameters: pa.Schema) -> Kernel:
    """The kernel of list_transform, list_filter, list_reduce or list_fold.

    Parameters
    ----------
    name : str
    program : Program
        The lambda's body over its parameters, with one result.
    parameters : pyarrow.Schema
        Their types. The kernel's arguments are the lists, and a value for each row for parameters other than elements.
    """
    return that_looks(functools.partial(_KERNELS[name], _Body(program, parameters)))


class _Body:
    """A lambda's body, computed over columns of its parameters. Drivers share it; each call has its own registers."""

    def __init__(self, program: Program, parameters: pa.Schema) -> None:
        self._program = program
        self._parameters = parameters
        #: The type of the first parameter.
        self.first = parameters.field(0).type

    def __call__(self, columns: Sequence[pa.Array]) -> pa.Array:
        given = [
            column if column.type == field.type else with_type(column, field.type)
            for column, field in zip(columns, self._parameters, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(given, schema=self._parameters)
        return pa.record_batch(Evaluator(self._program, calling_account()).project_batch(batch)).column(0)


class _Elements:
    """The elements of all lists of a column, the row of each element, and the length of each list."""

    def __init__(self, lists: pa.Array | pa.Scalar, n: int) -> None:
        self.lists = large_lists(as_array(lists, n))
        self.values = self.lists.flatten()
        _, self.lengths = spans(self.lists)
        self.rows = np.repeat(np.arange(n), self.lengths)

    def compute(self, body: _Body, captured: Sequence[pa.Array]) -> pa.Array:
        """The body's value for each element. Other parameters are repeated for all elements of their row."""
        rows = pa.array(self.rows)
        return body([self.values, *(take_rows(column, rows) for column in captured)])

    def rebuild(self, values: pa.Array, lengths: np.ndarray) -> pa.Array:
        """Lists of these values and lengths. They are null where the input's lists are."""
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), pa.int64())
        mask = self.lists.is_null() if self.lists.null_count else None
        return pa.LargeListArray.from_arrays(offsets, values, mask=mask)


def _transform(body: _Body, lists: pa.Array | pa.Scalar, *captured: pa.Array | pa.Scalar) -> pa.Array:
    n = n_rows([lists, *captured])
    elements = _Elements(lists, n)
    return elements.rebuild(elements.compute(body, [as_array(value, n) for value in captured]), elements.lengths)


def _filter(body: _Body, lists: pa.Array | pa.Scalar, *captured: pa.Array | pa.Scalar) -> pa.Array:
    """The elements for which the body is true."""
    n = n_rows([lists, *captured])
    elements = _Elements(lists, n)
    holds = elements.compute(body, [as_array(value, n) for value in captured]).fill_null(False)
    kept = np.flatnonzero(holds.to_numpy(zero_copy_only=False))
    return elements.rebuild(take_rows(elements.values, pa.array(kept)), np.bincount(elements.rows[kept], minlength=n))


def _reduce(body: _Body, lists: pa.Array | pa.Scalar, *captured: pa.Array | pa.Scalar) -> pa.Array:
    """The body is applied to the result so far, which starts with the first element, and the next element."""
    n = n_rows([lists, *captured])
    elements = _Elements(lists, n)
    present = elements.lists.is_valid().to_numpy(zero_copy_only=False)
    if (elements.lengths[present] == 0).any():
        raise ValueError("the list is empty; give a third argument, the value to start with")
    starts = np.cumsum(elements.lengths) - elements.lengths
    first = take_rows(elements.values, pa.array(np.where(present, starts, 0), mask=~present))
    return _fold_elements(body, elements, first, 1, [as_array(value, n) for value in captured])


def _fold(
    body: _Body, lists: pa.Array | pa.Scalar, first: pa.Array | pa.Scalar, *captured: pa.Array | pa.Scalar
) -> pa.Array:
    n = n_rows([lists, first, *captured])
    elements = _Elements(lists, n)
    present = elements.lists.is_valid().to_numpy(zero_copy_only=False)
    begin = take_rows(as_array(first, n), pa.array(np.arange(n), mask=~present))
    return _fold_elements(body, elements, begin, 0, [as_array(value, n) for value in captured])


def _fold_elements(
    body: _Body, elements: _Elements, sofar: pa.Array, at: int, captured: Sequence[pa.Array]
) -> pa.Array:
    """Apply the body to the next element of all rows together, until no row has a next element."""
    starts = np.cumsum(elements.lengths) - elements.lengths
    sofar = sofar if sofar.type == body.first else with_type(sofar, body.first)
    rows = np.arange(len(elements.lengths))
    pieces, order = [], []
    while True:
        look()
        going = elements.lengths[rows] > at
        pieces.append(take_rows(sofar, pa.array(np.flatnonzero(~going))))
        order.append(rows[~going])
        rows = rows[going]
        if len(rows) == 0:
            break
        taken = [take_rows(column, pa.array(rows)) for column in captured]
        element = take_rows(elements.values, pa.array(starts[rows] + at))
        sofar = body([take_rows(sofar, pa.array(np.flatnonzero(going))), element, *taken])
        at += 1
    positions = np.empty(len(elements.lengths), np.int64)
    positions[np.concatenate(order)] = np.arange(len(elements.lengths))
    return take_rows(pa.concat_arrays(pieces), pa.array(positions))


_KERNELS: dict[str, Callable[..., pa.Array]] = {
    "list_transform": _transform,
    "list_filter": _filter,
    "list_reduce": _reduce,
    "list_fold": _fold,
}
