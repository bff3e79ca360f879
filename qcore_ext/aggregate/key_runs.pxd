"""Key runs: rows that come in the order of their only key. Each run of equal keys is a group."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.rows.key_columns cimport KeyColumns


ctypedef struct KeyRuns:
    # A stretch is a number of rows that follow each other in their table, in the order of the key. Other rows with the
    # key of its first or of its last row may be elsewhere. All rows with another of its keys are in the stretch.
    #
    # Without fences each batch is a stretch. With fences a stretch is a part of the table, such as a row group of a
    # file. The parts have keys between two fences each, both included, and no other key of one part is in another. That
    # the rows of a part are in order is seen as they come, so no group is whole before its part has ended. Groups that
    # are returned before that are ends too.
    MemoryAccount* account      # borrowed
    uint8_t phys                # of the key
    Buffer* ends                # owned; the runs at the ends of stretches (uint32), ascending
    int64_t n_ends
    bint in_stretch             # a row of the current stretch has come
    Buffer* fences              # owned; int64, ascending; NULL if each batch is a stretch
    int64_t n_fences
    int64_t low                 # the fences around the current part, if in_stretch
    int64_t high
    int64_t n_complete          # runs of the parts before
    bint is_cut                 # the runs of the part so far were returned
    int64_t last                # key of the last of them


# Whether the keys are a lone column of integers of up to 64 bits, or of a type that is stored as such. With fences the
# integers are within int64.
cdef bint key_runs_suit(const DataType* types, int32_t n_keys, bint has_fences) noexcept nogil
# The fences, of which there are two at least unless there are none, are copied.
cdef KeyRuns* key_runs_new(
    MemoryAccount* account, const DataType* key, const int64_t* fences, int64_t n_fences,
) except NULL nogil
cdef void key_runs_free(KeyRuns* runs) noexcept nogil       # NULL is ignored
# Forget the runs, which were returned; `keys` has no rows then.
cdef void key_runs_clear(KeyRuns* runs, KeyColumns* keys) noexcept nogil
# Append the keys of new runs to `keys`, where row g has the key of run g, and set the run of each of the n rows, at
# most VECTOR_ROWS. Returns False if keys are null, outside of all fences, or descend within a stretch: then `keys` is
# as before.
cdef bint key_runs_add(
    KeyRuns* runs, KeyColumns* keys, const Vector* key, int64_t n,
    uint32_t* numbers,          # OUT
) except -1 nogil
# The batch ends, and with it the stretch unless there are fences.
cdef int key_runs_end_batch(KeyRuns* runs, const KeyColumns* keys) except -1 nogil
# The runs are to be returned before more rows come.
cdef int key_runs_cut(KeyRuns* runs, const KeyColumns* keys) except -1 nogil
# Divide a batch whose rows are the runs `start` and following, after key_runs_cut or at the end of the rows. The batch
# keeps those that are whole groups and is marked as WHOLE_GROUPS; it may keep none. Returns a batch of the others, or
# NULL if there are none.
cdef Batch* key_runs_divide(const KeyRuns* runs, Batch* batch, int64_t start) except? NULL nogil
