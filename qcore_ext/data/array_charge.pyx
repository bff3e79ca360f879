"""The memory that imported Arrow arrays take, and the account that is charged for them while they live."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport atoi
from libc.string cimport strchr, strncmp

from qcore_ext.ground.bitmap cimport bitmap_bytes
from qcore_ext.ground.memory cimport (
    MemoryAccount, Owner, OwnerList, account_release, account_reserve, owner_list_add, owner_list_new, owner_ref,
    owner_unref, struct_free, struct_new,
)

cdef enum:
    VIEW_BYTES = 16
    VIEW_INLINE_MAX = 12        # longer strings of a view are in a data buffer


ctypedef struct ArrayCharge:
    # Bytes reserved for the buffers of one array of a tree, while a batch or the trail references them.
    Owner owner
    MemoryAccount* account      # owned
    int64_t n_bytes             # written only by the thread that imports the stream


cdef void charge_free(Owner* self) noexcept nogil:
    cdef ArrayCharge* charge = <ArrayCharge*> self
    account_release(charge.account, charge.n_bytes)
    owner_unref(<Owner*> charge.account)
    struct_free(charge)


cdef int64_t fixed_width(const char* format) noexcept nogil:
    """Bytes of one value of a type of fixed width; 0 for booleans and other types."""
    cdef const char* comma
    cdef char kind = format[0]
    if kind == c"c" or kind == c"C":
        return 1
    if kind == c"s" or kind == c"S" or kind == c"e":
        return 2
    if kind == c"i" or kind == c"I" or kind == c"f":
        return 4
    if kind == c"l" or kind == c"L" or kind == c"g":
        return 8
    if kind == c"w":
        return atoi(format + 2) if format[1] == c":" else 0
    if kind == c"d":
        comma = strchr(format, c",")
        comma = strchr(comma + 1, c",") if comma != NULL else NULL
        return atoi(comma + 1) // 8 if comma != NULL else 16
    if kind != c"t":
        return 0
    if strncmp(format, b"tdD", 3) == 0 or strncmp(format, b"tts", 3) == 0 or strncmp(format, b"ttm", 3) == 0 or (
        strncmp(format, b"tiM", 3) == 0
    ):
        return 4
    return 16 if strncmp(format, b"tin", 3) == 0 else 8


cdef int64_t offset_at(const void* offsets, bint wide, int64_t row) noexcept nogil:
    return (<const int64_t*> offsets)[row] if wide else (<const int32_t*> offsets)[row]


cdef int64_t viewed_bytes(const ArrowArray* array, int64_t first, int64_t n) noexcept nogil:
    """Bytes of the long strings of n views, at most those of the data buffers."""
    cdef const int32_t* lengths = <const int32_t*> array.buffers[1] + 4 * first
    cdef const int64_t* sizes
    cdef int64_t total = 0
    cdef int64_t held = 0
    cdef int64_t i
    for i in range(n):
        if lengths[4 * i] > VIEW_INLINE_MAX:
            total += lengths[4 * i]
    if array.n_buffers > 3 and array.buffers[array.n_buffers - 1] != NULL:
        sizes = <const int64_t*> array.buffers[array.n_buffers - 1]
        for i in range(array.n_buffers - 3):
            held += sizes[i]
        total = min(total, held)
    return total


cdef int64_t array_bytes(const ArrowArray* array, const char* format, int64_t start, int64_t n) noexcept nogil:
    cdef char kind = format[0]
    cdef int64_t first = array.offset + start
    cdef int64_t total = 0
    cdef bint wide
    if array.n_buffers == 0 or n <= 0:
        return 0
    if array.buffers[0] != NULL:
        total = bitmap_bytes(n) if kind != c"+" or format[1] != c"u" else n
    if array.n_buffers == 1 or array.buffers[1] == NULL:
        return total
    if kind == c"b":
        return total + bitmap_bytes(n)
    if kind == c"v":
        return total + VIEW_BYTES * n + viewed_bytes(array, first, n)
    if kind == c"u" or kind == c"z" or kind == c"U" or kind == c"Z":
        wide = kind == c"U" or kind == c"Z"
        return total + (8 if wide else 4) * n + max(
            offset_at(array.buffers[1], wide, first + n) - offset_at(array.buffers[1], wide, first), <int64_t> 0
        )
    if kind == c"+":
        if format[1] == c"v":
            return total + (16 if format[2] == c"L" else 8) * n
        return total + (8 if format[1] == c"L" else 4) * n
    return total + fixed_width(format) * n


cdef void child_range(
    const ArrowArray* array, const char* format, const ArrowArray* child, int64_t start, int64_t n,
    int64_t* child_start,       # OUT, from the child's own offset
    int64_t* child_n,           # OUT
) noexcept nogil:
    """The rows of a child that belong to rows start..start+n of the array."""
    cdef int64_t first = array.offset + start
    cdef int64_t size
    cdef char kind = format[1]
    child_start[0] = 0
    child_n[0] = child.length
    if kind == c"s" or (kind == c"u" and format[2] == c"s"):
        child_start[0] = first
        child_n[0] = n
    elif (kind == c"l" or kind == c"L" or kind == c"m") and array.n_buffers > 1 and array.buffers[1] != NULL:
        child_start[0] = offset_at(array.buffers[1], kind == c"L", first)
        child_n[0] = offset_at(array.buffers[1], kind == c"L", first + n) - child_start[0]
    elif kind == c"w" and format[2] == c":":
        size = atoi(format + 3)
        child_start[0] = first * size
        child_n[0] = n * size
    # Wrong offsets are reported elsewhere. Here they only must do no harm.
    child_start[0] = min(max(child_start[0], <int64_t> 0), child.length)
    child_n[0] = min(max(child_n[0], <int64_t> 0), child.length - child_start[0])


cdef int64_t tree_bytes(const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n) noexcept nogil:
    cdef int64_t total = array_bytes(array, layout.format, start, n)
    cdef int64_t i, child_start, child_n
    if n <= 0:
        return 0
    for i in range(min(array.n_children, layout.n_children)):
        child_range(array, layout.format, array.children[i], start, n, &child_start, &child_n)
        total += tree_bytes(array.children[i], layout.children[i], child_start, child_n)
    if array.dictionary != NULL and layout.dictionary != NULL:
        total += tree_bytes(array.dictionary, layout.dictionary, 0, array.dictionary.length)
    return total


cdef int64_t taken_bytes(const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n) noexcept nogil:
    cdef int64_t total = array_bytes(array, layout.format, start, n)
    cdef int64_t i, child_start, child_n
    if n <= 0:
        return 0
    for i in range(min(array.n_children, layout.n_children)):
        child_range(array, layout.format, array.children[i], start, n, &child_start, &child_n)
        if strncmp(layout.format, b"+v", 2) == 0 and n == 1 and array.n_buffers > 2:
            child_n = min(child_n, offset_at(array.buffers[2], layout.format[2] == c"L", array.offset + start))
        elif strncmp(layout.format, b"+r", 2) == 0:
            child_n = min(child_n, n)
        total += taken_bytes(array.children[i], layout.children[i], child_start, child_n)
    return total


# --- charging ---

cdef int64_t n_nodes_of(const ArrowSchema* layout) noexcept nogil:
    cdef int64_t total = 1
    cdef int64_t i
    for i in range(layout.n_children):
        total += n_nodes_of(layout.children[i])
    if layout.dictionary != NULL:
        total += n_nodes_of(layout.dictionary)
    return total


cdef int grow(ArrayCharge* charge, int64_t n_bytes) except -1 nogil:
    # An eighth more: the sizes of pyarrow's allocator are an eighth apart, and buffers that grew leave holes.
    n_bytes += n_bytes >> 3
    if n_bytes > 0:
        account_reserve(charge.account, n_bytes)
        charge.n_bytes += n_bytes
    return 0


cdef int charge_node(
    const ArrowArray* array, const char* format, int64_t start, int64_t n, MemoryAccount* account, ChargedNode* node,
    OwnerList* charges,
) except -1 nogil:
    """Charge one array of the tree without its children. `node`: its node of the trail, or NULL."""
    cdef ArrayCharge* charge
    cdef const void* values = array.buffers[1] if array.n_buffers > 1 else NULL
    cdef const void* bytes = array.buffers[2] if array.n_buffers > 2 else NULL
    cdef int64_t from_row = array.offset + start
    cdef int64_t end = from_row + n
    if n <= 0:
        return 0
    if node != NULL and node.charge != NULL and values != NULL and node.values == values and node.bytes == bytes:
        # Rows that were charged before are not charged again.
        from_row = max(from_row, node.end)
        grow(<ArrayCharge*> node.charge, array_bytes(array, format, from_row - array.offset, end - from_row))
        node.end = max(node.end, end)
        return owner_list_add(charges, node.charge)
    charge = <ArrayCharge*> struct_new(sizeof(ArrayCharge))
    charge.owner.references = 1
    charge.owner.release = charge_free
    charge.account = <MemoryAccount*> owner_ref(<Owner*> account)
    try:
        grow(charge, array_bytes(array, format, start, n))
        owner_list_add(charges, <Owner*> charge)
        if node != NULL:
            owner_unref(node.charge)
            node.charge = owner_ref(<Owner*> charge)
            node.values = values
            node.bytes = bytes
            node.end = end
    finally:
        owner_unref(<Owner*> charge)
    return 0


cdef int charge_tree(
    const ArrowArray* array, const ArrowSchema* layout, int64_t start, int64_t n, MemoryAccount* account,
    ChargeTrail* trail,
    int64_t* at,                # IN OUT, number of the array's node in the trail; then of the node after its tree
    OwnerList* charges,
) except -1 nogil:
    cdef ChargedNode* node = NULL
    cdef int64_t i, child_start, child_n
    if trail != NULL and at[0] < trail.n_nodes:
        node = &trail.nodes[at[0]]
    at[0] += 1
    charge_node(array, layout.format, start, n, account, node, charges)
    for i in range(layout.n_children):
        if i >= array.n_children:
            break
        child_range(array, layout.format, array.children[i], start, n, &child_start, &child_n)
        if n <= 0:
            child_n = 0
        charge_tree(array.children[i], layout.children[i], child_start, child_n, account, trail, at, charges)
    if array.dictionary != NULL and layout.dictionary != NULL:
        charge_tree(
            array.dictionary, layout.dictionary, 0, array.dictionary.length, account, trail, at, charges
        )
    return 0


cdef OwnerList* array_charge(
    const ArrowArray* array, const ArrowSchema* layout, MemoryAccount* account, ChargeTrail* trail,
) except NULL nogil:
    cdef OwnerList* charges = owner_list_new()
    cdef int64_t at = 0
    cdef bint done = False
    try:
        if trail != NULL and trail.nodes == NULL:
            trail.n_nodes = n_nodes_of(layout)
            trail.nodes = <ChargedNode*> struct_new(trail.n_nodes * sizeof(ChargedNode))
        charge_tree(array, layout, 0, array.length, account, trail, &at, charges)
        done = True
    finally:
        if not done:
            owner_unref(<Owner*> charges)
    return charges


cdef void charge_trail_clear(ChargeTrail* trail) noexcept nogil:
    cdef int64_t i
    if trail.nodes == NULL:
        return
    for i in range(trail.n_nodes):
        owner_unref(trail.nodes[i].charge)
    struct_free(trail.nodes)
    trail.nodes = NULL
    trail.n_nodes = 0
