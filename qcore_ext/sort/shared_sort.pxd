"""The sort that the drivers of an OrderBy share.

Each driver delivers its rows. The last one to deliver lays out the prefixes for the rows of all. Then all drivers work,
in three stages that each have a number of items to claim:

1. COUNT: compute the prefixes of a stripe of rows, and count its rows in each part. The parts are ranges of prefixes
   with about the same number of rows, chosen by a sample.
2. SCATTER: move the rows of a stripe to their parts.
3. SORT: sort a part within the cache, and fill its rows of the output columns.

The driver that delivered last returns the columns. A driver with few rows does not wait for the others: it leaves once
it has delivered.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport CSchema
from qcore_ext.flow.barrier cimport Barrier, Membership
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Account, Buffer, MemoryAccount
from qcore_ext.ground.wait_token cimport WaitSet, WaitToken
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.sort.order cimport KeyRange, SortKey, SortOrder
from qcore_ext.sort.sorted_columns cimport SortedColumns

cdef enum SortStage:
    STAGE_COLLECT = 0           # drivers deliver
    STAGE_COUNT = 1
    STAGE_SCATTER = 2
    STAGE_SORT = 3
    STAGE_OUTPUT = 4
    STAGE_OVER = 5              # without output: the driver that delivered last needs none

cdef enum:
    HELPER_ROWS_MIN = 32768     # a driver with fewer rows does not wait to help


ctypedef struct SortInput:
    # The rows of one driver.
    ColumnStore* rows           # owned
    CSchema* schema             # owned
    KeyRange* ranges            # owned; one a key
    Vector* keys                # owned; one a key, over all rows
    int64_t first               # number of the first row (sorted_columns)
    int64_t position            # rows of the inputs before this one


ctypedef struct Stripe:
    int64_t input               # number of the SortInput
    int64_t start               # a multiple of CHUNK_ROWS
    int64_t n_rows


cdef class SortState:
    """Shared by one task's drivers. A driver takes the lock only when it delivers."""
    cdef Mutex mutex
    cdef readonly int64_t n_drivers
    cdef Barrier barrier
    cdef WaitSet waiters
    cdef int64_t n_inputs
    cdef SortInput* inputs          # owned; space for n_drivers
    cdef int64_t stage              # SortStage; atomic
    cdef int64_t n_items[4]         # by stage; constant from STAGE_COUNT on, as all that follows
    cdef int64_t next_item[4]       # atomic
    cdef int64_t n_done[4]          # atomic
    cdef SortKey* parts             # owned; the keys, laid out for all rows
    cdef int32_t n_keys
    cdef int32_t first_open
    cdef CSchema* schema            # owned
    cdef int64_t n_rows
    cdef Stripe* stripes            # owned
    cdef int64_t n_parts
    cdef bint has_words             # words are sorted, because all columns are in the prefix
    cdef Buffer* part_of            # owned; the part of each range of prefixes (uint16)
    cdef Buffer* counts             # owned; uint32 for each stripe and part: its rows, then their next position
    cdef int64_t* begins            # owned; first row of each part, and the end
    cdef Buffer* prefixes           # owned; of all rows, by position; NULL if words are sorted
    cdef Buffer* items              # owned; uint64 or SortEntry of all rows, by part
    cdef Vector* tie_keys           # owned; the keys by row number; only those from first_open on are set
    cdef Buffer** tie_buffers       # owned; two a key: values and validity, or NULL
    cdef SortedColumns columns

    cdef void join(self, Membership* member) noexcept nogil     # called by each operator before it runs
    # Deliver a driver's rows and their ownership, also on error. `rows` is NULL if it had none or was abandoned.
    # Returns True for the last driver, which then calls begin(), or stop() if it was abandoned.
    cdef bint deliver(
        self, ColumnStore* rows, CSchema* schema, SortOrder order, Account memory, Membership* member,
    ) except -1 nogil
    # Leave the barrier without rows. Returns as deliver.
    cdef bint leave(self, Membership* member) noexcept nogil
    cdef int begin(self, SortOrder order, CSchema* schema, Account memory) except -1 nogil
    cdef void stop(self) noexcept nogil
    cdef void drop_columns(self) noexcept nogil     # after the last row was returned; before the output it does nothing
    # Work on one item of the current stage. Returns False if there was none to claim. *scratch is the driver's own
    # buffer, or NULL.
    cdef bint work(self, Buffer** scratch, MemoryAccount* account) except -1 nogil
    # Returns the stage. If it is `seen` then `token` will be fired when it changes.
    cdef int64_t poll(self, int64_t seen, WaitToken* token) except -1 nogil

    cdef int measure(self, SortInput* input, SortOrder order, MemoryAccount* account) except -1 nogil
    cdef int make_items(self, MemoryAccount* account) except -1 nogil
    cdef int align(self, SortOrder order, CSchema* schema, Account memory) except -1 nogil
    cdef int lay_out(self, SortOrder order) except -1 nogil
    cdef int number_rows(self) except -1 nogil
    cdef int choose_parts(self, MemoryAccount* account) except -1 nogil
    cdef int make_stripes(self) except -1 nogil
    cdef int make_tie_keys(self, MemoryAccount* account) except -1 nogil
    cdef int count(self, int64_t number, MemoryAccount* account) except -1 nogil
    cdef int fetch_items(self, const Stripe* stripe, MemoryAccount* account) except -1 nogil
    cdef int copy_tie_keys(self, const Stripe* stripe, MemoryAccount* account) except -1 nogil
    cdef int scatter(self, int64_t number, MemoryAccount* account) except -1 nogil
    cdef int sort_part(self, int64_t number, Buffer** scratch, MemoryAccount* account) except -1 nogil
    cdef void advance(self, int64_t stage) noexcept nogil
    cdef void number_parts(self) noexcept nogil
    cdef void drop_rows(self) noexcept nogil
    cdef void drop_prefixes(self) noexcept nogil
