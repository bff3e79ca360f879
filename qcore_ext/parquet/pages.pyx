"""The pages of one column chunk: read from the file a window at a time, and decompressed.

The file is read by pread and not mapped, because a file that is truncated while it is mapped ends the process.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memmove, memset

from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, account_check, buffer_new, buffer_unref
from qcore_ext.parquet.kernels cimport (
    QP_DATA_PAGE, QP_DATA_PAGE_V2, QP_DICTIONARY_PAGE, QP_SLACK, QpPage, qp_page_header, qp_snappy, qp_snappy_length,
    qp_snappy_pair,
)

from qcore_ext.ground.error_text import show_value
from qcore_ext.ground.status import ExecutionError

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int file, void* to, size_t n, int64_t at)

cdef enum:
    # Bytes read at once if the chunk has them. A longer page is read by itself.
    WINDOW_BYTES = 1048576
    HEADER_BYTES = 256          # most headers are shorter
    # Snappy's longest copies make 64 bytes of 3. A page that claims more is damaged.
    SNAPPY_RATIO_MAX = 22
    # A page of more bytes is not decompressed before it is its turn, nor a shorter one with that of another column.
    AHEAD_BYTES_MAX = 2097152
    TOGETHER_BYTES_MIN = 32768
    # A page that claims more bytes than this must not claim more than the footer does for the whole chunk.
    FREE_BYTES = 4194304
    READ_FLAG = 0x100           # PyBUF_READ


cdef class PageReader:
    """Reads the pages of column chunks, one chunk after another, on one thread.

    Parameters
    ----------
    path, column : str
        For error messages.
    """

    def __init__(self, str path, str column):
        self.path = path
        self.column = column

    def __dealloc__(self):
        self.close()

    cdef void close(self) noexcept nogil:
        buffer_unref(self.window)
        buffer_unref(self.body)
        buffer_unref(self.ahead)
        self.window = NULL
        self.body = NULL
        self.ahead = NULL

    cdef int fail(self, const char* fault) except -1 nogil:
        with gil:
            raise ExecutionError(self.explain(fault.decode()))

    cdef str explain(self, str fault):
        return f"cannot read {self.path}, row group {self.group}: column {self.column!r} cannot be decoded: {fault}"

    cdef void open(
        self, MemoryAccount* account, int file, int64_t group, int64_t start, int64_t n_bytes, int64_t n_uncompressed,
    ) noexcept nogil:
        self.account = account
        self.file = file
        self.group = group
        self.at = start
        self.end = start + n_bytes
        self.uncompressed_left = n_uncompressed
        self.begin = 0
        self.filled = 0
        self.page.n_bytes = 0
        self.body_left = 0
        self.ahead_at = -1

    cdef int more(self, int64_t n) except -1 nogil:
        """Have at least n bytes in the window from `begin` on."""
        cdef int64_t held = self.filled - self.begin
        cdef int64_t left = self.end - self.at
        cdef int64_t wanted, size
        cdef ssize_t got
        cdef Buffer* wider
        qc_check(0 <= self.begin <= self.filled, b"the window begins before its end")
        if held >= n:
            return 0
        if held + left < n:
            return self.fail(b"a page is longer than its column chunk")
        wanted = min(left, max(n - held, <int64_t> WINDOW_BYTES - held))
        size = held + wanted + QP_SLACK
        if self.window == NULL or self.window.size < size:
            wider = buffer_new(self.account, size)
            if held > 0:
                memcpy(wider.data, self.window.data + self.begin, held)
            buffer_unref(self.window)
            self.window = wider
            self.begin = 0
            self.filled = held
        elif self.window.size < self.filled + wanted + QP_SLACK:
            memmove(self.window.data, self.window.data + self.begin, held)
            self.begin = 0
            self.filled = held
        qc_check(self.filled + wanted + QP_SLACK <= self.window.size, b"the window holds the bytes to read")
        while wanted > 0:
            got = pread(self.file, self.window.data + self.filled, wanted, self.at)
            if got < 0 and errno == EINTR:
                continue
            if got < 0:
                return self.fail(b"the operating system reports an error")
            if got == 0:
                return self.fail(b"the file ends before the column chunk; it was truncated after its footer was read")
            self.filled += got
            self.at += got
            wanted -= got
        memset(self.window.data + self.filled, 0, QP_SLACK)
        return 0

    cdef bint next_page(self) except -1 nogil:
        cdef int64_t length
        cdef int64_t known = HEADER_BYTES
        account_check(self.account)
        self.leave_page()
        if self.filled - self.begin + self.end - self.at == 0:
            return False
        while True:
            self.more(min(known, self.filled - self.begin + self.end - self.at))
            length = qp_page_header(
                <const uint8_t*> self.window.data + self.begin, self.filled - self.begin, &self.page
            )
            if length > 0:
                break
            if length < 0:
                self.fail(b"a page header is malformed")
            if self.at == self.end:
                self.fail(b"a page header is longer than its column chunk")
            known = 2 * (self.filled - self.begin)
        self.begin += length
        if self.page.n_bytes > self.filled - self.begin + self.end - self.at:
            self.fail(b"a page is longer than its column chunk")
        self.body_left = self.page.n_bytes
        self.levels = NULL
        self.values = NULL
        self.values_end = NULL
        return True

    cdef void leave_page(self) noexcept nogil:
        """Have `begin` behind the current page."""
        cdef int64_t held = self.filled - self.begin
        if self.body_left <= held:
            self.begin += self.body_left
        else:
            self.at += self.body_left - held
            self.begin = 0
            self.filled = 0
        self.body_left = 0

    cdef int renew(self, Buffer** held, int64_t size) except -1 nogil:
        """Make a buffer for a page one that nobody else references."""
        if held[0] != NULL and (qc_load(&held[0].owner.references) > 1 or held[0].size < size + QP_SLACK):
            buffer_unref(held[0])
            held[0] = NULL
        if held[0] == NULL:
            held[0] = buffer_new(self.account, size + QP_SLACK)
        return 0

    cdef int load(self, bint kept, bint ahead) except -1 nogil:
        cdef const uint8_t* stored
        cdef int64_t n = self.page.n_bytes
        cdef int64_t size = self.page.n_uncompressed
        cdef int64_t n_levels = 0
        self.more(n)
        stored = <const uint8_t*> self.window.data + self.begin
        if self.page.type == QP_DATA_PAGE_V2:
            if self.page.repetition_bytes != 0:
                self.fail(b"a page has repetition levels, but its column is not nested")
            n_levels = self.page.definition_bytes
            if n_levels > n or n_levels > size:
                self.fail(b"the levels of a page are longer than the page")
            self.levels = stored
            self.levels_end = stored + n_levels
            stored += n_levels
            n -= n_levels
            size -= n_levels
        if size > self.uncompressed_left and size > FREE_BYTES:
            self.fail(b"a page is longer than the footer states")
        self.uncompressed_left -= size
        if self.codec == CODEC_NONE or (self.page.type == QP_DATA_PAGE_V2 and not self.page.is_compressed):
            if size != n:
                self.fail(b"a page without compression has two lengths")
            if not kept:
                self.values = stored
                self.values_end = stored + n
                return 0
            self.renew(&self.body, size)
            memcpy(self.body.data, stored, n)
        elif size == 0:
            self.renew(&self.body, 0)
        else:
            self.decompress(stored, n, size, ahead)
        qc_check(size + QP_SLACK <= self.body.size, b"the buffer holds the page and the bytes behind it")
        memset(self.body.data + size, 0, QP_SLACK)
        self.values = <const uint8_t*> self.body.data
        self.values_end = self.values + size
        return 0

    cdef int decompress(self, const uint8_t* stored, int64_t n, int64_t size, bint ahead) except -1 nogil:
        cdef Buffer* made
        if self.codec != CODEC_SNAPPY:
            return self.decompress_by_pyarrow(stored, n, size)
        if self.ahead_at == self.at - (self.filled - self.begin):
            self.ahead_at = -1
            made = self.ahead
            self.ahead = self.body
            self.body = made
            return 0
        if qp_snappy_length(stored, n) != size or size > n * SNAPPY_RATIO_MAX:
            return self.fail(b"a compressed page has another length than its header states")
        self.renew(&self.body, size)
        if ahead and self.decompress_pair(stored, n, size):
            return 0
        if not qp_snappy(stored, n, <uint8_t*> self.body.data, size):
            return self.fail(b"a page cannot be decompressed by snappy")
        return 0

    cdef bint decompress_pair(self, const uint8_t* stored, int64_t n, int64_t size) except -1 nogil:
        """Decompress the page, whose bytes are the n at `stored`, together with the next one.

        Returns False if the next one is not in the window, is no page of the first version, or if one of them is
        damaged. They are looked at again when it is their turn.
        """
        cdef QpPage page
        cdef const uint8_t* next_page = <const uint8_t*> self.window.data + self.begin + self.page.n_bytes
        cdef int64_t held = self.filled - self.begin - self.page.n_bytes
        cdef int64_t length = qp_page_header(next_page, held, &page)
        if length <= 0 or page.type != QP_DATA_PAGE or page.n_bytes > held - length or not (
            0 < page.n_uncompressed <= min(AHEAD_BYTES_MAX, page.n_bytes * SNAPPY_RATIO_MAX)
        ):
            return False
        if not self.has_room(page.n_uncompressed):
            return False
        self.renew(&self.ahead, page.n_uncompressed)
        if not qp_snappy_pair(
            stored, n, <uint8_t*> self.body.data, size, next_page + length, page.n_bytes,
            <uint8_t*> self.ahead.data, page.n_uncompressed
        ):
            return False
        self.ahead_at = self.at - held + length
        return True

    cdef bint has_room(self, int64_t size) noexcept nogil:
        """Whether memory for one more page is far below the query's limit."""
        cdef MemoryAccount* query = self.account.query
        return query == NULL or query.limit == 0 or (qc_load(&query.reserved) + size) * 8 < query.limit

    cdef bint find_first(self) except -1 nogil:
        cdef QpPage page
        cdef int64_t left = self.end - self.at
        cdef int64_t length
        if self.codec != CODEC_SNAPPY or left < TOGETHER_BYTES_MIN // SNAPPY_RATIO_MAX:
            return False
        self.more(min(left, <int64_t> HEADER_BYTES))
        length = qp_page_header(<const uint8_t*> self.window.data + self.begin, self.filled - self.begin, &page)
        if length <= 0 or (page.type != QP_DATA_PAGE and page.type != QP_DICTIONARY_PAGE) or (
            length + page.n_bytes > left
            or not TOGETHER_BYTES_MIN <= page.n_uncompressed <= min(AHEAD_BYTES_MAX, page.n_bytes * SNAPPY_RATIO_MAX)
        ):
            return False
        if not self.has_room(page.n_uncompressed):
            return False
        self.more(length + page.n_bytes)
        self.renew(&self.ahead, page.n_uncompressed)
        self.first.stored = <const uint8_t*> self.window.data + self.begin + length
        self.first.n_bytes = page.n_bytes
        self.first.size = page.n_uncompressed
        self.first.at = self.at - (self.filled - self.begin) + length
        return True

    cdef void load_first_with(self, PyObject* other) noexcept nogil:
        # If one of them is damaged, that is found when it is its turn.
        if qp_snappy_pair(
            self.first.stored, self.first.n_bytes, <uint8_t*> self.ahead.data, self.first.size,
            (<PageReader> other).first.stored, (<PageReader> other).first.n_bytes,
            <uint8_t*> (<PageReader> other).ahead.data, (<PageReader> other).first.size
        ):
            self.ahead_at = self.first.at
            (<PageReader> other).ahead_at = (<PageReader> other).first.at

    cdef bint fills(self, view, int64_t size) except -1:
        """Whether a page that was decompressed into `size` bytes has all of them.

        pyarrow does not report how many bytes it wrote, and the rest of its buffer is not initialized. Only for zstd it
        raises an error if there are fewer. A page of another codec has `size` bytes if decompressing it into one byte
        less fails.
        """
        if self.decompressor.name == "zstd":
            return True
        try:
            self.decompressor.decompress(view, decompressed_size=size - 1)
        except OSError:
            return True
        return False

    cdef int decompress_by_pyarrow(self, const uint8_t* stored, int64_t n, int64_t size) except -1 nogil:
        cdef const char* made
        self.renew(&self.body, size)
        with gil:
            try:
                view = PyMemoryView_FromMemory(<char*> stored, n, READ_FLAG)
                whole = self.decompressor.decompress(view, decompressed_size=size)
            except (OSError, ValueError) as error:
                raise ExecutionError(self.explain(f"a page cannot be decompressed: {show_value(error)}")) from error
            if whole.size != size or not self.fills(view, size):
                self.fail(b"a compressed page has another length than its header states")
            made = <const char*> <uintptr_t> whole.address
            with nogil:
                memcpy(self.body.data, made, size)
        return 0
