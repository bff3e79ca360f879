"""Hashed keys: a perfect hash of the keys of a join table, for one probe driver.

A small table is probed by many rows. With 1K keys a row takes 1.3 ns by a perfect hash and 3 in slots. Each probe
driver makes the hash when its rows are many for the table, so that drivers need not wait for each other.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.ground.probe cimport Slot
from qcore_ext.rows.perfect_hash cimport PerfectHash


cdef enum:
    # With 30K and 60K keys a row takes as long by the hash as in slots, with 125K a tenth longer: it reads three lines
    # of the second-level cache, and in slots one.
    HASHED_ROWS_MAX = 16384


ctypedef struct HashedKeys:
    PerfectHash hash            # the number of a key is the start of its group
    Buffer* buffer              # owned; has words and counts
    uint64_t* words             # the code of the key whose group starts there
    uint32_t* counts            # the number of rows of that group


cdef void hashed_keys_free(HashedKeys* hashed) noexcept nogil
# Note n rows that were looked up in the slots of a table of n_rows rows. Returns whether it is worth it now to hash
# its keys.
cdef bint hashed_keys_note(HashedKeys* hashed, int64_t n, int64_t n_rows) noexcept nogil
# Hash the keys of the slots, whose groups start below n_rows. There is no hash, and hash.buffer is NULL, if too
# many keys fall into one bucket or memory is short.
cdef int hashed_keys_make(
    HashedKeys* hashed, const Slot* slots, int64_t n_slots, int64_t n_rows, MemoryAccount* account,
) except -1 nogil
