"""Key runs: rows that come in the order of their only key. Each run of equal keys is a group."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport Vector
from qcore_ext.data.schema cimport DataType
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.rows.key_columns cimport KeyColumns


ctypedef struct KeyRuns:
    # A stretch is a number of rows that are neighbours in their table, in its order. Other rows with the key of its
    # first or of its last row may be elsewhere. All rows with another of its keys are in the stretch.
    MemoryAccount* account      # borrowed
    uint8_t phys                # of the key
    Buffer* ends                # owned; the runs at the ends of stretches (uint32), ascending
    int64_t n_ends
    bint in_stretch             # a row of the current stretch has come


# Whether the keys are a lone column of integers of up to 64 bits, or of a type that is stored as such.
cdef bint key_runs_suit(const DataType* types, int32_t n_keys) noexcept nogil
cdef KeyRuns* key_runs_new(MemoryAccount* account, const DataType* key) except NULL nogil
cdef void key_runs_free(KeyRuns* runs) noexcept nogil       # NULL is ignored
# Forget the runs; `keys` has no rows then.
cdef void key_runs_clear(KeyRuns* runs, KeyColumns* keys) noexcept nogil
# Append the keys of new runs to `keys`, where row g has the key of run g, and set the run of each of the n rows, at most
# VECTOR_ROWS. Returns False if keys are null, or descend within the stretch: then `keys` is as before.
cdef bint key_runs_add(
    KeyRuns* runs, KeyColumns* keys, const Vector* key, int64_t n,
    uint32_t* numbers,          # OUT
) except -1 nogil
# End the stretch of rows, if one has begun.
cdef int key_runs_cut(KeyRuns* runs, const KeyColumns* keys) except -1 nogil
# Divide a batch whose rows are all runs, at the end of a stretch. The batch keeps those that are whole groups and is
# marked as WHOLE_GROUPS; it may keep none. Returns a batch of the others.
cdef Batch* key_runs_divide(const KeyRuns* runs, Batch* batch) except NULL nogil
