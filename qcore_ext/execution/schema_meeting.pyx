"""The schemas between two operators: batches are widened, and operators are bound to wider schemas."""

from cpython.ref cimport Py_DECREF, Py_INCREF

from qcore_ext.compute.widener cimport Widener
from qcore_ext.data.batch cimport batch_unref
from qcore_ext.data.schema cimport schema_equal
from qcore_ext.data.widening cimport schema_widen
from qcore_ext.flow.operator cimport Operator
from qcore_ext.ground.memory cimport Account, Owner, owner_ref, owner_unref


cdef int schema_meet(BoundSchema* bound, PyObject* operator, PyObject* account, Batch** pending) except -1 nogil:
    cdef CSchema* given = pending[0].schema
    cdef CSchema* wide
    if bound.schema == NULL:
        (<Operator> operator).bind(given)
        bound.schema = <CSchema*> owner_ref(<Owner*> given)
        return 0
    if schema_equal(given, bound.schema):
        # The schema is equal but at another address. Keep it, so that the next batches are compared by address.
        owner_ref(<Owner*> given)
        owner_unref(<Owner*> bound.schema)
        bound.schema = given
        return 0
    wide = schema_widen(bound.schema, given)
    try:
        if wide != bound.schema:
            (<Operator> operator).bind(wide)
            owner_unref(<Owner*> bound.schema)
            bound.schema = <CSchema*> owner_ref(<Owner*> wide)
    finally:
        owner_unref(<Owner*> wide)
    if not schema_equal(given, bound.schema):
        if bound.widener == NULL:
            bound.widener = new_widener(account)
        widen_to(<Widener> bound.widener, bound.schema, pending)
    return 0


cdef Batch* drift_settle(PyObject* giver, PyObject** widener, Batch* batch) except NULL nogil:
    cdef CSchema* declared = (<Operator> giver).output_schema
    cdef bint done = False
    if schema_equal(batch.schema, declared):
        return batch
    try:
        if widener[0] == NULL:
            widener[0] = new_widener(<PyObject*> (<Operator> giver).memory)
        widen_to(<Widener> widener[0], declared, &batch)
        done = True
    finally:
        if not done:
            batch_unref(batch)
    return batch


cdef int widen_to(Widener widener, CSchema* wide, Batch** batch) except -1 nogil:
    cdef Batch* widened
    widener.aim(batch[0].schema, wide)
    widened = widener.widen_batch(batch[0])
    batch_unref(batch[0])
    batch[0] = widened
    return 0


cdef void bound_schema_clear(BoundSchema* bound) noexcept nogil:
    owner_unref(<Owner*> bound.schema)
    bound.schema = NULL
    widener_clear(&bound.widener)


cdef void widener_clear(PyObject** widener) noexcept nogil:
    if widener[0] != NULL:
        drop_widener(widener[0])
        widener[0] = NULL


# The GIL is taken only where batches were widened.

cdef PyObject* new_widener(PyObject* account) except NULL with gil:
    widener = Widener(<Account> account)
    Py_INCREF(widener)
    return <PyObject*> widener


cdef void drop_widener(PyObject* widener) noexcept with gil:
    Py_DECREF(<Widener> widener)
