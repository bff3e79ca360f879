"""The schemas of an operator's input: binding an operator to wider schemas, and widening batches of narrower ones."""

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
        # An equal schema at another address: kept, so that the next batch of this source is compared by address.
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
        widen_pending(bound, account, pending)
    return 0


cdef int widen_pending(BoundSchema* bound, PyObject* account, Batch** pending) except -1 nogil:
    cdef Batch* wide
    if bound.widener == NULL:
        bound.widener = new_widener(account)
    (<Widener> bound.widener).aim(pending[0].schema, bound.schema)
    wide = (<Widener> bound.widener).widen_batch(pending[0])
    batch_unref(pending[0])
    pending[0] = wide
    return 0


cdef void bound_schema_clear(BoundSchema* bound) noexcept nogil:
    owner_unref(<Owner*> bound.schema)
    bound.schema = NULL
    if bound.widener != NULL:
        drop_widener(bound.widener)
        bound.widener = NULL


# The GIL is taken only by operators whose batches were widened.

cdef PyObject* new_widener(PyObject* account) except NULL with gil:
    widener = Widener(<Account> account)
    Py_INCREF(widener)
    return <PyObject*> widener


cdef void drop_widener(PyObject* widener) noexcept with gil:
    Py_DECREF(<Widener> widener)
