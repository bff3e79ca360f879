"""Checks whether the counts and offsets of a Parquet footer fit each other and the file.

pyarrow ends the process if the description of a column chunk is wrong, because it reads it outside its error handling.
This check reads the footer once: 0.15 ms for 16 columns of 49 row groups (86 kB).
"""

from libc.stdint cimport int16_t, int64_t, uint8_t, uint64_t

from qcore_ext.data.byte_cursor cimport ByteCursor, cursor_over, fail, next_byte, next_varint

cdef enum:
    # Types of Thrift's compact protocol.
    THRIFT_TRUE = 1
    THRIFT_FALSE = 2
    THRIFT_BYTE = 3
    THRIFT_I16 = 4
    THRIFT_I32 = 5
    THRIFT_I64 = 6
    THRIFT_DOUBLE = 7
    THRIFT_BINARY = 8
    THRIFT_LIST = 9
    THRIFT_SET = 10
    THRIFT_MAP = 11
    THRIFT_STRUCT = 12

cdef enum:
    DEPTH_MAX = 64
    LEAVES_MAX = 100000
    BYTE_ARRAY = 6              # a physical type of Parquet
    CODEC_MAX = 7               # LZ4_RAW; pyarrow ends the process if it is asked for the name of another one
    OPTIONAL = 1
    REPEATED = 2


cdef struct Leaf:
    int64_t type
    int16_t definition_max
    int16_t repetition_max


cdef struct Element:
    int64_t type
    int64_t repetition
    int64_t n_children


cdef int64_t next_integer(ByteCursor* cursor) noexcept nogil:
    cdef uint64_t value = next_varint(cursor)
    return <int64_t> (value >> 1) ^ -(<int64_t> (value & 1))


cdef bint next_field(ByteCursor* cursor, int64_t* id, int* type) noexcept nogil:
    """Read the head of a struct's next field. `id` is the previous field's id. False at the end, and after a fault."""
    cdef uint8_t head = next_byte(cursor)
    if head == 0 or cursor.fault != NULL:
        return False
    type[0] = head & 0x0F
    id[0] = id[0] + (head >> 4) if head >> 4 else next_integer(cursor)
    if id[0] < 0 or id[0] > 0x7FFF:
        fail(cursor, b"it has a field of an impossible number")
    return cursor.fault == NULL


cdef int64_t next_list(ByteCursor* cursor, int* type) noexcept nogil:
    """Read the length of a list. Each element has at least one byte, so a list is no longer than the bytes left."""
    cdef uint8_t head = next_byte(cursor)
    cdef uint64_t n = head >> 4
    type[0] = head & 0x0F
    if n == 15:
        n = next_varint(cursor)
    if n > <uint64_t> (cursor.end - cursor.at):
        fail(cursor, b"a list in it is longer than the footer")
        return 0
    return <int64_t> n


cdef void skip_bytes(ByteCursor* cursor, uint64_t n) noexcept nogil:
    if n > <uint64_t> (cursor.end - cursor.at):
        fail(cursor, b"it ends in the middle")
    else:
        cursor.at += n


cdef void skip(ByteCursor* cursor, int type, int depth) noexcept nogil:
    cdef int64_t n, id = 0
    cdef int inner = 0
    cdef uint8_t kinds
    if depth > DEPTH_MAX:
        fail(cursor, b"it is nested too deeply")
    elif type == THRIFT_BYTE:
        next_byte(cursor)
    elif type == THRIFT_I16 or type == THRIFT_I32 or type == THRIFT_I64:
        next_varint(cursor)
    elif type == THRIFT_DOUBLE:
        skip_bytes(cursor, 8)
    elif type == THRIFT_BINARY:
        skip_bytes(cursor, next_varint(cursor))
    elif type == THRIFT_LIST or type == THRIFT_SET:
        n = next_list(cursor, &inner)
        for _ in range(n):
            if cursor.fault != NULL:
                return
            if inner == THRIFT_TRUE or inner == THRIFT_FALSE:
                next_byte(cursor)
            else:
                skip(cursor, inner, depth + 1)
    elif type == THRIFT_MAP:
        n = <int64_t> next_varint(cursor)
        kinds = next_byte(cursor) if n != 0 else 0
        if n < 0 or n > cursor.end - cursor.at:
            fail(cursor, b"a map in it is longer than the footer")
            return
        for _ in range(n):
            if cursor.fault != NULL:
                return
            skip(cursor, kinds >> 4, depth + 1)
            skip(cursor, kinds & 0x0F, depth + 1)
    elif type == THRIFT_STRUCT:
        while next_field(cursor, &id, &inner):
            skip(cursor, inner, depth + 1)
    elif type != THRIFT_TRUE and type != THRIFT_FALSE:
        fail(cursor, b"it has a field of an unknown type")


