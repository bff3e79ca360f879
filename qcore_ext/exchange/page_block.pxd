"""Blocks of rows in page files: each column in few bytes, in the layout that the engine reads.

A block has a header, a header for each column, and the columns one after another, each a multiple of 8 bytes. The byte
order is that of the processor, as the tasks of a query run on processors of one kind.

- Integers, dates, times, and decimals whose values fit 64 bits are differences to the smallest value (frame of
  reference), in the fewest of 0, 1, 2, 4 or 8 bytes that hold them all.
- Texts of at most 256 distinct values are numbers of one byte, if that takes less room. Otherwise they are lengths, as
  integers, and the bytes of all texts.
- Other values are stored as they are.

A column with nulls has a bitmap first. A null takes the room of a value but for the bytes of a text. The same rows give
the same bytes: nothing depends on what memory holds where a row is null.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Buffer, MemoryAccount


ctypedef struct BlockHeader:
    uint64_t magic
    int64_t n_rows              # of a compressed block: bytes of the block in it
    int64_t n_bytes             # of the block with its headers
    int64_t n_columns

cdef enum:
    BLOCK_HEADER_BYTES = 32

cdef uint64_t BLOCK_MAGIC
# The header is followed by a whole block, compressed by LZ4.
cdef uint64_t COMPRESSED_MAGIC

# The sum of 64-bit words, modulo 2**64. `n_bytes` is a multiple of 8.
cdef uint64_t words_sum(const char* bytes, int64_t n_bytes) noexcept nogil
# The rows of blocks that follow each other in `blocks`, which have `n_rows` rows together. Column i of the result is
# column positions[i] of the blocks. Texts point into `blocks`. NULL: if `wrong` is set, the blocks are damaged.
cdef Batch* blocks_read(
    Buffer* blocks, int64_t n_bytes, int64_t n_rows, CSchema* schema, const int32_t* positions, MemoryAccount* account,
    const char** wrong,         # OUT
) except? NULL nogil
