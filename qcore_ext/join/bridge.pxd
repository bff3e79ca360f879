"""The bridge of a join: the structure that the drivers of its build and probe pipelines share.

Each build driver delivers its store. The last one begins to build the table. The build drivers with many rows build it
together (table_build). The one that completes it publishes it and wakes the probe drivers that wait for it.

Probe drivers leave when their input is over. When all have left, they share the output of build rows, such as those
without a match.

Each driver leaves its barrier exactly once, by finishing, abandoning or closing, in any order and state.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Account, MemoryAccount
from qcore_ext.ground.wait_token cimport WaitSet, WaitToken
from qcore_ext.flow.barrier cimport Barrier, Membership
from qcore_ext.join.build_state cimport TableBuild
from qcore_ext.join.table cimport JoinLookup, JoinTable
from qcore_ext.join.key_codes cimport KeyPart
from qcore_ext.rows.column_store cimport ColumnStore

cdef enum BuildState:
    BUILD_PENDING = 0
    BUILD_PUBLISHED = 1
    BUILD_LOST = 2              # a build driver stopped before the table was complete, so there will be none


cdef class JoinBridge:
    cdef readonly int kind              # JoinKind
    cdef readonly bint has_condition
    cdef readonly Schema declared_build_schema      # schema of the build input, or None
    cdef readonly Schema declared_probe_schema      # schema of the probe input, or None
    cdef CSchema* build_schema          # owned; schema of the stored columns; NULL while it is unknown
    cdef int64_t n_build_schemas        # number of changes of build_schema
    cdef list key_columns               # positions of the keys in build_schema
    cdef Barrier builders
    cdef Barrier probers
    # Build drivers take the lock to deliver. Probe drivers never take it.
    cdef Mutex mutex                    # guards the stores, and the change from BUILD_PENDING
    cdef ColumnStore** stores           # each owned
    cdef CSchema** store_schemas        # each owned; schema of a store's columns, or NULL if it is unknown
    cdef int64_t n_stores
    cdef bint null_key_seen             # constant after the table is published
    cdef TableBuild* build              # owned; atomic; from the last delivery until all build drivers have left
    cdef int64_t build_state            # BuildState; atomic
    cdef JoinTable* table               # owned; atomic; dropped when the last probe driver leaves
    cdef int64_t n_peeking              # atomic; threads in peek_table
    cdef KeyPart* bounds                # owned; ranges of the published table's keys; NULL if there are none
    cdef int32_t n_bounds
    cdef int published_index            # IndexKind of the published table
    cdef int64_t next_build_row         # atomic; the next row for claim_build_rows
    cdef WaitSet build_waiters          # probe drivers that wait for the table
    cdef WaitSet probe_waiters          # probe drivers that have left and wait for the others

    # Set the schema of the columns that a build driver stores. build_schema becomes the widest schema of all drivers
    # (data.widening). Raises SchemaChangeError if there is none.
    cdef int set_build_schema(self, CSchema* schema, list key_columns) except -1
    cdef bint replace_build_schema(self, CSchema* seen, CSchema* wide) noexcept nogil
    # Deliver the rows of one driver; takes over the reference to `store`. The last call begins the build. Returns the
    # driver's number as a worker of the build, or -2 if the build is lost.
    cdef int64_t deliver(
        self, ColumnStore* store, CSchema* schema, bint null_key_seen, const int32_t* key_columns, int32_t n_keys,
        bint returns_keys, Account memory,
    ) except -1 nogil
    cdef int begin_build(
        self, const int32_t* key_columns, int32_t n_keys, bint returns_keys, Account memory,
    ) except -1 nogil
    # Whether the build has begun, and the driver that began it should not wait for others' help.
    cdef bint is_small_build(self) noexcept nogil
    # Work on one item of the build, if it has begun. Returns False if there was none to claim.
    cdef bint build_some(self, int64_t worker, JoinLookup* lookup, MemoryAccount* account) except -1 nogil
    # The same for a driver that has delivered. Returns FINISHED if the table is published or lost, YIELDED after work,
    # or BLOCKED; then `token` will be fired.
    cdef int poll_build(
        self, int64_t worker, JoinLookup* lookup, MemoryAccount* account, WaitToken* token,
    ) except -1 nogil
    cdef int publish(self) except -1 nogil
    # Called once by each build driver that has delivered, unless it calls lose_build.
    cdef void leave_build(self, Membership* member) noexcept nogil
    cdef int copy_bounds(self, const JoinTable* table) except -1 nogil
    cdef bint keys_changed(self, const JoinTable* table) noexcept nogil
    cdef int widen_stores(self, Account memory) except -1 nogil
    cdef void drop_stores(self) noexcept nogil
    cdef void drop_table(self) noexcept nogil
    # Called by each operator of both sides before it runs.
    cdef void join(self, Membership* member) noexcept nogil
    # Called once by a build driver that stops before it has delivered, or before the table is published.
    cdef void lose_build(self, Membership* member) noexcept nogil
    # Returns the BuildState. If it is BUILD_PENDING `token` will be fired. If it is BUILD_PUBLISHED *table is a new
    # reference.
    cdef int poll_table(self, WaitToken* token, JoinTable** table) except -1 nogil
    # A new reference to the table if it is published and probe drivers are left, else NULL. Any thread may call it.
    cdef JoinTable* peek_table(self) noexcept nogil
    cdef void leave_probe(self, Membership* member) noexcept nogil
    # Returns True if all probe drivers have left. Otherwise `token` will be fired.
    cdef bint poll_all_left(self, WaitToken* token) except -1 nogil
    cdef bint all_probers_left(self) noexcept nogil
    # Claim up to n build rows. Returns their number and sets *start to the first one.
    cdef int64_t claim_build_rows(self, const JoinTable* table, int64_t n, int64_t* start) noexcept nogil
