"""The values of one column, decoded from its pages into columns of the engine."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport Column
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount, OwnerList
from qcore_ext.parquet.kernels cimport QpDelta, QpKernels, QpRuns
from qcore_ext.parquet.pages cimport PageReader


cpdef enum Conversion:
    # How stored values become the engine's.
    CONVERT_NONE = 0            # the same bytes
    CONVERT_WIDEN = 1           # 4 bytes to 8
    CONVERT_CUT = 2             # 4 bytes to 1 or 2
    CONVERT_DECIMAL = 3         # big-endian bytes to 8
    CONVERT_DECIMAL_WIDE = 4    # big-endian bytes to 16
    CONVERT_BITS = 5            # booleans
    CONVERT_TEXT = 6            # strings to views


cdef enum Mode:
    # How the current page stores its values.
    MODE_PLAIN
    MODE_CODES
    MODE_BITS
    MODE_DELTA
    MODE_LENGTHS
    MODE_STREAMS


ctypedef struct Parts:
    # The parts of a future column; each owned or NULL.
    Buffer* values
    Buffer* indices             # codes, as long as all pages have codes and values are views
    Buffer* bits                # which rows have a value, if the column is optional
    OwnerList* heap             # of views


cdef class ColumnReader:
    cdef PageReader pages
    cdef const QpKernels* kernels
    cdef DataType type                  # of the columns that are made
    cdef int conversion
    cdef int width                      # bytes of a stored value; 0: of any length
    cdef int size                       # bytes of a value in the columns: 1, 2, 4, 8 or 16
    cdef int lane                       # its logarithm
    cdef bint is_optional
    cdef bint is_text                   # strings must be UTF-8
    cdef bint is_integer                # values are stored as integers of 4 or 8 bytes
    cdef int64_t group_left             # rows of the row group that no page had yet
    cdef int64_t to_skip                # rows to skip before the next ones that are read
    cdef bint is_needed                 # the column chunk probably is read, as the one before it was
    cdef bint was_read                  # something of the column chunk was read
    cdef bint skips_pages               # a page of the column chunk was skipped
    cdef readonly int64_t pages_skipped     # pages of which only the header was read
    cdef MemoryAccount* account         # borrowed
    # The dictionary of the column chunk.
    cdef bint has_dictionary
    cdef int64_t n_dictionary
    cdef Buffer* dictionary             # owned; its values
    cdef Column* dictionary_column      # owned; the same as a column, for views
    # The current page.
    cdef Mode mode
    cdef int64_t page_left              # rows that were not read
    cdef int64_t page_at                # rows that were read
    cdef bint page_is_ascii
    cdef bint levels_are_msb
    cdef const uint8_t* levels_at       # of levels_are_msb
    cdef QpRuns levels
    cdef QpRuns codes
    cdef QpDelta delta
    cdef const uint8_t* at              # the next stored value
    cdef const uint8_t* end
    cdef int64_t streams_total          # values of a page with byte streams
    cdef int64_t streams_at

    # Begin a column chunk.
    cdef int open(self, MemoryAccount* account, int file, int64_t group, int64_t n_rows, int64_t start,
                  int64_t n_bytes, int64_t n_uncompressed) except -1 nogil
    # The next n rows, or the m of them whose numbers `rows` has, ascending from 0 on, as a column that the caller owns.
    cdef Column* read(self, int64_t n, const uint32_t* rows, int64_t m) except NULL nogil
    cdef void skip(self, int64_t n) noexcept nogil
    cdef void close(self) noexcept nogil
    cdef int turn_page(self) except -1 nogil
    cdef bint skips_page(self) except -1 nogil
    cdef int skip_rows(self) except -1 nogil
    cdef int skip_values(self, int64_t n) except -1 nogil
    cdef int read_dictionary(self) except -1 nogil
    cdef int begin_page(self) except -1 nogil
    cdef int begin_values(self, const uint8_t* at, const uint8_t* end) except -1 nogil
    cdef int64_t read_levels(self, int64_t n, uint8_t* validity, int64_t at) except -1 nogil
    cdef int give_up_codes(self, Parts* parts, int64_t n_rows, int64_t n_done) except -1 nogil
    cdef int64_t read_step(self, Parts* parts, int64_t n_rows, int64_t done, int64_t step) except -1 nogil
    cdef int64_t read_all(self, Parts* parts, int64_t n) except -1 nogil
    cdef int64_t read_chosen(self, Parts* parts, int64_t n, const uint32_t* rows, int64_t m) except -1 nogil
    cdef int64_t pick_step(
        self, Parts* parts, int64_t m, int64_t done, const uint32_t* rows, int64_t first, int64_t k, int64_t step,
    ) except -1 nogil
    cdef void pass_rows(self, int64_t n) noexcept nogil
    cdef Column* finish(self, Parts* parts, int64_t n, bint has_nulls) except NULL nogil
    cdef int decode(self, int64_t n, char* out, OwnerList* heap) except -1 nogil
    cdef int decode_codes(self, int64_t n, uint32_t* out) except -1 nogil
    cdef int pick(
        self, const uint32_t* places, int64_t k, int64_t n, char* out, OwnerList* heap,
    ) except -1 nogil
    cdef int pick_codes(self, const uint32_t* places, int64_t k, int64_t n, uint32_t* out) except -1 nogil
    cdef int pick_bytes(self, const uint32_t* places, int64_t k, int64_t n, uint8_t* out) except -1 nogil
    cdef int keep_heap(self, const void* views, int64_t n, OwnerList* heap) except -1 nogil
    cdef int plain(self, const uint8_t** at, const uint8_t* end, int64_t n, char* out) except -1 nogil
    cdef int require_text(self, const void* views, int64_t n) except -1 nogil
