"""The state of a join table that is being built (table_build)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from qcore_ext.data.column cimport Column
from qcore_ext.ground.memory cimport Buffer, MemoryAccount
from qcore_ext.join.table cimport JoinTable
from qcore_ext.rows.column_store cimport ColumnStore

cdef enum BuildStepKind:
    STEP_COPY = 0
    STEP_MARK = 1
    STEP_WRITE = 2
    STEP_COUNT = 3
    STEP_SCATTER = 4
    STEP_INSERT = 5
    STEP_GROUP = 6
    STEP_ORDER = 7
    STEP_END = 8                # the table is complete

cdef enum:
    STEPS_MAX = 12              # wide codes or values that repeat take the steps from COUNT to INSERT twice
    NO_POSITION = 0xFFFFFFFF


ctypedef struct BuildStep:
    int kind                    # BuildStepKind
    int64_t n_items
    int64_t next_item           # atomic
    int64_t n_done              # atomic


ctypedef struct BuildEntry:
    # A row with a key, in its partition.
    uint64_t key                # code or hash
    uint32_t row
    uint32_t position           # rank; for wide codes the high number; else, once inserted, its slot or NO_POSITION


ctypedef struct ValueEntry:
    # The same for an index of values, in an array of the same size.
    uint64_t key                # code
    uint64_t value


ctypedef struct TableBuild:
    JoinTable* table            # owned; NULL once it was taken
    MemoryAccount* account      # owned
    ColumnStore** inputs        # owned array, each owned, until they are copied; the first one is `rows`
    int64_t n_inputs
    int64_t n_kept              # rows of the first input, which are where they are to be
    ColumnStore* rows           # owned; all rows
    Column** keys               # owned array; borrowed key columns of the table; NULL without keys
    bint has_codes              # the types of the keys have codes
    bint values_suffice         # probes need nothing else of a row than the columns that are not keys
    BuildStep steps[STEPS_MAX]  # constant once they began, but for the counts of items
    int64_t step                # atomic; the current one
    int64_t stripe_rows         # a multiple of VECTOR_ROWS
    int64_t n_stripes
    uint64_t* bounds            # owned; of each stripe's keys (key_coder_measure)
    int64_t n_workers
    Buffer** marks              # owned array, each owned; a bitmap of codes of each worker, or NULL
    int64_t rows_moved          # atomic; not 0: a row's position in group_rows is not its number
    int shift                   # positions of a partition, as a power of two
    int64_t n_partitions
    Buffer* counts              # owned; uint32 for each stripe and partition: its rows, then their next position
    int64_t* begins             # owned; first entry of each partition, and the end
    Buffer* entries             # owned; BuildEntry or ValueEntry of all rows with a key, by partition
    int64_t* n_deferred         # owned; deferred entries of each partition
    int64_t* group_begins       # owned; position of the first row in the groups of each partition's slots
    int64_t n_groups            # atomic
    int64_t n_repeated          # atomic; rows whose key has a slot already, of wide codes and values
    Column** ordered            # owned array, each owned; columns in the order of the groups; NULL before STEP_ORDER
