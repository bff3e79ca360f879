"""Known texts: the numbers of texts that were met before, found by one loop."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from qcore_ext.data.column cimport VECTOR_BITMAP_BYTES, VECTOR_ROWS, StringView, Vector
from qcore_ext.data.schema cimport PHYS_VIEW
from qcore_ext.ground.bitmap cimport bit_get, bit_set
from qcore_ext.ground.bytes_left cimport bytes_left
from qcore_ext.ground.check cimport qc_check, qc_check_rows
from qcore_ext.ground.dispatch cimport grouping_kernels
from qcore_ext.ground.grouping cimport TEXT_LONGER, TextKey
from qcore_ext.ground.memory cimport MemoryAccount, buffer_new, buffer_unref
from qcore_ext.rows.perfect_hash cimport GROUP_ROWS_A_KEY, perfect_hash_free, perfect_hash_make, perfect_hash_note

cdef enum:
    TEXTS_MAX = 65536           # keys of 2 MB, the size of a second-level cache
    SHARE_LEFT = 4              # at most a quarter of the memory that is left: a query runs without known texts


cdef void known_texts_free(KnownTexts* texts) noexcept nogil:
    perfect_hash_free(&texts.hash)
    buffer_unref(texts.keys)
    texts.keys = NULL


cdef bint known_texts_note(KnownTexts* texts, int64_t n, int64_t n_keys) noexcept nogil:
    return perfect_hash_note(&texts.hash, n, n_keys, TEXTS_MAX, GROUP_ROWS_A_KEY)


cdef int64_t known_texts_find(
    const KnownTexts* texts, const Vector* vector, int64_t n, uint32_t* numbers, uint32_t* misses,
) noexcept nogil:
    cdef int64_t n_misses
    qc_check(0 <= n <= VECTOR_ROWS, b"the texts of at most a vector of rows are found at a time")
    qc_check(vector.phys == PHYS_VIEW, b"texts are found in a vector of views")
    n_misses = grouping_kernels().find_texts(
        &texts.hash.at, <const TextKey*> texts.keys.data, vector.values, vector.validity, n, numbers, misses
    )
    qc_check_rows(numbers, n, texts.hash.at.n_keys, b"the number of a known text is one of the numbers")
    return n_misses


cdef void texts_pick(
    const Vector* vector, const uint32_t* rows, int64_t n, StringView* views, uint8_t* validity, Vector* out,
) noexcept nogil:
    cdef const StringView* values = <const StringView*> vector.values
    cdef int64_t i
    qc_check(0 <= n <= VECTOR_ROWS, b"at most a vector of texts is picked at a time")
    out[0] = vector[0]
    out.values = views
    for i in range(n):
        views[i] = values[rows[i]]
    if vector.validity != NULL:
        out.validity = validity
        memset(validity, 0, VECTOR_BITMAP_BYTES)
        for i in range(n):
            if bit_get(vector.validity, rows[i]):
                bit_set(validity, i)


# --- making ---

cdef void texts_draft_free(TextsDraft* draft) noexcept nogil:
    buffer_unref(draft.keys)
    buffer_unref(draft.prints)
    buffer_unref(draft.left_out)
    memset(draft, 0, sizeof(TextsDraft))


cdef bint known_texts_begin(
    KnownTexts* texts, TextsDraft* draft, int64_t n_keys, MemoryAccount* account,
) except -1 nogil:
    cdef int64_t key_bytes = sizeof(TextKey) + sizeof(uint64_t) + sizeof(uint32_t)
    cdef bint done = False
    memset(draft, 0, sizeof(TextsDraft))
    known_texts_free(texts)
    # Whether or not there is a hash of them, the same texts are not tried again.
    texts.hash.at.n_keys = n_keys
    if n_keys * key_bytes > bytes_left(account) // SHARE_LEFT:
        return False
    try:
        draft.keys = buffer_new(account, n_keys * sizeof(TextKey))
        draft.prints = buffer_new(account, n_keys * sizeof(uint64_t))
        draft.left_out = buffer_new(account, n_keys * sizeof(uint32_t))
        draft.n_keys = n_keys
        done = True
    finally:
        if not done:
            texts_draft_free(draft)
    return True


cdef void texts_draft_put(TextsDraft* draft, const Vector* vector, int64_t start, int64_t n) noexcept nogil:
    cdef TextKey* keys = <TextKey*> draft.keys.data + start
    cdef uint32_t* left_out = <uint32_t*> draft.left_out.data + start
    cdef int64_t i
    qc_check((start >= 0) & (start + n <= draft.n_keys), b"texts that become known have space in their draft")
    grouping_kernels().text_keys(vector.values, vector.validity, n, keys, <uint64_t*> draft.prints.data + start)
    for i in range(n):
        left_out[i] = (<const uint8_t*> &keys[i])[sizeof(TextKey) - 1] == TEXT_LONGER
        draft.n_left_out += left_out[i]


cdef int known_texts_end(KnownTexts* texts, TextsDraft* draft, MemoryAccount* account) except -1 nogil:
    if 2 * draft.n_left_out > draft.n_keys:
        return 0
    perfect_hash_make(
        &texts.hash, <const uint64_t*> draft.prints.data, <const uint32_t*> draft.left_out.data, draft.n_keys, account
    )
    if texts.hash.buffer != NULL:
        texts.keys = draft.keys
        draft.keys = NULL
    return 0
