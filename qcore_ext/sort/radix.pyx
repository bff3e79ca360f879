"""Radix sort of words, and of entries by their prefixes.

Items that do not fit the cache are first divided by their highest eight bits that differ. Items that fit are sorted by
one or two digits, from the lowest up. These digits cover only as many of the highest differing bits as are needed to
distinguish most items. The few items that are equal in these bits are sorted by the rest. Sorted input is not changed.
Where the processor has a kernel that sorts words (`native/sorting.h`), it sorts words that fit the cache, in place. It
also sorts few entries, as words of their highest differing bits above their positions.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.dispatch cimport sorting_kernels
from qcore_ext.ground.memory cimport CHECK_ROWS, MemoryAccount, account_stopped, give_way

cdef extern from "native/clz.h" nogil:
    int qc_log2_ceil(uint64_t value)
    int qc_count_trailing_zeros(uint64_t value)

cdef enum:
    INSERTION_MAX = 24          # up to here insertion sort is fastest
    CACHE_BYTES = 524288        # items that are sorted within the second-level cache, by the radix sort
    KERNEL_BYTES = 1048576      # words that the kernel sorts within it: in place
    SPLIT_BITS = 8              # bits that divide items which do not fit it
    PACKED_MAX = 2048           # entries that the kernel sorts: their words are on the stack
    DIGIT_BITS = 11             # of one pass: its counters and open cache lines fit the first two cache levels
    SPARE_BITS = 3              # beyond the binary logarithm of the number of items: one item in 16 has an equal


cdef bint is_stopped(const MemoryAccount* account) noexcept nogil:
    if account_stopped(account):
        return True
    give_way()
    return False


cdef inline uint64_t word_at(const SortItem* items, int64_t i) noexcept nogil:
    if SortItem is uint64_t:
        return items[i]
    else:
        return items[i].prefix


cdef void insertion_sort(SortItem* items, int64_t n) noexcept nogil:
    cdef SortItem moving
    cdef uint64_t word
    cdef int64_t i, j
    for i in range(1, n):
        moving = items[i]
        word = word_at(items, i)
        j = i
        while j > 0 and word_at(items, j - 1) > word:
            items[j] = items[j - 1]
            j -= 1
        items[j] = moving


cdef bint look_over(const SortItem* items, int64_t n, uint64_t* differing, const MemoryAccount* account) noexcept nogil:
    """Set the bits in which items differ. Returns whether the items are in order, or the query is stopped."""
    cdef uint64_t first = word_at(items, 0)
    cdef uint64_t last = first
    cdef uint64_t bits = 0
    cdef uint64_t word
    cdef int64_t descents = 0
    cdef int64_t start = 0
    cdef int64_t i
    while start < n:
        if is_stopped(account):
            return True
        for i in range(start, min(n, start + CHECK_ROWS)):
            word = word_at(items, i)
            bits |= word ^ first
            descents += word < last
            last = word
        start += CHECK_ROWS
    differing[0] = bits
    return descents == 0


cdef void add_up(uint32_t* counts, int64_t n) noexcept nogil:
    """Replace counts by the positions at which each begins."""
    cdef uint32_t at = 0
    cdef uint32_t here
    cdef int64_t i
    for i in range(n):
        here = counts[i]
        counts[i] = at
        at += here


cdef bint distribute(
    const SortItem* items, SortItem* out, int64_t n, uint32_t* positions, int shift, uint64_t mask,
    const MemoryAccount* account,
) noexcept nogil:
    """Move each item to the next position of its digit. Returns False if the query is stopped."""
    cdef uint64_t digit
    cdef int64_t start = 0
    cdef int64_t i
    while start < n:
        if is_stopped(account):
            return False
        for i in range(start, min(n, start + CHECK_ROWS)):
            digit = (word_at(items, i) >> shift) & mask
            qc_check(positions[digit] < n, b"a digit's next position is within the items")
            out[positions[digit]] = items[i]
            positions[digit] += 1
        start += CHECK_ROWS
    return True


cdef void copy_items(const SortItem* items, SortItem* out, int64_t n, const MemoryAccount* account) noexcept nogil:
    cdef int64_t start = 0
    while start < n and not is_stopped(account):
        memcpy(out + start, items + start, min(n - start, <int64_t> CHECK_ROWS) * sizeof(SortItem))
        start += CHECK_ROWS


cdef void split(
    SortItem* items, SortItem* other, int64_t n, int top, const MemoryAccount* account,
) noexcept nogil:
    """Divide the items by the SPLIT_BITS bits below `top`, and sort each part."""
    cdef uint32_t positions[1 << SPLIT_BITS]
    cdef int shift = max(top - SPLIT_BITS, 0)
    cdef uint64_t mask = (1 << SPLIT_BITS) - 1
    cdef int64_t start = 0
    cdef int64_t i, end
    memset(positions, 0, sizeof(positions))
    while start < n:
        if is_stopped(account):
            return
        for i in range(start, min(n, start + CHECK_ROWS)):
            positions[(word_at(items, i) >> shift) & mask] += 1
        start += CHECK_ROWS
    add_up(positions, 1 << SPLIT_BITS)
    if not distribute(items, other, n, positions, shift, mask, account):
        return
    qc_check(positions[(1 << SPLIT_BITS) - 1] == n, b"the parts have all items")
    start = 0
    for i in range(1 << SPLIT_BITS):
        end = positions[i]              # of this part, now that it is filled
        if end > start:
            copy_items(other + start, items + start, end - start, account)
            if shift > 0:
                sort_items(items + start, other + start, end - start, account)
        start = end


cdef void sort_equals(
    SortItem* items, SortItem* other, int64_t n, int shift, const MemoryAccount* account,
) noexcept nogil:
    """Sort the ranges of items that are equal above bit `shift`."""
    cdef int64_t start = 0
    cdef int64_t end
    cdef uint64_t high
    while start < n:
        high = word_at(items, start) >> shift
        end = start + 1
        while end < n and word_at(items, end) >> shift == high:
            end += 1
        if end - start > 1:
            sort_items(items + start, other + start, end - start, account)
        start = end


cdef void sort_packed(
    SortEntry* items, SortEntry* other, int64_t n, int top, int span, const MemoryAccount* account,
) noexcept nogil:
    """Sort up to PACKED_MAX entries that differ in `span` bits below bit `top`, by the kernel."""
    cdef uint64_t words[PACKED_MAX]
    cdef int index_bits = qc_log2_ceil(n)
    cdef uint64_t index_mask = ((<uint64_t> 1) << index_bits) - 1
    cdef int kept = min(span, 64 - index_bits)
    cdef int shift = top - kept
    cdef int64_t i
    for i in range(n):
        # Entries are equal in the bits that are shifted out.
        words[i] = ((items[i].prefix >> shift) << index_bits) | <uint64_t> i
    sorting_kernels().sort_words(words, n)
    memcpy(other, items, n * sizeof(SortEntry))
    for i in range(n):
        items[i] = other[words[i] & index_mask]
    if kept < span:
        sort_equals(items, other, n, shift, account)


cdef void sort_items(SortItem* items, SortItem* other, int64_t n, const MemoryAccount* account) noexcept nogil:
    cdef uint32_t low_counts[1 << DIGIT_BITS]
    cdef uint32_t high_counts[1 << DIGIT_BITS]
    cdef uint64_t differing, mask, word
    cdef int top, span, wanted, digit, shift
    cdef int64_t i, start
    cdef bint has_kernel
    if n <= INSERTION_MAX:
        insertion_sort(items, n)
        return
    if look_over(items, n, &differing, account):
        return
    top = 64 if differing >> 63 else qc_log2_ceil(differing + 1)
    span = top - qc_count_trailing_zeros(differing)
    has_kernel = sorting_kernels().sort_words != NULL
    if SortItem is uint64_t:
        if has_kernel and span > DIGIT_BITS and n * <int64_t> sizeof(uint64_t) <= KERNEL_BYTES:
            sorting_kernels().sort_words(items, n)
            return
    else:
        if has_kernel and n <= PACKED_MAX:
            sort_packed(items, other, n, top, span, account)
            return
    if n * <int64_t> sizeof(SortItem) > CACHE_BYTES and span > DIGIT_BITS:
        split(items, other, n, top, account)
        return
    wanted = min(span, min(qc_log2_ceil(n) + SPARE_BITS, 2 * DIGIT_BITS))
    digit = wanted if wanted <= DIGIT_BITS else (wanted + 1) // 2
    shift = top - wanted
    mask = ((<uint64_t> 1) << digit) - 1
    memset(low_counts, 0, sizeof(uint32_t) << digit)
    memset(high_counts, 0, sizeof(uint32_t) << digit)
    start = 0
    while start < n:
        if is_stopped(account):
            return
        for i in range(start, min(n, start + CHECK_ROWS)):
            word = word_at(items, i) >> shift
            low_counts[word & mask] += 1
            high_counts[(word >> digit) & mask] += 1
        start += CHECK_ROWS
    add_up(low_counts, 1 << digit)
    if not distribute(items, other, n, low_counts, shift, mask, account):
        return
    if digit == wanted:
        copy_items(other, items, n, account)
    else:
        # The second digit may reach above `top`, where all items are equal.
        add_up(high_counts, 1 << digit)
        if not distribute(other, items, n, high_counts, shift + digit, mask, account):
            return
    if wanted < span:
        sort_equals(items, other, n, shift, account)


cdef void radix_sort_entries(
    SortEntry* items, SortEntry* other, int64_t n, const MemoryAccount* account,
) noexcept nogil:
    sort_items[SortEntry](items, other, n, account)


cdef void radix_sort_words(uint64_t* items, uint64_t* other, int64_t n, const MemoryAccount* account) noexcept nogil:
    sort_items[uint64_t](items, other, n, account)
