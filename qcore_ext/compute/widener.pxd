"""Conversion of batches to a wider schema."""

from libc.stdint cimport int32_t, uint8_t

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account


cdef class Widener:
    """Converts batches to a wider schema. Columns of the same type are passed on, new columns are constant nulls, and
    columns of another type are converted. Belongs to one driver.
    """
    cdef Account account
    cdef CSchema* source            # owned; schema of the next batches, or NULL
    cdef CSchema* target            # owned; schema of the results, or NULL
    cdef int32_t* columns           # owned; for each column of the target its column of the source, or -1
    cdef int32_t* converted         # owned; for each column of the target its number among the conversions, or -1
    cdef uint8_t* checked           # owned; for each column of the target 1 if some values may not convert exactly
    cdef int32_t n_converted
    cdef Evaluator evaluator        # computes the conversions; None if there are none

    # Prepare for batches of the schema `source`. `target` is a result of data.widening.schema_widen for `source` and
    # other schemas. A call with the schemas of the last call returns at once.
    cdef int aim(self, CSchema* source, CSchema* target) except -1 nogil
    # The batch converted to the target schema, as a new reference. Raises SchemaChangeError for a value that the
    # target's type does not have.
    cdef Batch* widen_batch(self, Batch* batch) except NULL nogil
    cdef int prepare(self, CSchema* source, CSchema* target) except -1
    cdef int compile(self) except -1
    cdef int check_exact(self, Batch* batch, int32_t i) except -1 nogil
    cdef int raise_inexact(self, int32_t i, object value) except -1
    cdef Batch* assemble_batch(self, Batch* batch, Batch* conversions) except NULL nogil
    cdef void clear(self) noexcept nogil
