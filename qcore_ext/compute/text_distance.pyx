"""Edit distances and Jaro similarity of two texts: loops over pairs of letters that check for a stopped query.

A pair of texts is computed without the GIL. Each call has an account below the query's account. It stops with the
query, and its memory counts as the query's.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t

from qcore_ext.ground.memory cimport (
    Account, Buffer, MemoryAccount, account_check, buffer_new, buffer_new_zeroed, buffer_unref,
)
from qcore_ext.ground.thread_token cimport turn_check

from qcore_ext.compute.arrow_call import calling_account

cdef enum:
    # Pairs of letters between two checks for a stopped query: some milliseconds.
    CHECK_PAIRS = 1048576


cdef int count_pairs(int64_t* pairs, int64_t more, const MemoryAccount* account) except -1 nogil:
    """Count pairs of letters. After many pairs check whether the query is stopped."""
    pairs[0] += more
    if pairs[0] < CHECK_PAIRS:
        return 0
    pairs[0] = 0
    account_check(account)
    turn_check()        # when constants are computed the account has no parent
    with gil:
        PyErr_CheckSignals()
    return 0


cdef int64_t count_edits(
    const uint32_t* a, int64_t n, const uint32_t* b, int64_t m, MemoryAccount* account,
) except -1 nogil:
    """The Levenshtein distance, by the table of prefixes, one row at a time."""
    cdef Buffer* buffer = buffer_new(account, (m + 1) * sizeof(int64_t))
    cdef int64_t* row = <int64_t*> buffer.data
    cdef int64_t pairs = 0
    cdef int64_t i, j, at, last, above, best, first, end
    try:
        for j in range(m + 1):
            row[j] = j
        for i in range(n):
            last = i
            row[0] = i + 1
            first = 1
            while first <= m:
                end = min(first + CHECK_PAIRS, m + 1)
                for j in range(first, end):
                    above = row[j]
                    best = last + (a[i] != b[j - 1])
                    best = min(best, above + 1)
                    best = min(best, row[j - 1] + 1)
                    row[j] = best
                    last = above
                count_pairs(&pairs, end - first, account)
                first = end
        at = row[m]
    finally:
        buffer_unref(buffer)
    return at


cdef int64_t count_edits_and_swaps(
    const uint32_t* a, int64_t n, const uint32_t* b, int64_t m, int64_t n_letters, MemoryAccount* account,
) except -1 nogil:
    """The Damerau-Levenshtein distance: two adjacent letters may also be swapped. Letters are numbers below n_letters.

    costs[(i + 1) * width + j + 1] is the distance of the first i letters of one text and the first j of the other.
    """
    cdef int64_t width = m + 2
    cdef int64_t far = n + m
    cdef Buffer* table = buffer_new(account, (n + 2) * width * sizeof(int64_t))
    cdef Buffer* lasts = NULL
    cdef int64_t* costs = <int64_t*> table.data
    cdef int64_t* row_of
    cdef int64_t pairs = 0
    cdef int64_t i, j, row, column, before, best, found
    try:
        lasts = buffer_new_zeroed(account, n_letters * sizeof(int64_t))
        row_of = <int64_t*> lasts.data
        for j in range(width):
            costs[j] = far
            costs[width + j] = j - 1
        costs[width] = far
        for i in range(1, n + 1):
            costs[(i + 1) * width] = far
            costs[(i + 1) * width + 1] = i
            column = 0
            for j in range(1, m + 1):
                row = row_of[b[j - 1]]
                before = column
                if a[i - 1] == b[j - 1]:
                    column = j
                best = costs[i * width + j] + (a[i - 1] != b[j - 1])
                best = min(best, costs[(i + 1) * width + j] + 1)
                best = min(best, costs[i * width + j + 1] + 1)
                best = min(best, costs[row * width + before] + (i - row - 1) + 1 + (j - before - 1))
                costs[(i + 1) * width + j + 1] = best
            row_of[a[i - 1]] = i
            count_pairs(&pairs, m, account)
        found = costs[(n + 1) * width + m + 1]
    finally:
        buffer_unref(table)
        buffer_unref(lasts)
    return found


cdef double jaro_similarity(
    const uint32_t* a, int64_t n, const uint32_t* b, int64_t m, MemoryAccount* account,
) except -1.0 nogil:
    """The Jaro similarity: the share of letters that match at nearby positions, reduced by those in another order."""
    cdef int64_t reach = max(max(n, m) / 2 - 1, <int64_t> 0)
    cdef int64_t pairs = 0
    cdef int64_t n_met = 0
    cdef int64_t n_moved = 0
    cdef int64_t i, j, begin, end
    cdef int64_t k = 0
    cdef Buffer* matched_buffer = buffer_new_zeroed(account, m)
    cdef Buffer* met_buffer = NULL
    cdef uint8_t* matched = <uint8_t*> matched_buffer.data      # the letters of b that match a letter of a
    cdef uint32_t* met                                          # the matching letters of a, in order
    try:
        met_buffer = buffer_new(account, n * sizeof(uint32_t))
        met = <uint32_t*> met_buffer.data
        for i in range(n):
            j = max(i - reach, <int64_t> 0)
            begin = j
            end = min(i + reach + 1, m)
            while j < end and (matched[j] or b[j] != a[i]):
                j += 1
            if j < end:
                matched[j] = 1
                met[n_met] = a[i]
                n_met += 1
            count_pairs(&pairs, j - begin + 1, account)
        for j in range(m):
            if matched[j]:
                n_moved += met[k] != b[j]
                k += 1
    finally:
        buffer_unref(matched_buffer)
        buffer_unref(met_buffer)
    if n_met == 0:
        return 0.0
    return (<double> n_met / n + <double> n_met / m + <double> (n_met - n_moved / 2) / n_met) / 3


cdef class LetterPair:
    """Two texts as arrays of letters, and the account that is charged for their comparison."""

    cdef bytes a_bytes
    cdef bytes b_bytes
    cdef const uint32_t* a      # borrowed from a_bytes
    cdef const uint32_t* b      # borrowed from b_bytes
    cdef Account account

    def __cinit__(self, str a, str b):
        cdef const char* letters
        self.account = calling_account()
        self.a_bytes = a.encode("utf-32-le")
        self.b_bytes = b.encode("utf-32-le")
        letters = self.a_bytes
        self.a = <const uint32_t*> letters
        letters = self.b_bytes
        self.b = <const uint32_t*> letters


def levenshtein(str a, str b):
    """Return the smallest number of letters to insert, delete or replace that changes one text to the other."""
    cdef LetterPair pair = LetterPair(a, b)
    cdef int64_t n = len(a)
    cdef int64_t m = len(b)
    cdef int64_t found
    with nogil:
        found = count_edits(pair.a, n, pair.b, m, pair.account.account)
    return found


def damerau_levenshtein(str a, str b):
    """Return the smallest number of edits, which may also swap two adjacent letters and edit between them later."""
    known = "".join(sorted(set(a) | set(b)))
    # Letters are replaced by their ranks, because the table of last rows has an element for each number up to the
    # largest.
    ranks = {ord(letter): chr(rank) if rank < 0xD800 else chr(rank + 0x800) for rank, letter in enumerate(known)}
    cdef LetterPair pair = LetterPair(a.translate(ranks), b.translate(ranks))
    cdef int64_t n = len(a)
    cdef int64_t m = len(b)
    cdef int64_t n_letters = <int64_t> len(known) + 0x801
    cdef int64_t found
    with nogil:
        found = count_edits_and_swaps(pair.a, n, pair.b, m, n_letters, pair.account.account)
    return found


def jaro(str a, str b):
    """Return the Jaro similarity: from 0, no letter in common, to 1, equal; 0 if a text is empty."""
    cdef int64_t n = len(a)
    cdef int64_t m = len(b)
    cdef double found
    cdef LetterPair pair
    if n == 0 or m == 0:
        return 0.0
    pair = LetterPair(a, b)
    with nogil:
        found = jaro_similarity(pair.a, n, pair.b, m, pair.account.account)
    return found