cdef void read_element(ByteCursor* cursor, Element* element) noexcept nogil:
    cdef int64_t id = 0
    cdef int type = 0
    element.type = -1
    element.repetition = 0
    element.n_children = 0
    while next_field(cursor, &id, &type):
        if id == 1 and type == THRIFT_I32:
            element.type = next_integer(cursor)
        elif id == 3 and type == THRIFT_I32:
            element.repetition = next_integer(cursor)
        elif id == 5 and type == THRIFT_I32:
            element.n_children = next_integer(cursor)
        else:
            skip(cursor, type, 0)


cdef int64_t read_schema(ByteCursor* cursor, Leaf* leaves) noexcept nogil:
    """Read types and greatest levels of the leaf columns, in order. Returns their number."""
    cdef int64_t[DEPTH_MAX + 1] children         # children still to come, by level
    cdef int16_t[DEPTH_MAX + 1] definition
    cdef int16_t[DEPTH_MAX + 1] repetition
    cdef Element element
    cdef int64_t i, n_leaves = 0
    cdef int type = 0
    cdef int depth = 0
    cdef int64_t n = next_list(cursor, &type)
    if n > 0 and type != THRIFT_STRUCT:
        fail(cursor, b"its columns do not form a tree")
        return 0
    children[0] = 1
    definition[0] = repetition[0] = 0
    for i in range(n):
        read_element(cursor, &element)
        if cursor.fault != NULL:
            return 0
        while depth > 0 and children[depth] == 0:
            depth -= 1
        if children[depth] == 0 or element.n_children < 0 or element.n_children > n or depth + 1 > DEPTH_MAX:
            fail(cursor, b"its columns do not form a tree")
            return 0
        children[depth] -= 1
        definition[depth + 1] = definition[depth]
        repetition[depth + 1] = repetition[depth]
        if i > 0 and element.repetition == OPTIONAL:
            definition[depth + 1] += 1
        elif i > 0 and element.repetition == REPEATED:
            definition[depth + 1] += 1
            repetition[depth + 1] += 1
        if element.n_children > 0 or i == 0:
            depth += 1
            children[depth] = element.n_children
        elif n_leaves == LEAVES_MAX:
            fail(cursor, b"it has more than 100000 columns")
            return 0
        else:
            leaves[n_leaves].type = element.type
            leaves[n_leaves].definition_max = definition[depth + 1]
            leaves[n_leaves].repetition_max = repetition[depth + 1]
            n_leaves += 1
    while depth > 0 and children[depth] == 0:
        depth -= 1
    if children[depth] != 0:
        fail(cursor, b"its columns do not form a tree")
    return n_leaves


cdef void read_sizes(ByteCursor* cursor, const Leaf* leaf) noexcept nogil:
    """SizeStatistics: histograms of levels, with one count for each level."""
    cdef int64_t n, expected, id = 0
    cdef int type = 0
    while next_field(cursor, &id, &type):
        if (id == 2 or id == 3) and type == THRIFT_LIST:
            n = next_list(cursor, &type)
            expected = (leaf.repetition_max if id == 2 else leaf.definition_max) + 1
            if n != 0 and (n != expected or type != THRIFT_I64):
                fail(cursor, b"a histogram of a column has another number of levels than the column")
            for _ in range(n):
                skip(cursor, type, 0)
        else:
            if id == 1 and leaf.type != BYTE_ARRAY:
                fail(cursor, b"a column that is not text has a count of text bytes")
            skip(cursor, type, 0)


