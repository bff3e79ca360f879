"""The pages of one column chunk: read from the file a window at a time, and decompressed."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.parquet.kernels cimport QpPage


cdef enum Codec:
    CODEC_NONE = 0
    CODEC_SNAPPY = 1
    CODEC_PYARROW = 2           # any other: pyarrow decompresses


ctypedef struct StoredPage:
    # A page to decompress.
    const uint8_t* stored
    int64_t n_bytes
    int64_t size                # after decompression
    int64_t at                  # offset in the file


cdef class PageReader:
    cdef readonly str path              # this and the next two fields are for messages
    cdef readonly str column
    cdef int64_t group
    cdef int file                       # descriptor; borrowed
    cdef MemoryAccount* account         # borrowed; charged for the buffers
    cdef int codec
    cdef object decompressor            # a pyarrow.Codec, or None
    cdef int64_t at                     # offset in the file of the next byte to read
    cdef int64_t end                    # offset of the chunk's end
    cdef int64_t uncompressed_left      # bytes that pages may still have after decompression, by the footer
    cdef Buffer* window                 # owned; bytes begin..filled are of the file
    cdef int64_t begin
    cdef int64_t filled
    cdef Buffer* body                   # owned; the page that was decompressed last
    cdef Buffer* ahead                  # owned; the page that was decompressed together with it
    cdef StoredPage first               # of find_first
    cdef int64_t ahead_at               # offset in the file of that page's compressed bytes; -1: there is none
    cdef QpPage page                    # header of the current page
    cdef int64_t body_left              # bytes of the current page from `begin` on; some may not be in the window
    cdef const uint8_t* levels          # after load: definition levels of a v2 page, else NULL
    cdef const uint8_t* levels_end
    cdef const uint8_t* values          # after load: the page's bytes, for v1 with its levels
    cdef const uint8_t* values_end

    cdef void open(self, MemoryAccount* account, int file, int64_t group, int64_t start, int64_t n_bytes,
                   int64_t n_uncompressed) noexcept nogil
    # Read the next header. False at the end of the chunk. If the page before was not loaded, its bytes are not read.
    cdef bint next_page(self) except -1 nogil
    # Make `values` point to the page's bytes, followed by QP_SLACK readable ones. kept: the bytes must be in `body`, to
    # which the caller may take references. A body with other references is not written again. ahead: the next page
    # probably is loaded too, and may be decompressed together with this one.
    cdef int load(self, bint kept, bint ahead) except -1 nogil
    # Called after `open`: whether the chunk begins with a long page to decompress before its turn. If so it is `first`,
    # its bytes are in the window, and `ahead` has room for it.
    cdef bint find_first(self) except -1 nogil
    cdef bint has_room(self, int64_t size) noexcept nogil
    # Decompress `first` together with that of another PageReader.
    cdef void load_first_with(self, PyObject* other) noexcept nogil
    cdef int more(self, int64_t n) except -1 nogil
    cdef void leave_page(self) noexcept nogil
    cdef int decompress(self, const uint8_t* stored, int64_t n, int64_t size, bint ahead) except -1 nogil
    cdef bint decompress_pair(self, const uint8_t* stored, int64_t n, int64_t size) except -1 nogil
    cdef bint fills(self, view, int64_t size) except -1
    cdef int decompress_by_pyarrow(self, const uint8_t* stored, int64_t n, int64_t size) except -1 nogil
    cdef int renew(self, Buffer** held, int64_t size) except -1 nogil
    cdef void close(self) noexcept nogil
    # Raise ExecutionError with file, row group and column.
    cdef int fail(self, const char* fault) except -1 nogil
    cdef str explain(self, str fault)
