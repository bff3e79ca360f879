"""Key places: a perfect hash of the keys of a group table, each of one word. Each key has a place of its own.

One multiplication, the shift of the key's bucket and the group at its place give a group, whose key is compared.
Nothing is searched, and a place takes 4 bytes where a slot takes 16. 1K groups: 1.3 instead of 4 ns a row, 16K groups:
2 instead of 6.

Making the places costs 50 ns a key, so they are made when the rows looked up otherwise have cost as much. Keys that
come later have no place, and are looked up in the slots.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from qcore_ext.ground.memory cimport Buffer, MemoryAccount


ctypedef struct KeyPlaces:
    Buffer* buffer              # owned; NULL if there are no places
    uint32_t* groups            # the group of each place; of an empty place, any group
    uint16_t* shifts            # what moves the places of a bucket's keys
    uint64_t factor
    int bucket_shift            # key * factor >> bucket_shift is the bucket
    int place_shift
    uint64_t place_mask
    int64_t n_groups            # number of groups when they were made
    int64_t rows_without        # rows that were looked up otherwise since then


cdef void key_places_free(KeyPlaces* places) noexcept nogil
# Note n rows whose keys were not found in the places. Makes the places of the keys of groups 0..n_groups when they are
# worth it.
# Keys with nulls have no place.
cdef int key_places_note(
    KeyPlaces* places, int64_t n, const uint64_t* words, const uint32_t* nulls, int64_t n_groups,
    MemoryAccount* account,
) except -1 nogil
# groups[i] = the group whose key has the place of key low[i]. Returns whether all of these keys are equal to low[i].
cdef bint key_places_find(
    const KeyPlaces* places, const uint64_t* words, const uint64_t* low, int64_t n, uint32_t* groups,
) noexcept nogil
