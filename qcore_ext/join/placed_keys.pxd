"""Placed keys: the keys of a join table at places of their own (key_places), for one probe driver.

A small table is probed by many rows. With 1K keys a row takes 1.3 ns at a place and 3 in slots. Each probe driver makes
the places when its rows are many for the table, so that drivers need not wait for each other.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.ground.probe cimport Slot
from qcore_ext.rows.key_places cimport KeyPlaces


ctypedef struct PlacedKeys:
    KeyPlaces places            # the number of a key is the start of its group
    Buffer* buffer              # owned; has words and counts
    uint64_t* words             # the code of the key whose group starts there
    uint32_t* counts            # the number of rows of that group


cdef void placed_keys_free(PlacedKeys* placed) noexcept nogil
# Note n rows that were looked up in the slots of a table of n_rows rows. Returns whether it is worth it now to place
# its keys.
cdef bint placed_keys_note(PlacedKeys* placed, int64_t n, int64_t n_rows) noexcept nogil
# Place the keys of the slots, whose groups start below n_rows. There are no places, and places.buffer is NULL, if too
# many keys fall into one bucket or memory is short.
cdef int placed_keys_make(
    PlacedKeys* placed, const Slot* slots, int64_t n_slots, int64_t n_rows, MemoryAccount* account,
) except -1 nogil
