"""Key runs: rows that come in the order of their only key. Each run of equal keys is a group.

No row is hashed, and no table of groups is kept. A run that is not at an end of its stretch of rows is a whole group:
no other row has its key. Velox's StreamingAggregation also groups rows in the order of their keys; it needs all of them
on one driver, or partitioned by ranges of keys.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from qcore_ext.data.batch cimport WHOLE_GROUPS, batch_select, batch_unref, batch_with_schema
from qcore_ext.data.column cimport VECTOR_ROWS
from qcore_ext.data.schema cimport (
    PHYS_I8, PHYS_I16, PHYS_I32, PHYS_I64, PHYS_U16, PHYS_U32, PHYS_U64,
)
from qcore_ext.ground.bitmap cimport bit_get
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport Owner, buffer_grow, buffer_new, buffer_unref, struct_free, struct_new
from qcore_ext.ground.words cimport Integer
from qcore_ext.rows.key_columns cimport key_columns_append

cdef enum:
    FIRST_ENDS = 1024


cdef bint key_runs_suit(const DataType* types, int32_t n_keys, bint has_fences) noexcept nogil:
    return n_keys == 1 and PHYS_I8 <= types[0].phys <= (PHYS_U32 if has_fences else PHYS_U64)


cdef KeyRuns* key_runs_new(
    MemoryAccount* account, const DataType* key, const int64_t* fences, int64_t n_fences,
) except NULL nogil:
    cdef KeyRuns* runs = <KeyRuns*> struct_new(sizeof(KeyRuns))
    cdef bint done = False
    runs.account = account
    runs.phys = key.phys
    try:
        if n_fences > 0:
            qc_check(n_fences > 1, b"a part has two fences")
            runs.fences = buffer_new(account, n_fences * sizeof(int64_t))
            runs.n_fences = n_fences
            memcpy(runs.fences.data, fences, n_fences * sizeof(int64_t))
        done = True
    finally:
        if not done:
            struct_free(runs)
    return runs


cdef void key_runs_free(KeyRuns* runs) noexcept nogil:
    if runs != NULL:
        buffer_unref(runs.ends)
        buffer_unref(runs.fences)
        struct_free(runs)


cdef void key_runs_clear(KeyRuns* runs, KeyColumns* keys) noexcept nogil:
    keys.n_rows = 0             # the bytes of fixed width are reused
    runs.n_ends = 0
    runs.n_complete = 0


# --- parts between fences ---

cdef int64_t key_at(const KeyRuns* runs, const Vector* key, int64_t i) noexcept nogil:
    """The key of a row, of a type within int64."""
    if runs.phys == PHYS_I64:
        return (<const int64_t*> key.values)[i]
    if runs.phys == PHYS_I32:
        return (<const int32_t*> key.values)[i]
    if runs.phys == PHYS_I16:
        return (<const int16_t*> key.values)[i]
    if runs.phys == PHYS_I8:
        return (<const int8_t*> key.values)[i]
    if runs.phys == PHYS_U32:
        return (<const uint32_t*> key.values)[i]
    if runs.phys == PHYS_U16:
        return (<const uint16_t*> key.values)[i]
    return (<const uint8_t*> key.values)[i]


cdef int64_t rows_of_part(const KeyRuns* runs, const Vector* key, int64_t n) noexcept nogil:
    """How many of the first rows are between the fences of the current part."""
    cdef int64_t last = key_at(runs, key, n - 1)
    cdef int64_t i
    if runs.low <= last <= runs.high:
        return n                # or the keys descend
    for i in range(n):
        if not runs.low <= key_at(runs, key, i) <= runs.high:
            return i
    return n


cdef bint enter_part(KeyRuns* runs, int64_t key, int64_t n_runs) noexcept nogil:
    """Begin the part of a key. Returns False if the key is outside of all fences."""
    cdef const int64_t* fences = <const int64_t*> runs.fences.data
    cdef int64_t low = 0
    cdef int64_t high = runs.n_fences - 1
    cdef int64_t middle
    if key < fences[0] or key > fences[high]:
        return False
    while high - low > 1:
        middle = (low + high) >> 1
        if fences[middle] <= key:
            low = middle
        else:
            high = middle
    runs.low = fences[low]
    runs.high = fences[high]
    runs.n_complete = n_runs
    runs.is_cut = False
    return True


# --- runs ---


cdef int add_end(KeyRuns* runs, uint32_t number) except -1 nogil:
    cdef int64_t n_bytes = runs.n_ends * <int64_t> sizeof(uint32_t)
    if runs.n_ends > 0 and (<const uint32_t*> runs.ends.data)[runs.n_ends - 1] == number:
        return 0
    if runs.ends == NULL:
        runs.ends = buffer_new(runs.account, FIRST_ENDS * sizeof(uint32_t))
    elif n_bytes + <int64_t> sizeof(uint32_t) > runs.ends.size:
        buffer_grow(&runs.ends, n_bytes, 2 * n_bytes)
    (<uint32_t*> runs.ends.data)[runs.n_ends] = number
    runs.n_ends += 1
    return 0


cdef bint number_runs(
    const Integer* keys, int64_t n, const Integer* last, bint in_stretch, uint32_t number, uint32_t* starts,
    int64_t* n_starts, uint32_t* numbers,
) noexcept nogil:
    """Number the runs of n rows; starts[0..n_starts) are their first rows. `number` is that of the first new run.

    `last` is the key of the run before them, NULL if there is none. Returns False if keys descend.
    """
    cdef int64_t k = 0
    cdef bint is_new
    cdef bint descends = False
    cdef Integer key
    cdef Integer before = keys[0]
    cdef int64_t i
    if last == NULL or last[0] != keys[0]:
        descends = in_stretch and keys[0] < last[0]
        starts[0] = 0
        k = 1
    number += <uint32_t> k - 1
    numbers[0] = number
    for i in range(1, n):
        key = keys[i]
        is_new = key != before
        descends |= key < before
        starts[k] = <uint32_t> i        # overwritten unless the row begins a run
        k += is_new
        number += is_new
        numbers[i] = number
        before = key
    n_starts[0] = k
    return not descends


cdef bint number_keys(
    KeyRuns* runs, const KeyColumns* keys, const Vector* key, int64_t n, uint32_t* starts, int64_t* n_starts,
    uint32_t* numbers,
) noexcept nogil:
    cdef int64_t n_runs = keys.n_rows
    cdef bint within = runs.in_stretch and n_runs > 0
    cdef uint32_t first = <uint32_t> n_runs
    cdef const void* values = key.values
    cdef const void* last = NULL
    if n_runs > 0:
        last = keys.columns[0].values.data + (n_runs - 1) * keys.columns[0].width
    if runs.phys == PHYS_I64:
        return number_runs[int64_t](
            <const int64_t*> values, n, <const int64_t*> last, within, first, starts, n_starts, numbers
        )
    if runs.phys == PHYS_I32:
        return number_runs[int32_t](
            <const int32_t*> values, n, <const int32_t*> last, within, first, starts, n_starts, numbers
        )
    if runs.phys == PHYS_I16:
        return number_runs[int16_t](
            <const int16_t*> values, n, <const int16_t*> last, within, first, starts, n_starts, numbers
        )
    if runs.phys == PHYS_I8:
        return number_runs[int8_t](
            <const int8_t*> values, n, <const int8_t*> last, within, first, starts, n_starts, numbers
        )
    if runs.phys == PHYS_U64:
        return number_runs[uint64_t](
            <const uint64_t*> values, n, <const uint64_t*> last, within, first, starts, n_starts, numbers
        )
    if runs.phys == PHYS_U32:
        return number_runs[uint32_t](
            <const uint32_t*> values, n, <const uint32_t*> last, within, first, starts, n_starts, numbers
        )
    if runs.phys == PHYS_U16:
        return number_runs[uint16_t](
            <const uint16_t*> values, n, <const uint16_t*> last, within, first, starts, n_starts, numbers
        )
    return number_runs[uint8_t](
        <const uint8_t*> values, n, <const uint8_t*> last, within, first, starts, n_starts, numbers
    )


cdef bint add_stretch(
    KeyRuns* runs, KeyColumns* keys, const Vector* key, int64_t n, uint32_t* numbers,
) except -1 nogil:
    """Add rows of the current stretch. Returns False if their keys descend."""
    cdef uint32_t starts[VECTOR_ROWS]
    cdef int64_t n_starts
    if runs.is_cut and key_at(runs, key, 0) < runs.last:
        return False
    if not number_keys(runs, keys, key, n, starts, &n_starts, numbers):
        return False
    key_columns_append(keys, key, starts, n_starts)
    if runs.fences == NULL:
        if not runs.in_stretch:
            add_end(runs, numbers[0])
    else:
        if runs.is_cut or key_at(runs, key, 0) == runs.low:
            add_end(runs, numbers[0])
        if key_at(runs, key, n - 1) == runs.high:
            add_end(runs, numbers[n - 1])
        runs.is_cut = False
    runs.in_stretch = True
    return True


cdef bint add_parts(
    KeyRuns* runs, KeyColumns* keys, const Vector* key, int64_t n, uint32_t* numbers,
) except -1 nogil:
    """Add rows of one or several parts. Returns False if their keys descend, or are outside of all fences."""
    cdef Vector rest = key[0]
    cdef int64_t at = 0
    cdef int64_t n_rows
    cdef int64_t first
    while at < n:
        rest.values = <const char*> key.values + at * keys.columns[0].width
        first = key_at(runs, &rest, 0)
        if not runs.in_stretch or not runs.low <= first <= runs.high:
            runs.in_stretch = False
            if not enter_part(runs, first, keys.n_rows):
                return False
        n_rows = rows_of_part(runs, &rest, n - at)
        if n_rows == 0 or not add_stretch(runs, keys, &rest, n_rows, numbers + at):
            return False
        at += n_rows
    return True


cdef bint key_runs_add(
    KeyRuns* runs, KeyColumns* keys, const Vector* key, int64_t n, uint32_t* numbers,
) except -1 nogil:
    cdef int64_t n_runs = keys.n_rows
    cdef int64_t i
    cdef bint added
    qc_check(0 < n <= VECTOR_ROWS and key.phys == runs.phys, b"the rows to add to runs are a vector of the key's type")
    if key.validity != NULL:
        for i in range(n):
            if not bit_get(key.validity, i):
                return False
    if runs.fences == NULL:
        return add_stretch(runs, keys, key, n, numbers)
    added = add_parts(runs, keys, key, n, numbers)
    if not added:
        keys.n_rows = n_runs
    return added


cdef int key_runs_end_batch(KeyRuns* runs, const KeyColumns* keys) except -1 nogil:
    if runs.in_stretch and runs.fences == NULL:
        runs.in_stretch = False
        add_end(runs, <uint32_t> (keys.n_rows - 1))
    return 0


cdef int key_runs_cut(KeyRuns* runs, const KeyColumns* keys) except -1 nogil:
    cdef const uint32_t* ends
    cdef Vector held
    cdef int64_t i
    key_runs_end_batch(runs, keys)
    if runs.fences == NULL or not runs.in_stretch or keys.n_rows == 0:
        return 0
    # All runs of this part are ends.
    if runs.n_ends > 0:
        ends = <const uint32_t*> runs.ends.data
        while runs.n_ends > 0 and ends[runs.n_ends - 1] >= runs.n_complete:
            runs.n_ends -= 1
    for i in range(runs.n_complete, keys.n_rows):
        add_end(runs, <uint32_t> i)
    held.values = keys.columns[0].values.data
    runs.last = key_at(runs, &held, keys.n_rows - 1)
    runs.is_cut = True
    return 0


cdef int64_t ends_before(const KeyRuns* runs, int64_t number) noexcept nogil:
    """How many runs at the ends of stretches have a lower number."""
    cdef const uint32_t* ends = <const uint32_t*> runs.ends.data
    cdef int64_t low = 0
    cdef int64_t high = runs.n_ends
    cdef int64_t middle
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


cdef Batch* key_runs_divide(const KeyRuns* runs, Batch* batch, int64_t start) except? NULL nogil:
    cdef int64_t n = batch.n_rows
    cdef const uint32_t* ends
    cdef int64_t n_ends = 0
    cdef int64_t next_end = 0
    cdef int64_t first, i
    cdef Buffer* rows
    cdef uint32_t* row
    cdef Batch* others = NULL
    cdef bint done = False
    batch.part = WHOLE_GROUPS
    if runs.n_ends > 0:
        first = ends_before(runs, start)
        n_ends = ends_before(runs, start + n) - first
    if n_ends == 0:
        return NULL
    ends = <const uint32_t*> runs.ends.data + first
    rows = buffer_new(runs.account, n * sizeof(uint32_t))
    try:
        # The ends, then all other rows.
        row = <uint32_t*> rows.data
        for i in range(n):
            if next_end < n_ends and ends[next_end] - start == i:
                row[next_end] = <uint32_t> i
                next_end += 1
            else:
                row[n_ends + i - next_end] = <uint32_t> i
        others = batch_with_schema(batch, batch.schema)
        batch_select(others, row, n_ends, <Owner*> rows)
        batch_select(batch, row + n_ends, n - n_ends, <Owner*> rows)
        done = True
    finally:
        buffer_unref(rows)
        if not done:
            batch_unref(others)
    return others
