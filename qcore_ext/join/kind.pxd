"""The output of each kind of join: rules that all join operators share."""


cpdef enum JoinKind:
    JOIN_INNER = 0
    JOIN_LEFT = 1               # pairs, and probe rows without a match
    JOIN_RIGHT = 2              # pairs, and build rows without a match
    JOIN_FULL = 3               # pairs, and rows of both sides without a match
    JOIN_LEFT_SEMI = 4          # probe rows with a match
    JOIN_LEFT_ANTI = 5          # probe rows without a match
    JOIN_RIGHT_SEMI = 6         # build rows with a match
    JOIN_RIGHT_ANTI = 7         # build rows without a match
    JOIN_NULL_AWARE_ANTI = 8    # NOT IN: a null on either side makes the comparison unknown
    JOIN_MARK = 9               # EXISTS: all probe rows, and whether the row has a match
    JOIN_NULL_AWARE_MARK = 10   # IN: all probe rows, and true, false or null


cdef inline bint returns_pairs(int kind) noexcept nogil:
    """Join kinds whose output rows combine a probe row and a matching build row."""
    return kind <= JOIN_FULL


cdef inline bint keeps_probe(int kind) noexcept nogil:
    """Join kinds that output probe rows without a match, with nulls for the build side."""
    return kind == JOIN_LEFT or kind == JOIN_FULL


cdef inline bint returns_build_rows(int kind) noexcept nogil:
    """Join kinds that output build rows alone after all drivers have probed."""
    return kind == JOIN_RIGHT or kind == JOIN_FULL or kind == JOIN_RIGHT_SEMI or kind == JOIN_RIGHT_ANTI


cdef inline bint keeps_null_keys(int kind) noexcept nogil:
    """Join kinds that output build rows with null keys, which cannot match."""
    return kind == JOIN_RIGHT or kind == JOIN_FULL or kind == JOIN_RIGHT_ANTI


cdef inline bint needs_no_groups(int kind) noexcept nogil:
    """Join kinds that, without a condition, only need to know whether a key occurs on the build side."""
    return kind == JOIN_LEFT_SEMI or kind == JOIN_LEFT_ANTI or kind >= JOIN_NULL_AWARE_ANTI


cdef inline bint ends_on_empty_build(int kind) noexcept nogil:
    """Join kinds without output if the build side has no rows."""
    return kind == JOIN_INNER or kind == JOIN_LEFT_SEMI or returns_build_rows(kind) and kind != JOIN_FULL


cdef inline bint is_mark(int kind) noexcept nogil:
    return kind == JOIN_MARK or kind == JOIN_NULL_AWARE_MARK


cdef inline bint is_null_aware(int kind) noexcept nogil:
    return kind == JOIN_NULL_AWARE_ANTI or kind == JOIN_NULL_AWARE_MARK


cdef int join_kind_of(str name) except -1       # a name such as 'left_semi'; raises PlanError for an unknown name
