"""The schemas between two operators: what happens when a batch has another schema than one of them expects.

A batch of another schema than its operator declares is converted to the declared one (`drift_settle`).

An operator sees schemas that only grow. A batch below the bound schema is widened to it. A batch above it makes the
driver bind the operator to the wider schema. If each has something that the other lacks, both happen (`schema_meet`).
"""

from cpython.object cimport PyObject

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.schema cimport CSchema


ctypedef struct BoundSchema:
    CSchema* schema         # owned; the schema last bound, or NULL
    PyObject* widener       # owned Widener; NULL until a batch has a narrower schema


# Convert a batch that `giver` (an Operator) returned to the giver's output schema. Takes the reference to the batch and
# drops it if the conversion fails. `widener[0]` is NULL or an owned Widener; the first conversion makes it.
cdef Batch* drift_settle(PyObject* giver, PyObject** widener, Batch* batch) except NULL nogil
cdef void widener_clear(PyObject** widener) noexcept nogil
# Bind `operator` (an Operator) to a schema that holds the rows of `pending[0]`, unless it is bound to one. Replaces
# `pending[0]` by a batch of the bound schema. `account`: the Account that pays for the widener, read when it is made.
cdef int schema_meet(BoundSchema* bound, PyObject* operator, PyObject* account, Batch** pending) except -1 nogil
cdef void bound_schema_clear(BoundSchema* bound) noexcept nogil
