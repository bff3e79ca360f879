"""Batches of a narrower schema made into batches of a wider one. SPEC D6."""

from libc.stdint cimport int32_t, uint8_t

from qcore_ext.compute.evaluator cimport Evaluator
from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema
from qcore_ext.ground.memory cimport Account


cdef class Widener:
    """Belongs to one driver. Columns that stay are passed on, those that are new are constant nulls, and only those of
    another type are converted.
    """
    cdef Account account
    cdef CSchema* source            # owned; of the batches to come, or NULL
    cdef CSchema* target            # owned; what they become
    cdef int32_t* columns           # owned; by column of the target, the source's or -1
    cdef int32_t* converted         # owned; by column of the target, its place among the converted ones or -1
    cdef uint8_t* checked           # owned; by column of the target, whether values may not be held exactly
    cdef int32_t n_converted
    cdef Evaluator evaluator        # of the conversions; None: there are none

    # Prepare for batches of `source`; a change of neither schema (by value) costs next to nothing. `target` is what
    # data.widening.schema_widen made of it and others.
    cdef int aim(self, CSchema* source, CSchema* target) except -1 nogil
    # The batch under the target schema, a new reference. SchemaChangeError names a column whose value does not go in.
    cdef Batch* widened(self, Batch* batch) except NULL nogil
    cdef int prepare(self, CSchema* source, CSchema* target) except -1
    cdef int compile(self) except -1
    cdef int check_exact(self, Batch* batch, int32_t i) except -1 nogil
    cdef int raise_inexact(self, int32_t i, object value) except -1
    cdef Batch* assembled(self, Batch* batch, Batch* conversions) except NULL nogil
    cdef void clear(self) noexcept nogil
