"""Lists, structs and maps: carried through by row number, gathered by pyarrow when they leave.

A nested column is FLAT with STORE_NESTED: `values` points at the Arrow array it came in. Kernels never look into it, so
the one thing to do is to take rows, once, at the edge: pyarrow does that for every type Arrow has.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport CONSTANT, DICTIONARY, Column
from qcore_ext.data.schema cimport arrow_copy
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport Owner, owner_ref, owner_unref


cdef void release_shared(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i].release != NULL:
            array.children[i].release(array.children[i])
        free(array.children[i])
    free(array.children)
    if array.dictionary != NULL:
        if array.dictionary.release != NULL:
            array.dictionary.release(array.dictionary)
        free(array.dictionary)
    owner_unref(<Owner*> array.private_data)
    array.release = NULL


cdef void share(const ArrowArray* source, Owner* owner, ArrowArray* out) noexcept nogil:
    """A second Arrow array over the same buffers; every level holds the owner, so that a consumer may keep any of
    them.
    """
    cdef int64_t i
    out[0] = source[0]
    out.private_data = owner_ref(owner)
    out.release = release_shared
    out.children = NULL
    if source.n_children > 0:
        out.children = <ArrowArray**> malloc(source.n_children * sizeof(ArrowArray*))
        for i in range(source.n_children):
            out.children[i] = <ArrowArray*> malloc(sizeof(ArrowArray))
            share(source.children[i], owner, out.children[i])
    if source.dictionary != NULL:
        out.dictionary = <ArrowArray*> malloc(sizeof(ArrowArray))
        share(source.dictionary, owner, out.dictionary)


cdef void release_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void release_array_capsule(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class SharedArray:
    """The whole Arrow array behind a nested column, for pyarrow to take rows of."""
    cdef const Column* column
    cdef const ArrowSchema* layout

    def __arrow_c_schema__(self):
        cdef ArrowSchema* schema = <ArrowSchema*> malloc(sizeof(ArrowSchema))
        arrow_copy(self.layout, schema)
        return PyCapsule_New(schema, "arrow_schema", release_schema_capsule)

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowArray* array = <ArrowArray*> malloc(sizeof(ArrowArray))
        share(<const ArrowArray*> self.column.values, self.column.values_owner, array)
        return self.__arrow_c_schema__(), PyCapsule_New(array, "arrow_array", release_array_capsule)


cdef list row_numbers(Batch* batch, const Column* column, const Column* flat):
    """Positions of the selected rows in the Arrow array behind `flat`; None for a null."""
    cdef int64_t k, i, at
    rows = []
    for k in range(batch.n_selected):
        i = batch.selection[k] if batch.selection != NULL else k
        at = i
        if column.encoding == DICTIONARY:
            at = column.indices[i] if is_valid(column.validity, i) else -1
        elif column.encoding == CONSTANT:
            at = 0
        rows.append(flat.offset + at if at >= 0 else None)
    return rows


def rows_taken(values, rows):
    """Rows of a pyarrow array by number, null for a null."""
    import pyarrow

    try:
        return values.take(rows)
    except pyarrow.ArrowNotImplementedError:
        # It takes no rows of string and binary views.
        return values.cast(without_views(values.type)).take(rows).cast(values.type)


def without_views(type_):
    """A pyarrow type with its strings and bytes in other layouts than views."""
    import pyarrow

    types = pyarrow.types
    if types.is_string_view(type_):
        return pyarrow.large_string()
    if types.is_binary_view(type_):
        return pyarrow.large_binary()
    if types.is_struct(type_):
        return pyarrow.struct([field.with_type(without_views(field.type)) for field in type_])
    if types.is_map(type_):
        return pyarrow.map_(without_views(type_.key_type), without_views(type_.item_type))
    if types.is_list(type_):
        return pyarrow.list_(type_.value_field.with_type(without_views(type_.value_type)))
    if types.is_large_list(type_):
        return pyarrow.large_list(type_.value_field.with_type(without_views(type_.value_type)))
    if types.is_fixed_size_list(type_):
        return pyarrow.list_(type_.value_field.with_type(without_views(type_.value_type)), type_.list_size)
    return type_


cdef int export_with_gil(Batch* batch, const Column* column, const ArrowSchema* layout, ArrowArray* out) except -1:
    import pyarrow

    cdef const Column* flat = column.base if column.encoding == DICTIONARY else column
    cdef SharedArray shared = SharedArray.__new__(SharedArray)
    cdef ArrowArray* given
    shared.column = flat
    shared.layout = layout
    if flat.encoding == CONSTANT and flat.validity != NULL:
        taken = pyarrow.nulls(batch.n_selected, pyarrow.field(shared).type)
    else:
        source = pyarrow.array(shared)
        rows = pyarrow.array(row_numbers(batch, column, flat), pyarrow.int64())
        taken = rows_taken(source, rows)
    capsules = taken.__arrow_c_array__()
    given = <ArrowArray*> PyCapsule_GetPointer(capsules[1], "arrow_array")
    out[0] = given[0]
    given.release = NULL
    return 0


cdef int nested_export(Batch* batch, const Column* column, const ArrowSchema* layout, ArrowArray* out) except -1 nogil:
    with gil:
        export_with_gil(batch, column, layout, out)
    return 0
