"""The widening lattice: the type that holds the values of two types, and the schema of the rows of two.

Only this module defines which types widen into which:

- null into any type;
- an integer into a wider integer; signed and unsigned into the next wider signed type, 64 bits of both into
  decimal(20, 0);
- an integer into a decimal with enough digits before the point;
- a decimal into a decimal with at least as many digits on either side, up to 38. If that takes more than 38, the digits
  behind the point are kept, and each value is checked: one that does not fit raises SchemaChangeError;
- float32 into float64;
- integers of up to 16 bits into float32 and of 32 bits into float64; integers of 64 bits and decimals without digits
  behind the point into float64, with the same check of each value;
- a date into a timestamp without time zone; times, timestamps of one zone, and durations into the finer unit;
- string, large_string, string_view and dictionaries of them are one type in several layouts. So are binaries;
- a list into a list of a type that its elements widen into.

Nothing else widens: not a decimal with a scale into a float, not text into any type, not a boolean into a number.
Columns are matched by name, columns of one name in their order. The wider schema has the columns of the first schema at
their positions, followed by those that only the second one has.
"""

from libc.stdint cimport int32_t

from qcore_ext.data.schema cimport CSchema, DataType

# The narrowest type that holds the values of both. False: there is none. Does not compare nested types.
cdef bint type_widen(const DataType* a, const DataType* b, DataType* out) noexcept nogil
# The position in `schema` of the column that corresponds to column i of `like`, or -1.
cdef int32_t schema_counterpart(const CSchema* schema, const CSchema* like, int32_t i) noexcept nogil
# The narrowest schema that holds the rows of both: a new reference, to `a` itself if it does. Raises a
# SchemaChangeError that names the column and both types if there is none.
cdef CSchema* schema_widen(CSchema* a, CSchema* b) except NULL nogil
# Raise SchemaChangeError for column `name`, held as `a` and given as `b`; `why` ends the sentence.
cdef int raise_types_differ(const char* name, const DataType* a, const DataType* b, const char* why) except -1 nogil
