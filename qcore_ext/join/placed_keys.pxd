"""Placed keys: the keys of a join table at places of their own (key_places), for one probe driver.

A table of few keys is probed by many rows. With 1K keys a row takes 1.3 ns at a place and 3 in slots. Each probe driver
makes the places when its rows are many for the keys, so that drivers need not wait for each other.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.ground.probe cimport Group, Slot
from qcore_ext.rows.key_places cimport KeyPlaces


ctypedef struct PlacedKeys:
    KeyPlaces places
    Buffer* buffer              # owned; has words and groups
    uint64_t* words             # the code of each key
    Group* groups               # the group of each key; NULL if a key's number is the start of its group


cdef void placed_keys_free(PlacedKeys* placed) noexcept nogil
# Note n rows that were looked up in the slots of a table with n_keys keys. Returns whether it is worth it now to place
# them.
cdef bint placed_keys_note(PlacedKeys* placed, int64_t n, int64_t n_keys) noexcept nogil
# Place the keys of the slots. If `numbers_max` is not 0, each group has one row, and starts below `numbers_max`; the
# start is then the number of the group's key, unless most numbers would have no key. There are no places, and
# places.buffer is NULL, if too many keys fall into one bucket or memory is short.
cdef int placed_keys_make(
    PlacedKeys* placed, const Slot* slots, int64_t n_slots, int64_t n_keys, int64_t numbers_max, MemoryAccount* account,
) except -1 nogil
