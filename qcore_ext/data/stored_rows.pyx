"""Rows of a table in memory, which drivers read without the GIL.

A stream is read once, and its Arrow arrays are kept. Each read imports a slice of one of them as a batch that borrows
the array's buffers. A driver that begins a split therefore neither calls Python nor waits for the GIL.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from qcore_ext.data.batch cimport Batch
from qcore_ext.data.capsule cimport batch_import
from qcore_ext.data.row_check cimport RowCheck, RowChecks, row_check_covers
from qcore_ext.data.schema cimport CSchema, schema_equal, schema_from_arrow
from qcore_ext.ground.arrow_abi cimport ArrowArray, ArrowArrayStream
from qcore_ext.ground.atomic cimport qc_load
from qcore_ext.ground.check cimport qc_check
from qcore_ext.ground.memory cimport MemoryAccount, Owner, owner_ref, owner_unref

from qcore_ext.ground.status import ExecutionError


cdef void piece_free(Owner* self) noexcept nogil:
    cdef StoredPiece* piece = <StoredPiece*> self
    if piece.array.release != NULL:
        piece.array.release(&piece.array)
    free(piece)


cdef void view_release(ArrowArray* array) noexcept nogil:
    """The release of a slice that batch_import took: it owns a reference to its piece."""
    array.release = NULL
    owner_unref(<Owner*> array.private_data)


cdef class StoredRows:
    """The rows of a stream, kept in the arrays of the stream.

    Parameters
    ----------
    source : object with __arrow_c_stream__
        Read to its end. Its rows must be checked, or have row checks. Other layouts than plain ones, dictionaries for
        example, are converted by each read.
    row_checks : list of list of RowChecks, optional
        For each column the checks of all arrays whose slices the batches are, in order; an empty list for a column
        without checks.

    Attributes
    ----------
    is_checked : bool
        Whether each batch is a slice of the arrays of the row checks. Otherwise the rows must not be read from here.

    Raises ExecutionError if the stream fails.
    """

    def __init__(self, source, row_checks=None):
        self.fill(source)
        self.is_checked = row_checks is None or self.find_checks(row_checks)

    def __dealloc__(self):
        cdef int64_t i
        if self.checks != NULL:
            for i in range(self.n_pieces * self.layout.n_children):
                owner_unref(<Owner*> self.checks[i])
            free(self.checks)
        for i in range(self.n_pieces):
            owner_unref(<Owner*> self.pieces[i])
        free(self.pieces)
        if self.layout.release != NULL:
            self.layout.release(&self.layout)

    cdef int fill(self, source) except -1:
        cdef ArrowArray array
        capsule = source.__arrow_c_stream__()
        cdef ArrowArrayStream* stream = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
        if stream.release == NULL:
            raise ExecutionError("the Arrow stream was already read")
        if stream.get_schema(stream, &self.layout) != 0:
            raise ExecutionError("the Arrow stream has no schema")
        while True:
            memset(&array, 0, sizeof(ArrowArray))
            if stream.get_next(stream, &array) != 0:
                raise ExecutionError("an Arrow stream failed while being read")
            if array.release == NULL:
                return 0
            self.add_piece(&array)

    cdef bint has_schema(self, CSchema* schema) except -1:
        cdef CSchema* own = schema_from_arrow(&self.layout)
        try:
            return schema_equal(own, schema)
        finally:
            owner_unref(<Owner*> own)

    cdef int add_piece(self, ArrowArray* array) except -1:
        """Keep an array. Its release is moved out, also if this method raises."""
        cdef StoredPiece* piece = <StoredPiece*> calloc(1, sizeof(StoredPiece))
        cdef StoredPiece** larger = self.pieces
        if self.n_pieces == self.capacity:
            larger = <StoredPiece**> realloc(self.pieces, (self.capacity * 2 + 16) * sizeof(StoredPiece*))
        if piece == NULL or larger == NULL:
            free(piece)
            array.release(array)
            raise MemoryError
        if self.n_pieces == self.capacity:
            self.capacity = self.capacity * 2 + 16
        self.pieces = larger
        piece.owner.references = 1
        piece.owner.release = piece_free
        piece.array = array[0]
        piece.start = self.n_rows
        array.release = NULL
        if piece.array.length == 0:
            owner_unref(<Owner*> piece)
            return 0
        self.pieces[self.n_pieces] = piece
        self.n_pieces += 1
        self.n_rows += piece.array.length
        return 0

    cdef bint find_checks(self, row_checks) except -1:
        """Find for each column of each piece the check of the array that it is a slice of. False if one has none."""
        cdef int64_t i, k, at
        cdef ArrowArray* array
        cdef ArrowArray* child
        cdef list held
        cdef RowChecks check
        self.checks = <RowCheck**> calloc(self.n_pieces * self.layout.n_children + 1, sizeof(RowCheck*))
        if self.checks == NULL:
            raise MemoryError
        for i in range(self.layout.n_children):
            held = row_checks[i]
            at = 0
            for k in range(self.n_pieces):
                if not held:
                    break
                array = &self.pieces[k].array
                child = array.children[i]
                # Pieces come in the order of the arrays.
                while at < len(held):
                    check = held[at]
                    if row_check_covers(check.check, child, child.offset + array.offset, array.length):
                        self.checks[k * self.layout.n_children + i] = <RowCheck*> owner_ref(<Owner*> check.check)
                        break
                    at += 1
                else:
                    return False
        return True

    cdef Batch* read(self, int64_t start, int64_t n, CSchema* schema, MemoryAccount* account) except NULL nogil:
        cdef int64_t low = 0
        cdef int64_t high = self.n_pieces
        cdef int64_t middle, i
        cdef ArrowArray view
        cdef StoredPiece* piece
        cdef RowCheck* check
        cdef Batch* out
        qc_check(start >= 0 and start < self.n_rows, b"rows that are read are stored")
        while high - low > 1:
            middle = (low + high) // 2
            if self.pieces[middle].start <= start:
                low = middle
            else:
                high = middle
        piece = self.pieces[low]
        view = piece.array
        view.offset += start - piece.start
        view.length = min(n, piece.start + piece.array.length - start)
        view.private_data = <void*> owner_ref(<Owner*> piece)
        view.release = view_release
        try:
            out = batch_import(&view, &self.layout, schema, account, NULL, NULL)
        finally:
            if view.release != NULL:
                view.release(&view)     # it raised before it took the slice
        if self.checks != NULL:
            for i in range(self.layout.n_children):
                check = self.checks[low * self.layout.n_children + i]
                if check != NULL and qc_load(&check.n_left) > 0:
                    out.columns[i].check = owner_ref(<Owner*> check)
        return out
