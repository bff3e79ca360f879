"""The widening lattice: which type holds the values of two, and which schema the rows of two. SPEC D6.

This is the only place that says what widens into what:

- null into any type;
- an integer into a wider one; signed and unsigned into the next wider signed one, 64 bits of both into decimal(20, 0);
- an integer into a decimal that has its digits before the point; a decimal into one with as many digits on either side,
  up to 38: of more, those behind the point are kept, for values that have so many before it (checked value by value:
  any other is a SchemaChangeError);
- float32 into float64; integers of up to 16 bits into float32, of 32 bits into float64, of 64 bits and decimals without
  digits behind the point into float64 for values that it holds exactly (checked likewise);
- a date into a timestamp without zone; times, timestamps (of one zone) and durations into the finer unit;
- string, large_string and string_view, and dictionaries of them, are one type in several layouts; so are binaries.

Nothing else does: not a decimal with a scale into a float, not text into anything, not a boolean into a number. Columns
are matched by name, columns of one name in their order; the wider schema has the first one's columns in their places,
and behind them those that only the second one has.
"""

from libc.stdint cimport int32_t

from qcore_ext.data.schema cimport CSchema, DataType

# The narrowest type that holds the values of both; False when there is none. Nested types are not looked into here.
cdef bint type_widen(const DataType* a, const DataType* b, DataType* out) noexcept nogil
# The position in `schema` of the column that corresponds to column i of `like`; -1: it has none.
cdef int32_t schema_counterpart(const CSchema* schema, const CSchema* like, int32_t i) noexcept nogil
# The narrowest schema that holds the rows of both, a new reference: to `a` itself where that one does.
# SchemaChangeError names the column and both types when there is none.
cdef CSchema* schema_widen(CSchema* a, CSchema* b) except NULL nogil
# raise SchemaChangeError for column `name`, held as `a` and given as `b`; `why` ends the sentence
cdef int raise_types_differ(const char* name, const DataType* a, const DataType* b, const char* why) except -1 nogil
