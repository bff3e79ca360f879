"""Reads pages of a page file as batches."""

from libc.errno cimport EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.string cimport memcpy, strerror

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.batch_reader cimport BatchReader
from qcore_ext.data.schema cimport Schema
from qcore_ext.exchange.page_block cimport (
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, COMPRESSED_MAGIC, BlockHeader, blocks_read, words_sum,
)
from qcore_ext.ground.memory cimport (
    Buffer, MemoryAccount, account_check, buffer_new, buffer_unref, struct_free, struct_new,
)

from qcore_ext.ground.status import ExecutionError

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int file, void* bytes, size_t n, int64_t offset)

cdef enum:
    # LZ4 gives no more bytes than this for one of its input.
    LZ4_RATIO_MAX = 256


ctypedef struct PagePlace:
    int64_t offset
    int64_t n_bytes
    int64_t n_rows
    uint64_t checksum


cdef class PageFileReader(BatchReader):
    """Reads pages of one file, each as one batch.

    Parameters
    ----------
    path : str
        For error messages.
    file : object with `fileno` and `close`
        The open file. Closed with the reader.
    schema : Schema
        The columns of the batches.
    positions : sequence of int
        For each of them the number of the column of the pages.
    pages : sequence of (int, int, int, int, int)
        Of each page a number that does not count, its offset, bytes, rows and checksum: the fields of a
        writing.page_file.Page.

    Reading raises ExecutionError, which names the file, if a page is not there, is damaged, or has other columns.
    """
    cdef str path
    cdef object file
    cdef int number                 # of the open file
    cdef PagePlace* pages           # owned
    cdef int64_t n_pages
    cdef int64_t next_page
    cdef int32_t* positions         # owned
    cdef object codec               # decompresses LZ4, or None

    def __init__(self, str path, file, Schema schema, positions, pages):
        self.path = path
        self.file = file
        self.number = file.fileno()
        self.set_schema(schema.schema)
        self.n_pages = len(pages)
        self.pages = <PagePlace*> struct_new((self.n_pages + 1) * sizeof(PagePlace))
        self.positions = <int32_t*> struct_new((len(positions) + 1) * sizeof(int32_t))
        for i, position in enumerate(positions):
            self.positions[<int64_t> i] = position
        for i, (_, offset, n_bytes, n_rows, checksum) in enumerate(pages):
            self.pages[<int64_t> i] = PagePlace(offset, n_bytes, n_rows, checksum)

    def __dealloc__(self):
        struct_free(self.pages)
        struct_free(self.positions)

    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil:
        cdef PagePlace* page
        cdef Buffer* blocks = NULL
        cdef Buffer* given = NULL
        cdef int64_t n_bytes
        cdef const char* wrong = NULL
        if self.next_page == self.n_pages:
            return 0
        account_check(account)
        page = &self.pages[self.next_page]
        self.next_page += 1
        n_bytes = page.n_bytes
        try:
            blocks = self.read_bytes(page, account)
            wrong = expanded_size(blocks.data, &n_bytes)
            if wrong == NULL and n_bytes != page.n_bytes:
                given = blocks
                blocks = NULL
                blocks = self.expand(page, given, n_bytes, account)
            if wrong == NULL:
                out[0] = blocks_read(blocks, n_bytes, page.n_rows, self.schema, self.positions, account, &wrong)
        finally:
            buffer_unref(blocks)
            buffer_unref(given)
        if wrong != NULL:
            with gil:
                self.raise_damaged(page.offset, wrong.decode())
        return 1

    cdef Buffer* read_bytes(self, PagePlace* page, MemoryAccount* account) except NULL nogil:
        """The bytes of a page, of which the checksum is right."""
        cdef Buffer* blocks = NULL
        cdef int64_t n_read = 0
        cdef int64_t n = 0
        cdef int error = 0
        cdef bint done = False
        if page.n_bytes < 0 or page.n_bytes & 7:
            with gil:
                self.raise_damaged(page.offset, "its size is no multiple of 8")
        blocks = buffer_new(account, page.n_bytes)
        try:
            while n_read < page.n_bytes:
                n = pread(self.number, blocks.data + n_read, page.n_bytes - n_read, page.offset + n_read)
                if n < 0 and errno == EINTR:
                    continue
                if n <= 0:
                    error = errno if n < 0 else 0
                    with gil:
                        self.raise_unread(page.offset, error)
                n_read += n
            if words_sum(blocks.data, page.n_bytes) != page.checksum:
                with gil:
                    self.raise_damaged(page.offset, "its checksum differs")
            done = True
        finally:
            if not done:
                buffer_unref(blocks)
        return blocks

    cdef Buffer* expand(
        self, PagePlace* page, Buffer* given, int64_t n_bytes, MemoryAccount* account,
    ) except NULL nogil:
        """The blocks of a page of which some are compressed, as `n_bytes` that are not."""
        cdef Buffer* blocks = NULL
        cdef const char* at = given.data
        cdef const char* end = given.data + page.n_bytes
        cdef const BlockHeader* header
        cdef char* to
        cdef int64_t n
        cdef bint done = False
        try:
            blocks = buffer_new(account, n_bytes)
            to = blocks.data
            while at < end:
                header = <const BlockHeader*> at
                n = header.n_bytes
                if header.magic == COMPRESSED_MAGIC:
                    n = header.n_rows
                    with gil:
                        self.decompress(page.offset, at + BLOCK_HEADER_BYTES, header.n_columns, to, n)
                else:
                    memcpy(to, at, n)
                to += n
                at += header.n_bytes
            done = True
        finally:
            if not done:
                buffer_unref(blocks)
        return blocks

    cdef int decompress(self, int64_t offset, const char* given, int64_t n_given, char* to, int64_t n) except -1:
        import pyarrow

        cdef uintptr_t address
        if self.codec is None:
            self.codec = pyarrow.Codec("lz4")
        try:
            expanded = self.codec.decompress(pyarrow.foreign_buffer(<uintptr_t> given, n_given), n)
        except (OSError, pyarrow.ArrowException) as error:
            self.raise_damaged(offset, str(error))
        if expanded.size != n:
            self.raise_damaged(offset, "a compressed block has another size")
        address = expanded.address
        memcpy(to, <const char*> address, n)
        return 0

    cdef int raise_damaged(self, int64_t offset, str reason) except -1:
        return self.raise_error(f"the page at byte {offset} is damaged: {reason}")

    cdef int raise_unread(self, int64_t offset, int error) except -1:
        return self.raise_error(strerror(error).decode() if error else f"it ends within the page at byte {offset}")

    cdef int raise_error(self, str reason) except -1:
        raise ExecutionError(f"cannot read the file {self.path} of an earlier stage: {reason}; run the query again")

    def close(self):
        """Close the file."""
        file, self.file = self.file, None
        self.next_page = self.n_pages
        if file is not None:
            file.close()


cdef const char* expanded_size(const char* blocks, int64_t* n_bytes) noexcept nogil:
    """Change the bytes of blocks to those that they have when none is compressed. Returns what is wrong, or NULL."""
    cdef const BlockHeader* header
    cdef int64_t left = n_bytes[0]
    cdef int64_t total = 0
    while left > 0:
        header = <const BlockHeader*> blocks
        if left < BLOCK_HEADER_BYTES or header.n_bytes < BLOCK_HEADER_BYTES or header.n_bytes > left:
            return b"a block ends behind its page"
        if header.n_bytes & 7:
            return b"the size of a block is no multiple of 8"
        if header.magic == COMPRESSED_MAGIC:
            if not 0 <= header.n_columns <= header.n_bytes - BLOCK_HEADER_BYTES:
                return b"a compressed block ends behind its page"
            if header.n_rows & 7 or not 0 < header.n_rows <= LZ4_RATIO_MAX * header.n_bytes:
                return b"a compressed block has another size"
            total += header.n_rows
        elif header.magic == BLOCK_MAGIC:
            total += header.n_bytes
        else:
            return b"it has something else than blocks of rows"
        blocks += header.n_bytes
        left -= header.n_bytes
    n_bytes[0] = total
    return NULL
