"""Lists, structs and maps: the engine carries them by row number, and pyarrow gathers them at export.

A nested column is FLAT with STORE_NESTED: `values` points at the Arrow array in which it was imported. Kernels do not
read it. The only operation is to take rows once, at export; pyarrow does that for every type of Arrow.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.column cimport CONSTANT, DICTIONARY, Column
from qcore_ext.data.row_bytes cimport nested_rows_that_fit
from qcore_ext.data.schema cimport arrow_copy
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowSchema
from qcore_ext.ground.bitmap cimport is_valid
from qcore_ext.ground.memory cimport (
    CHECK_ROWS, MemoryAccount, Owner, account_check, account_release, account_reserve, owner_ref, owner_unref,
)

from qcore_ext.ground.status import MemoryLimitError

cdef enum:
    # Bytes that pyarrow takes in one call, which cannot be stopped: about a millisecond.
    PIECE_BYTES = 4194304


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
    """Make a second Arrow array over the same buffers. Each level references the owner: consumers may keep any part."""
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
    """The whole Arrow array of a nested column, from which pyarrow takes rows."""
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


cdef list row_numbers(Batch* batch, const Column* column, const Column* flat, int64_t first, int64_t n):
    """Positions of the selected rows first..first+n in the Arrow array of `flat`; None for a null row."""
    cdef int64_t k, i, at
    rows = []
    for k in range(first, first + n):
        i = batch.selection[k] if batch.selection != NULL else k
        at = i
        if column.encoding == DICTIONARY:
            at = column.indices[i] if is_valid(column.validity, i) else -1
        elif column.encoding == CONSTANT:
            at = 0
        rows.append(flat.offset + at if at >= 0 else None)
    return rows


def take_rows(values, rows):
    """Return rows of a pyarrow array by position. None gives a null row."""
    import pyarrow

    if pyarrow.types.is_run_end_encoded(values.type):
        import pyarrow.compute

        # pyarrow's take does not support run-end-encoded arrays.
        taken = take_rows(pyarrow.compute.run_end_decode(values), rows)
        return pyarrow.compute.run_end_encode(taken, run_end_type=values.type.run_end_type)
    try:
        return values.take(rows)
    except pyarrow.ArrowNotImplementedError:
        # pyarrow's take does not support string and binary views.
        return values.cast(without_views(values.type)).take(rows).cast(values.type)


def without_views(type_):
    """Return a pyarrow type with its string and binary views replaced by other layouts."""
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


cdef object take_in_pieces(
    object source, Batch* batch, const Column* column, const Column* flat, const ArrowSchema* layout,
    MemoryAccount* account, bint looks,
):
    """Take the selected rows of `source`, the array of `flat`, in pieces of PIECE_BYTES.

    The query can be stopped between two pieces.
    """
    import pyarrow

    cdef int64_t at = 0
    cdef int64_t n, n_bytes
    pieces = []
    while at < batch.n_selected or not pieces:
        if looks:
            account_check(account)
        n = min(nested_rows_that_fit(batch, column, layout, at, PIECE_BYTES), <int64_t> CHECK_ROWS)
        pieces.append(take_rows(source, pyarrow.array(row_numbers(batch, column, flat, at, n), pyarrow.int64())))
        at += n
    if len(pieces) == 1:
        return pieces[0]
    n_bytes = sum(piece.nbytes for piece in pieces) if account != NULL else 0
    if account != NULL:
        account_reserve(account, n_bytes)
    try:
        return pyarrow.concat_arrays(pieces)
    finally:
        if account != NULL:
            account_release(account, n_bytes)


cdef int export_with_gil(
    Batch* batch, const Column* column, const ArrowSchema* layout, MemoryAccount* account, bint looks, ArrowArray* out,
) except -1:
    import pyarrow

    cdef const Column* flat = column.base if column.encoding == DICTIONARY else column
    cdef SharedArray shared = SharedArray.__new__(SharedArray)
    cdef ArrowArray* given
    shared.column = flat
    shared.layout = layout
    if flat.encoding == CONSTANT and flat.validity != NULL:
        taken = pyarrow.nulls(batch.n_selected, pyarrow.field(shared).type)
    else:
        try:
            taken = take_in_pieces(pyarrow.array(shared), batch, column, flat, layout, account, looks)
        except MemoryError as error:
            raise MemoryLimitError(f"no memory is left to lay {batch.n_selected} rows out as Arrow: {error}") from error
    capsules = taken.__arrow_c_array__()
    given = <ArrowArray*> PyCapsule_GetPointer(capsules[1], "arrow_array")
    out[0] = given[0]
    given.release = NULL
    return 0


cdef int nested_export(
    Batch* batch, const Column* column, const ArrowSchema* layout, MemoryAccount* account, bint looks, ArrowArray* out,
) except -1 nogil:
    with gil:
        export_with_gil(batch, column, layout, account, looks, out)
    return 0
