"""Known texts: the numbers of texts that were met before, found by one loop.

The look-up of a text in a hash table takes four loops: hash it, read a slot, compare the text, list the rows without a
match. Each reads the text or stores a word for each row. Here a text of up to 31 bytes is loaded once into a register,
with its length. A fingerprint of the register gives the position of a perfect hash, and the key there is compared with
the register. Texts that are longer, or that come later, are not found and must be looked up otherwise.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.data.column cimport StringView, Vector
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.rows.perfect_hash cimport PerfectHash


ctypedef struct KnownTexts:
    PerfectHash hash            # of the fingerprints of the keys
    Buffer* keys                # owned; a TextKey for each number; NULL if no text is known


ctypedef struct TextsDraft:
    # The keys while their hash is made.
    Buffer* keys                # owned
    Buffer* prints              # owned; fingerprints
    Buffer* left_out            # owned; 1 for a text that is too long
    int64_t n_keys
    int64_t n_left_out


cdef void known_texts_free(KnownTexts* texts) noexcept nogil
# Note n rows whose texts were not found. Returns whether it is worth it now to make n_keys texts known.
cdef bint known_texts_note(KnownTexts* texts, int64_t n, int64_t n_keys) noexcept nogil
# Begin to make the texts 0..n_keys known. Returns False, and there is no draft, if memory is short.
cdef bint known_texts_begin(
    KnownTexts* texts, TextsDraft* draft, int64_t n_keys, MemoryAccount* account,
) except -1 nogil
# The texts start..start+n are the n <= VECTOR_ROWS rows of the vector; null is a text too.
cdef void texts_draft_put(TextsDraft* draft, const Vector* vector, int64_t start, int64_t n) noexcept nogil
# Make the texts of the draft known, unless most of them are too long or there is no perfect hash of them.
cdef int known_texts_end(KnownTexts* texts, TextsDraft* draft, MemoryAccount* account) except -1 nogil
cdef void texts_draft_free(TextsDraft* draft) noexcept nogil
# numbers[i] = the number of the text of row i, of n <= VECTOR_ROWS. Lists the rows whose text is not known in `misses`,
# and returns how many.
cdef int64_t known_texts_find(
    const KnownTexts* texts, const Vector* vector, int64_t n, uint32_t* numbers, uint32_t* misses,
) noexcept nogil
# Rows rows[0..n) of a vector of views, n <= VECTOR_ROWS, as a vector. `views` has space for n views, and `validity` for
# the bits of a vector.
cdef void texts_pick(
    const Vector* vector, const uint32_t* rows, int64_t n, StringView* views, uint8_t* validity, Vector* out,
) noexcept nogil