cdef void read_column(ByteCursor* cursor, const Leaf* leaf, int64_t file_bytes) noexcept nogil:
    """ColumnMetaData: its numbers must not be negative, and the chunk must lie within the file."""
    cdef int64_t value, id = 0
    cdef int type = 0
    while next_field(cursor, &id, &type):
        if id == 1 and type == THRIFT_I32:
            if next_integer(cursor) != leaf.type:
                fail(cursor, b"a column chunk is of another type than its column")
        elif id == 4 and type == THRIFT_I32:
            value = next_integer(cursor)
            if value < 0 or value > CODEC_MAX:
                fail(cursor, b"a column chunk is compressed by an unknown codec")
        elif 5 <= id <= 11 and type == THRIFT_I64:
            value = next_integer(cursor)
            # Unused offsets may have any lower value.
            if (id <= 7 and value < 0) or (id == 9 and value < 0) or (
                (id == 7 or id == 9 or id == 11) and value > file_bytes
            ):
                fail(cursor, b"a column chunk lies outside of the file")
        elif id == 16 and type == THRIFT_STRUCT:
            read_sizes(cursor, leaf)
        else:
            skip(cursor, type, 0)


cdef void read_chunk(ByteCursor* cursor, const Leaf* leaf, int64_t file_bytes) noexcept nogil:
    cdef int64_t id = 0
    cdef int type = 0
    cdef bint found = False
    while next_field(cursor, &id, &type):
        if id == 3 and type == THRIFT_STRUCT:
            read_column(cursor, leaf, file_bytes)
            found = True
        elif id == 8:
            fail(cursor, b"a column of it is encrypted")
        else:
            skip(cursor, type, 0)
    if not found:
        fail(cursor, b"a column chunk is not described")


cdef void read_group(ByteCursor* cursor, const Leaf* leaves, int64_t n_leaves, int64_t file_bytes) noexcept nogil:
    cdef int64_t i, n, id = 0
    cdef int type = 0
    cdef bint found = False
    while next_field(cursor, &id, &type):
        if id == 1 and type == THRIFT_LIST:
            n = next_list(cursor, &type)
            if n != n_leaves or (n > 0 and type != THRIFT_STRUCT):
                fail(cursor, b"a row group has another number of columns than the file")
                return
            found = True
            for i in range(n):
                if cursor.fault != NULL:
                    return
                read_chunk(cursor, &leaves[i], file_bytes)
        elif id == 3 and type == THRIFT_I64:
            if next_integer(cursor) < 0:
                fail(cursor, b"a row group has a negative number of rows")
        else:
            skip(cursor, type, 0)
    if not found:
        fail(cursor, b"a row group has no columns")


cdef void read_footer(ByteCursor* cursor, Leaf* leaves, int64_t file_bytes) noexcept nogil:
    cdef int64_t n, n_leaves = -1, id = 0
    cdef int type = 0
    while next_field(cursor, &id, &type):
        if id == 2 and type == THRIFT_LIST:
            if n_leaves >= 0:
                fail(cursor, b"it has columns twice")
                return
            n_leaves = read_schema(cursor, leaves)
        elif id == 3 and type == THRIFT_I64:
            if next_integer(cursor) < 0:
                fail(cursor, b"it has a negative number of rows")
        elif id == 4 and type == THRIFT_LIST:
            n = next_list(cursor, &type)
            if n_leaves < 0 or (n > 0 and type != THRIFT_STRUCT):
                fail(cursor, b"its row groups come without columns")
            for _ in range(n):
                if cursor.fault != NULL:
                    return
                read_group(cursor, leaves, n_leaves, file_bytes)
        else:
            skip(cursor, type, 0)
    if n_leaves < 0:
        fail(cursor, b"it has no columns")


def footer_fault(bytes footer, int64_t file_bytes):
    """Return the fault of a footer, the Thrift struct, of a file with `file_bytes` bytes. None: no fault was found.

    Parameters
    ----------
    footer : bytes
    file_bytes : int

    Returns
    -------
    str or None
    """
    cdef ByteCursor cursor
    cdef bytearray leaf_bytes = bytearray(min(<int64_t> LEAVES_MAX, len(footer)) * sizeof(Leaf) + sizeof(Leaf))
    cdef char* leaves = leaf_bytes
    cursor = cursor_over(footer, len(footer), b"it ends in the middle", b"a number in it is too long")
    read_footer(&cursor, <Leaf*> leaves, file_bytes)
    return None if cursor.fault == NULL else cursor.fault.decode()
