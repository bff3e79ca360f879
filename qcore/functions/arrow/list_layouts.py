"""Lists of any Arrow layout as lists with offsets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from qcore.late_module import late_module

pc = late_module("pyarrow.compute")


def large_lists(lists: pa.Array) -> pa.Array:
    """The same lists with offsets of 64 bits. pyarrow's cast of a list view is correct only if the elements of each
    list follow those of the previous one.
    """
    type_ = lists.type
    if pa.types.is_large_list(type_):
        return lists
    if not pa.types.is_list_view(type_) and not pa.types.is_large_list_view(type_):
        return lists.cast(pa.large_list(type_.value_type))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    mask = lists.is_null() if lists.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), lists.flatten(), mask=mask)


def spans(lists: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """For lists with offsets: the position of each list's first value, and its length. A null has length 0."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    if lists.null_count:
        lengths = np.where(lists.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return offsets[:-1], lengths
