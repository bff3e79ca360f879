"""A source of batches in the engine itself, which TableScan reads without Arrow in between."""

from qcore_ext.data.batch cimport Batch, batch_unref
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.schema cimport CSchema, Schema
from qcore_ext.ground.memory cimport Account, MemoryAccount, Owner, owner_ref, owner_unref


cdef class BatchReader:
    """A source of batches. A subclass defines `next_batch`."""

    def __cinit__(self):
        self.row_filters = []
        self.figures = {}

    def __dealloc__(self):
        owner_unref(<Owner*> self.schema)

    cdef void set_schema(self, CSchema* schema) noexcept nogil:
        owner_ref(<Owner*> schema)
        owner_unref(<Owner*> self.schema)
        self.schema = schema

    cdef int next_batch(self, MemoryAccount* account, Batch** out) except -1 nogil:
        return 0

    def filter_rows(self, filters):
        """Ask these RowFilters which rows are needed, in this order until the reader has measured them. They must be
        open for the schema.
        """
        self.row_filters = list(filters)

    @property
    def schema_object(self):
        """The batches' schema as data.schema.Schema."""
        return Schema.wrap(self.schema)

    def read_batch(self, Account account):
        """Return the next batch as a data.capsule.PyBatch; None at the end."""
        cdef Batch* batch = NULL
        cdef int found
        with nogil:
            found = self.next_batch(account.account, &batch)
        if not found:
            return None
        try:
            return PyBatch.wrap(batch)
        finally:
            batch_unref(batch)
