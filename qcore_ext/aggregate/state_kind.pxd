"""Kinds of aggregate states, the forms of their values, and the structs of moments."""

cdef enum StateKind:
    STATE_COUNT = 0             # int64
    STATE_SUM = 1               # int128 for integers and decimals, double for floats
    STATE_MIN = 2
    STATE_MAX = 3
    STATE_FIRST = 4             # the first value that is not null
    STATE_LAST = 5
    STATE_MOMENTS = 6           # count, mean and sum of squared distances from the mean
    STATE_COMOMENTS = 7         # moments of two arguments, and the sum of the products of their distances
    STATE_BIT_AND = 8           # int64 or uint64
    STATE_BIT_OR = 9
    STATE_BIT_XOR = 10

cdef enum StateRep:
    # The form to which values are widened for a kernel, and in which the state keeps them.
    REP_I64 = 0
    REP_U64 = 1
    REP_F64 = 2
    REP_WIDE = 3
    REP_VIEW = 4


ctypedef struct Moments:
    double count
    double mean
    double m2


ctypedef struct Comoments:
    double count
    double mean_y               # y is the first argument, as in covar_pop(y, x)
    double mean_x
    double m2_y
    double m2_x
    double products
