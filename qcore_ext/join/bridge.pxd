"""The structure between the build and the probe pipeline of a join, shared by the drivers of both. SPEC V15,
G8.

Build drivers hand in their stores; the last one makes the table and publishes it, and probers blocked on it wake.
Probers leave at the end. The remaining ones then share the output of build rows (those without a
match). Every driver leaves each barrier exactly once, by finishing, abandoning or closing, in any order and state.
"""

from libc.stdint cimport int32_t, int64_t

from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.lock cimport Mutex
from qcore_ext.ground.memory cimport Account
from qcore_ext.ground.wait_token cimport WaitSet, WaitToken
from qcore_ext.flow.barrier cimport Barrier, Membership
from qcore_ext.join.table cimport JoinTable
from qcore_ext.join.key_codes cimport KeyPart
from qcore_ext.rows.column_store cimport ColumnStore

cdef enum BuildState:
    BUILD_PENDING = 0
    BUILD_PUBLISHED = 1
    BUILD_LOST = 2              # a build driver stopped before it was done: there will be no table


cdef class JoinBridge:
    cdef readonly int kind              # JoinKind
    cdef readonly bint has_condition
    cdef readonly Schema declared_build_schema      # of the build input, or None
    cdef readonly Schema declared_probe_schema      # of the probe input, or None
    cdef CSchema* build_schema          # owned; columns that the table stores, or NULL while unknown
    cdef int64_t n_build_schemas        # how often it has changed
    cdef list key_columns               # positions of the keys among them
    cdef Barrier builders
    cdef Barrier probers
    # Build drivers lock to hand in what they have; probers never do.
    cdef Mutex mutex                    # guards the stores, and the step from BUILD_PENDING
    cdef ColumnStore** stores              # each owned
    cdef CSchema** store_schemas        # each owned; of a store's columns, or NULL while they are unknown
    cdef int64_t n_stores
    cdef bint null_key_seen             # fixed once published
    cdef int64_t build_state            # BuildState; atomic
    cdef JoinTable* table               # owned; atomic; goes with the last prober
    cdef KeyPart* bounds                # owned; of the published table's keys, NULL: none
    cdef int32_t n_bounds
    cdef int published_index            # IndexKind of the published table
    cdef int64_t next_build_row         # atomic; claimed by probers that give build rows
    cdef WaitSet build_waiters          # probers
    cdef WaitSet probe_waiters          # finished probers, until all are

    # The columns a build driver stores. The table's types are the widest of all drivers' (data.widening);
    # SchemaChangeError when there is none.
    cdef int set_build_schema(self, CSchema* schema, list key_columns) except -1
    cdef bint replace_build_schema(self, CSchema* seen, CSchema* wide) noexcept nogil
    # Hand in one driver's rows (its reference is taken over); the last call makes and publishes the table.
    cdef int deliver(
        self, ColumnStore* store, CSchema* schema, bint null_key_seen, const int32_t* key_columns, int32_t n_keys,
        Account memory, Membership* member,
    ) except -1 nogil
    cdef int publish(self, const int32_t* key_columns, int32_t n_keys, Account memory) except -1 nogil
    cdef int note_bounds(self, const JoinTable* table) except -1 nogil
    cdef bint keys_changed(self, const JoinTable* table) noexcept nogil
    cdef int widen_stores(self, Account memory) except -1 nogil
    cdef void drop_stores(self) noexcept nogil
    cdef void drop_table(self) noexcept nogil
    # Before it runs, each operator of either side.
    cdef void join(self, Membership* member) noexcept nogil
    cdef void lose_build(self, Membership* member) noexcept nogil
    # BUILD_PENDING: `token` will be fired. BUILD_PUBLISHED: *table is a new reference.
    cdef int poll_table(self, WaitToken* token, JoinTable** table) except -1 nogil
    cdef void leave_probe(self, Membership* member) noexcept nogil
    # True when all probers have left; else `token` will be fired.
    cdef bint poll_all_left(self, WaitToken* token) except -1 nogil
    cdef bint all_probers_left(self) noexcept nogil
    # Claim up to n build rows: returns how many, from *start.
    cdef int64_t claim_build_rows(self, const JoinTable* table, int64_t n, int64_t* start) noexcept nogil
