"""The bridge of a join: the structure that the drivers of its build and probe pipelines share."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from qcore_ext.data.schema cimport (
    TYPE_INT8, TYPE_UINT64, CSchema, DataType, Schema, schema_equal, schema_index,
)
from qcore_ext.data.widening cimport schema_widen
from qcore_ext.ground.atomic cimport qc_cas, qc_fetch_add, qc_load, qc_load_pointer, qc_swap_pointer
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.lock cimport LOCK_STRUCTURE, mutex_destroy, mutex_init, mutex_lock, mutex_unlock
from qcore_ext.ground.memory cimport Account, MemoryAccount, Owner, owner_ref, owner_unref, struct_free, struct_new
from qcore_ext.ground.placement cimport qc_pause
from qcore_ext.ground.wait_token cimport WaitToken, wait_set_add, wait_set_clear, wait_set_fire_all
from qcore_ext.flow.barrier cimport Membership, barrier_is_empty, barrier_join, barrier_leave
from qcore_ext.flow.operator cimport BLOCKED, FINISHED, YIELDED
from qcore_ext.join.kind cimport JOIN_INNER, returns_build_rows, join_kind_of, needs_no_groups
from qcore_ext.join.build_state cimport TableBuild
from qcore_ext.join.table cimport INDEX_CODES, INDEX_RANKS, INDEX_VALUES, JoinLookup, JoinTable
from qcore_ext.join.table_build cimport (
    WORK_ADVANCED, WORK_COMPLETE, WORK_NONE, table_build_free, table_build_has_work, table_build_new, table_build_take,
    table_build_work,
)
from qcore_ext.join.key_codes cimport KeyPart
from qcore_ext.rows.column_store cimport ColumnStore
from qcore_ext.rows.widened_rows cimport column_store_widen

from qcore_ext.ground.status import PlanError
from qcore_ext.join.table import IndexKind

cdef enum:
    # The driver that begins the build of a table with fewer rows works until no item is left. It takes less than a
    # millisecond, about as long as to wake other drivers.
    SHARED_ROWS_MIN = 32768


cdef class JoinBridge:
    """The shared state of one join.

    Parameters
    ----------
    kind : str
        inner, left, right, full, left_semi, left_anti, right_semi, right_anti, null_aware_anti, mark or
        null_aware_mark. Left is the probe side.
    n_build_drivers, n_probe_drivers : int
        The numbers of HashBuild and HashProbe operators that share this bridge.
    has_condition : bool
        Whether pairs must pass a further condition. The table then keeps the rows of each key for every kind.
    build_schema, probe_schema : object with __arrow_c_schema__, optional
        The full schemas of both inputs. They are needed for an outer join if an input may have no batch.

    Raises
    ------
    PlanError
        If the kind is unknown or a number of drivers is below one.
    """

    def __cinit__(self):
        mutex_init(&self.mutex, LOCK_STRUCTURE)

    def __init__(
        self, str kind, int64_t n_build_drivers, int64_t n_probe_drivers, bint has_condition=False,
        build_schema=None, probe_schema=None,
    ):
        if n_build_drivers < 1 or n_probe_drivers < 1:
            raise PlanError(
                f"a join needs at least one build and one probe driver, but has {n_build_drivers} and {n_probe_drivers}"
            )
        self.kind = join_kind_of(kind)
        self.has_condition = has_condition
        self.builders.n_members = n_build_drivers
        self.probers.n_members = n_probe_drivers
        self.declared_build_schema = Schema(build_schema) if build_schema is not None else None
        self.declared_probe_schema = Schema(probe_schema) if probe_schema is not None else None
        self.stores = <ColumnStore**> struct_new(n_build_drivers * sizeof(ColumnStore*))
        self.store_schemas = <CSchema**> struct_new(n_build_drivers * sizeof(CSchema*))

    def __dealloc__(self):
        self.drop_stores()
        table_build_free(self.build)
        struct_free(self.stores)
        struct_free(self.store_schemas)
        wait_set_clear(&self.build_waiters)
        wait_set_clear(&self.probe_waiters)
        owner_unref(<Owner*> self.table)
        struct_free(self.bounds)
        owner_unref(<Owner*> self.build_schema)
        mutex_destroy(&self.mutex)

    cdef void drop_stores(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.n_stores):
            owner_unref(<Owner*> self.stores[i])
            owner_unref(<Owner*> self.store_schemas[i])
        self.n_stores = 0

    cdef void drop_table(self) noexcept nogil:
        # Probe drivers that still output build rows have their own references.
        cdef JoinTable* table = <JoinTable*> qc_swap_pointer(<void**> &self.table, NULL)
        # A thread in peek_table may have read the pointer before, and takes its reference now.
        while qc_load(&self.n_peeking) > 0:
            qc_pause()
        owner_unref(<Owner*> table)

    cdef JoinTable* peek_table(self) noexcept nogil:
        cdef JoinTable* table
        qc_fetch_add(&self.n_peeking, 1)
        table = <JoinTable*> owner_ref(<Owner*> qc_load_pointer(<void**> &self.table))
        qc_fetch_add(&self.n_peeking, -1)
        return table

    cdef void join(self, Membership* member) noexcept nogil:
        barrier_join(member)

    cdef int set_build_schema(self, CSchema* schema, list key_columns) except -1:
        cdef CSchema* seen
        cdef CSchema* wide
        cdef bint done = False
        self.key_columns = key_columns
        while not done:
            mutex_lock(&self.mutex)
            seen = <CSchema*> owner_ref(<Owner*> self.build_schema)
            mutex_unlock(&self.mutex)
            try:
                # Not under the lock, because it may raise an error, which needs the GIL.
                wide = schema if seen == NULL else schema_widen(seen, schema)
                if seen == NULL:
                    owner_ref(<Owner*> wide)
                done = self.replace_build_schema(seen, wide)
            finally:
                owner_unref(<Owner*> seen)
        return 0

    cdef bint replace_build_schema(self, CSchema* seen, CSchema* wide) noexcept nogil:
        """Replace the schema `seen` by `wide` and take over the reference to `wide`. Returns False if another driver
        has changed the schema since it was `seen`.
        """
        cdef CSchema* dropped = wide
        cdef bint replaced
        mutex_lock(&self.mutex)
        replaced = self.build_schema == seen
        if replaced:
            dropped = seen
            qc_swap_pointer(<void**> &self.build_schema, wide)      # probe drivers read without the lock if it is NULL
            self.n_build_schemas += wide != seen
        mutex_unlock(&self.mutex)
        owner_unref(<Owner*> dropped)
        return replaced

    cdef int64_t deliver(
        self, ColumnStore* store, CSchema* schema, bint null_key_seen, const int32_t* key_columns, int32_t n_keys,
        bint returns_keys, Account memory,
    ) except -1 nogil:
        cdef bint lost
        cdef int64_t worker = -2
        mutex_lock(&self.mutex)
        lost = self.build_state == BUILD_LOST
        if not lost:
            qc_check(self.n_stores < self.builders.n_members, b"each build driver delivers one store")
            worker = self.n_stores
            self.stores[worker] = store
            self.store_schemas[worker] = <CSchema*> owner_ref(<Owner*> schema)
            self.n_stores += 1
            self.null_key_seen = self.null_key_seen or null_key_seen
        mutex_unlock(&self.mutex)
        if lost:
            owner_unref(<Owner*> store)
        elif worker == self.builders.n_members - 1:
            # All other build drivers have delivered, so only this driver uses the stores.
            self.begin_build(key_columns, n_keys, returns_keys, memory)
        return worker

    cdef int widen_stores(self, Account memory) except -1 nogil:
        """Widen all stores to the table's schema. A driver may have widened it after another driver delivered."""
        cdef ColumnStore* wider
        cdef int64_t i
        for i in range(self.n_stores):
            if self.store_schemas[i] != NULL and not schema_equal(self.store_schemas[i], self.build_schema):
                wider = column_store_widen(self.stores[i], self.store_schemas[i], self.build_schema, memory)
                owner_unref(<Owner*> self.stores[i])
                self.stores[i] = wider
        return 0

    cdef int begin_build(
        self, const int32_t* key_columns, int32_t n_keys, bint returns_keys, Account memory,
    ) except -1 nogil:
        cdef TableBuild* build
        cdef int64_t i
        self.widen_stores(memory)
        build = table_build_new(
            self.stores, self.n_stores, self.builders.n_members, key_columns, n_keys,
            needs_no_groups(self.kind) and not self.has_condition,
            self.kind == JOIN_INNER and not self.has_condition and not returns_keys,
            returns_build_rows(self.kind), memory.account
        )
        for i in range(self.n_stores):
            self.stores[i] = NULL
        qc_swap_pointer(<void**> &self.build, build)
        if build.table.n_rows == 0:
            self.publish()
        wait_set_fire_all(&self.build_waiters)
        return 0

    cdef bint is_small_build(self) noexcept nogil:
        cdef TableBuild* build = <TableBuild*> qc_load_pointer(<void**> &self.build)
        return build != NULL and build.rows.n_rows < SHARED_ROWS_MIN

    cdef bint build_some(self, int64_t worker, JoinLookup* lookup, MemoryAccount* account) except -1 nogil:
        cdef TableBuild* build = <TableBuild*> qc_load_pointer(<void**> &self.build)
        cdef int work
        if build == NULL:
            return False
        work = table_build_work(build, worker, lookup, account)
        if work == WORK_COMPLETE:
            self.publish()
        if work == WORK_COMPLETE or work == WORK_ADVANCED:
            wait_set_fire_all(&self.build_waiters)
        return work != WORK_NONE

    cdef int poll_build(
        self, int64_t worker, JoinLookup* lookup, MemoryAccount* account, WaitToken* token,
    ) except -1 nogil:
        cdef TableBuild* build
        if qc_load(&self.build_state) != BUILD_PENDING:
            return FINISHED
        if self.build_some(worker, lookup, account):
            return YIELDED
        wait_set_add(&self.build_waiters, token)
        build = <TableBuild*> qc_load_pointer(<void**> &self.build)
        if qc_load(&self.build_state) != BUILD_PENDING or (build != NULL and table_build_has_work(build)):
            return YIELDED
        return BLOCKED

    cdef int publish(self) except -1 nogil:
        cdef JoinTable* table = table_build_take(self.build)
        cdef bint done = False
        try:
            self.copy_bounds(table)
            done = True
        finally:
            if not done:
                owner_unref(<Owner*> table)
        qc_swap_pointer(<void**> &self.table, table)
        if not qc_cas(&self.build_state, BUILD_PENDING, BUILD_PUBLISHED) or barrier_is_empty(&self.probers):
            self.drop_table()           # a build driver stopped, or all probe drivers have left
        return 0

    cdef void leave_build(self, Membership* member) noexcept nogil:
        if barrier_leave(&self.builders, member) == 0:
            table_build_free(<TableBuild*> qc_swap_pointer(<void**> &self.build, NULL))

    cdef int copy_bounds(self, const JoinTable* table) except -1 nogil:
        """Copy the data of key_bounds and index_kind, because the table belongs to the probe drivers."""
        cdef int32_t i
        self.published_index = table.index
        if table.index != INDEX_RANKS and table.index != INDEX_CODES and table.index != INDEX_VALUES:
            return 0
        if self.keys_changed(table):
            return 0
        for i in range(table.coder.n_parts):
            if table.coder.parts[i].is_real:
                return 0
        self.bounds = <KeyPart*> struct_new(table.coder.n_parts * sizeof(KeyPart) + 1)
        memcpy(self.bounds, table.coder.parts, table.coder.n_parts * sizeof(KeyPart))
        self.n_bounds = table.coder.n_parts
        return 0

    cdef bint keys_changed(self, const JoinTable* table) noexcept nogil:
        """Whether the values of a key have another format than declared, such as decimals of another scale."""
        cdef const DataType* given
        cdef const DataType* declared
        cdef int32_t i, k, at
        if self.declared_build_schema is None:
            return False
        for i in range(table.n_keys):
            k = table.key_columns[i]
            at = schema_index(self.declared_build_schema.schema, self.build_schema.fields[k].name)
            if at < 0:
                continue
            given = &self.build_schema.fields[k].type
            declared = &self.declared_build_schema.schema.fields[at].type
            if given.id != declared.id and not TYPE_INT8 <= given.id <= TYPE_UINT64:
                return True
            if given.scale != declared.scale or given.unit != declared.unit:
                return True
        return False

    cdef void lose_build(self, Membership* member) noexcept nogil:
        mutex_lock(&self.mutex)
        # Once all drivers have delivered, the stores belong to the build.
        if qc_cas(&self.build_state, BUILD_PENDING, BUILD_LOST) and self.n_stores < self.builders.n_members:
            self.drop_stores()
        mutex_unlock(&self.mutex)
        self.leave_build(member)
        wait_set_fire_all(&self.build_waiters)

    cdef int poll_table(self, WaitToken* token, JoinTable** table) except -1 nogil:
        cdef int64_t state = qc_load(&self.build_state)
        if state == BUILD_PENDING:
            wait_set_add(&self.build_waiters, token)
            state = qc_load(&self.build_state)
        if state == BUILD_PUBLISHED:
            # The caller has not left, so the table is not dropped before its reference is taken.
            table[0] = <JoinTable*> owner_ref(<Owner*> qc_load_pointer(<void**> &self.table))
        return <int> state

    cdef void leave_probe(self, Membership* member) noexcept nogil:
        if barrier_leave(&self.probers, member) == 0:
            self.drop_table()
            wait_set_fire_all(&self.probe_waiters)

    cdef bint poll_all_left(self, WaitToken* token) except -1 nogil:
        if not barrier_is_empty(&self.probers):
            wait_set_add(&self.probe_waiters, token)
        return barrier_is_empty(&self.probers)

    cdef bint all_probers_left(self) noexcept nogil:
        return barrier_is_empty(&self.probers)

    def key_bounds(self):
        """The smallest and largest key of the build side, for filters below the probe side.

        Returns
        -------
        list of (int, int) or None
            One pair for each key column, in the values' physical form (days, unscaled decimals). None if the table is
            not published or is empty, or if its keys are not integers, dates or decimals that fit 64 bits together.
        """
        cdef const KeyPart* part
        cdef int32_t i
        if qc_load_pointer(<void**> &self.table) == NULL or self.bounds == NULL:
            return None
        bounds = []
        for i in range(self.n_bounds):
            part = &self.bounds[i]
            if part.is_signed:
                bounds.append((<int64_t> part.minimum, <int64_t> (part.minimum + part.range)))
            else:
                bounds.append((part.minimum, part.minimum + part.range))
        return bounds

    @property
    def index_kind(self):
        """The IndexKind of the published table, or None before it is published."""
        if qc_load_pointer(<void**> &self.table) == NULL:
            return None
        return IndexKind(self.published_index)

    cdef int64_t claim_build_rows(self, const JoinTable* table, int64_t n, int64_t* start) noexcept nogil:
        qc_check(n >= 0, b"build rows are claimed in ascending order")
        start[0] = qc_fetch_add(&self.next_build_row, n)
        return min(n, table.n_rows - start[0]) if start[0] < table.n_rows else 0
