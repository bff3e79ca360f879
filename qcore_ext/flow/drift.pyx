"""Schema drift: batches of another schema than their operator declares."""

from libc.stdint cimport int32_t

from qcore_ext.data.schema cimport CSchema, type_equal
from qcore_ext.data.widening cimport raise_types_differ, schema_counterpart, schema_widen
from qcore_ext.flow.operator cimport Operator
from qcore_ext.ground.memory cimport Owner, owner_unref


cdef int drift_to(Operator source, CSchema* given) except -1 nogil:
    cdef CSchema* wide = schema_widen(source.output_schema, given)
    try:
        if source.drift == DRIFT_WIDENS:
            source.set_output_schema(wide)
        else:
            check_within(source.output_schema, given, wide)
    finally:
        owner_unref(<Owner*> wide)
    return 0


def explain_difference(declared, given):
    """Return how a schema differs from the declared one: in a column, or in the order of columns.

    Parameters
    ----------
    declared, given : Schema
        Two different schemas.

    Returns
    -------
    str
    """
    types = dict(zip(given.names, given.types, strict=True))
    for name, type in zip(declared.names, declared.types, strict=True):
        if name not in types:
            return f"column {name!r}, declared as {type}, is missing; it has {', '.join(map(repr, given.names))}"
        if types[name] != type:
            return f"column {name!r} is {types[name]}, declared as {type}"
    for name, type in types.items():
        if name not in declared.names:
            return f"column {name!r} ({type}) is not declared"
    return f"columns come in the order {given.names}, declared as {declared.names}"


cdef int check_within(const CSchema* declared, const CSchema* given, const CSchema* wide) except -1 nogil:
    """Raise SchemaChangeError if a column of the wider schema has another type than the declared one."""
    cdef int32_t i
    for i in range(declared.n_fields):
        if not type_equal(&wide.fields[i].type, &declared.fields[i].type):
            raise_types_differ(
                wide.fields[i].name, &declared.fields[i].type,
                &given.fields[schema_counterpart(given, wide, i)].type,
                b"the scan declares the first type, which cannot hold the other; declare a wider type",
            )
    return 0
