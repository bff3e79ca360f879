"""Lists of any Arrow layout as lists with offsets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from qcore.late_module import late_module

pc = late_module("pyarrow.compute")


def large_lists(lists: pa.Array) -> pa.Array:
    """The same lists with offsets of 64 bits. pyarrow's own cast of a list view is right only where each list's
    elements stand behind those of the one before it.
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
    """Of lists with offsets: where each list begins among the values, and its length; 0 for a null."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    if lists.null_count:
        lengths = np.where(lists.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return offsets[:-1], lengths
