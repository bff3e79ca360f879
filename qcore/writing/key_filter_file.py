"""A filter of the keys of a join's build side, as a file.

It is made of the hashes that the tasks of the build side wrote. The tasks of the probe side read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from qcore.record import record
from qcore.writing.file_sets import writing
from qcore.writing.page_file import Page, PageFile, open_new, read_bytes
from qcore_ext.exchange.page_block import checksum_of

if TYPE_CHECKING:
    from qcore_ext.exchange.key_filter import KeyFilter

# With fewer bits for each key, more than a tenth of the other keys would be found.
WORD_BYTES, BITS_PER_KEY, BITS_PER_KEY_MIN = 8, 16, 8
WORDS_MIN = 1024
# Every probe task reads the whole filter.
FILTER_BYTES_MAX = 64 << 20


@record(frozen=True)
class KeyFilterFile:
    """A file with one filter.

    Attributes
    ----------
    path : str
        Its absolute path.
    n_bytes : int
        Its size.
    checksum : int
        The checksum of its bytes.
    """

    path: str
    n_bytes: int
    checksum: int

    def read(self) -> KeyFilter:
        """Read the filter. ExecutionError, which names the file, if it is not the one that was written."""
        from qcore_ext.exchange.key_filter import KeyFilter

        data = read_bytes(self.path, self.n_bytes, Page(0, 0, self.n_bytes, 0, self.checksum))
        return KeyFilter(pa.py_buffer(data))


def write_key_filter(files: Sequence[PageFile], path: str) -> KeyFilterFile | None:
    """Write the filter of the keys of all rows in page files; None if there are too many, or a file has no hashes.

    Raises
    ------
    ExecutionError
        A page file cannot be read, or the filter cannot be written.
    """
    from qcore_ext.exchange.key_filter import KeyFilter

    pages = [file.hashes for file in files if file.hashes is not None]
    n_keys = sum(page.n_rows for page in pages)
    if len(pages) < len(files) or n_keys * BITS_PER_KEY_MIN > 8 * FILTER_BYTES_MAX:
        return None
    n_words = min(max(WORDS_MIN, n_keys * BITS_PER_KEY // 64), FILTER_BYTES_MAX // WORD_BYTES)
    words = pa.py_buffer(np.zeros(n_words, np.uint64))
    made = KeyFilter(words)
    for file in files:
        assert file.hashes is not None
        if file.hashes.n_rows == 0:
            continue
        made.add(pa.py_buffer(read_bytes(file.path, file.n_bytes, file.hashes)))
    with writing(path), open_new(path) as file_of_words:
        file_of_words.write(words)
    return KeyFilterFile(path, words.size, checksum_of(words))
