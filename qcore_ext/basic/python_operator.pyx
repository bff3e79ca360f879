"""An operator written in Python, in a chain of native operators.

The Python object follows the protocol of qcore.protocols.Operator. qcore.protocol_bridges adapts the other protocols to
it. The GIL is taken once for each call. Batches are passed by the C Data Interface. Batches that the operator returns
are not copied.
"""

from qcore_ext.data.batch cimport Batch, batch_ref, batch_unref, batch_with_schema
from qcore_ext.data.capsule cimport PyBatch
from qcore_ext.data.schema cimport CSchema, Schema, schema_equal
from qcore_ext.data.widening cimport schema_widen
from qcore_ext.ground.memory cimport Account, Owner, owner_unref
from qcore_ext.ground.stats cimport WAIT_FOR_USER
from qcore_ext.ground.wait_token cimport WaitToken
from qcore_ext.flow.drift cimport DRIFT_NONE, DRIFT_WIDENS, DRIFT_WITHIN, drift_to
from qcore_ext.flow.operator cimport ACCEPTED, BLOCKED, FINISHED, NEEDS_INPUT, OUTPUT, YIELDED, Operator
from qcore_ext.flow.future_wait cimport FutureWait

from qcore_ext.data.given_batches import GivenBatches, checked_mode
from qcore_ext.flow.drift import explain_difference
from qcore_ext.ground.error_text import class_name, show_value
from qcore_ext.ground.status import ExecutionError, SchemaChangeError

cdef enum:
    # The most calls in a row without progress. A few may occur, because another thread may make the operator ready
    # between two calls.
    IDLE_MAX = 100

ROLES = ("source", "operator", "sink")


def record_batch_class():
    """Return pyarrow.RecordBatch. pyarrow is loaded when the first operator of this kind is made."""
    import pyarrow

    return pyarrow.RecordBatch


def arrow_batch(batch):
    """Return a pyarrow.RecordBatch of an object with __arrow_c_array__."""
    import pyarrow

    return pyarrow.record_batch(batch)


def arrow_schema(schema):
    """Return a pyarrow.Schema of an object with __arrow_c_schema__."""
    import pyarrow

    return pyarrow.schema(schema)


cdef class PythonOperator(Operator):
    """Runs a Python object as one operator of one driver.

    Parameters
    ----------
    name : str
        Class of the object, or name of what makes it; for messages until the object exists.
    node_id : str
    query_memory : Account
    make : callable
        Returns the object, with the methods of qcore.Operator. Called when the driver starts.
    role : str
        'source', 'operator' or 'sink'.
    schema : Schema
        Of the output, until `bind` returns another one.
    drift : Drift
        DRIFT_WIDENS: the schemas of its batches may differ from the declared one and widen into one schema.
        DRIFT_NONE: another schema of a source raises SchemaChangeError. Operators may always return batches of schemas
        that they declared for earlier inputs.
    """
    cdef object make
    cdef object user                # the object, or None before open and after close
    cdef object batch_class
    cdef str role
    cdef Schema declared
    cdef list earlier               # Schemas declared before the last one; batches made under them may still come
    cdef FutureWait waiting
    cdef object waited_for          # the future that was waited for last
    cdef bint is_waiting
    cdef bint wants_input
    cdef int n_idle
    cdef object given               # GivenBatches of a source in checked mode, or None

    def __init__(
        self, str name, str node_id, Account query_memory, make, str role, Schema schema, int drift=DRIFT_NONE,
    ):
        Operator.__init__(self, name, node_id, query_memory)
        if role not in ROLES:
            raise ValueError(f"an operator is a {', '.join(ROLES)}, not {role!r}")
        self.make = make
        self.role = role
        self.waits_inside = True
        self.declared = schema
        # An operator that is not a source may return batches of a schema that it declared earlier.
        self.drift = drift if role == "source" else max(drift, <int> DRIFT_WITHIN)
        self.earlier = []
        self.batch_class = record_batch_class()
        self.waiting = FutureWait()
        if role == "source" and checked_mode():
            self.given = GivenBatches()

    cdef int open(self) except -1 nogil:
        with gil:
            self.user = self.make()
            self.name = getattr(self.user, "operator_name", None) or class_name(type(self.user))
            self.set_output_schema(self.declared.schema)
        return 0

    cdef int bind(self, CSchema* schema) except -1 nogil:
        with gil:
            self.bind_user(schema)
        return 0

    cdef int bind_user(self, CSchema* schema) except -1:
        cdef Schema output
        given = arrow_schema(Schema.wrap(schema))
        self.user.bind(given)
        self.set_input_schema(schema)
        if self.role != "sink":
            promised = self.user.output_schema(given)
            if not hasattr(promised, "__arrow_c_schema__"):
                raise ExecutionError(f"output_schema() returned a {class_name(type(promised))}, not a pyarrow.Schema")
            output = Schema(promised)
            if not schema_equal(output.schema, self.output_schema):
                self.earlier.append(Schema.wrap(self.output_schema))
            self.set_output_schema(output.schema)
        return 0

    cdef bint needs_input(self) noexcept nogil:
        return self.wants_input

    cdef int add_input(self, Batch* batch) except -1 nogil:
        with gil:
            self.give(batch)
        batch_unref(batch)
        return ACCEPTED

    cdef int give(self, Batch* batch) except -1:
        self.wants_input = False
        self.n_idle = 0
        answer = self.user.add_input(arrow_batch(PyBatch.wrap_for(batch, self.memory.account)))
        if answer is not None:
            raise ExecutionError(f"add_input() returned a {class_name(type(answer))}; it must return None")
        return 0

    cdef int get_output(self, Batch** out, WaitToken* token) except -1 nogil:
        with gil:
            return self.ask(out, token)

    cdef int ask(self, Batch** out, WaitToken* token) except -1:
        cdef bint finishing
        if self.wait(token):
            return self.answer_blocked()
        # Before get_output: a batch given after get_output found the operator finishing without output would be lost.
        finishing = self.yes_or_no("is_finishing")
        given = self.user.get_output()
        if self.given is not None:
            self.given.check_last()
        if given is not None:
            out[0] = self.import_batch(given)
            self.n_idle = 0
            if self.given is not None:
                self.watch(given, out)
            return OUTPUT
        if self.wait(token):
            return self.answer_blocked()
        if finishing:
            if self.user.get_output() is not None:
                raise ExecutionError(
                    "returned a batch after get_output() returned None while is_finishing() was true; return None only "
                    "when no batch is left"
                )
            if self.given is not None:
                self.given.check_all()
            return FINISHED
        if self.role != "source" and self.yes_or_no("needs_input"):
            self.wants_input = True
            return NEEDS_INPUT
        self.n_idle += 1
        if self.n_idle > IDLE_MAX:
            raise ExecutionError(
                "stuck: it returns no output, and is neither blocked nor finishing"
                + ("" if self.role == "source" else " nor needs input")
                + "; an operator that must wait returns a Blocked from is_blocked()"
            )
        return YIELDED

    cdef int answer_blocked(self) except -1:
        if self.given is not None:
            self.given.check_all()      # the operator may wait for the memory of these batches to come back
        return BLOCKED

    cdef int watch(self, object given, Batch** out) except -1:
        """Record the checksums of a batch before it is passed on."""
        cdef bint done = False
        try:
            self.given.add(given)
            done = True
        finally:
            if not done:
                batch_unref(out[0])
                out[0] = NULL
        return 0

    cdef bint yes_or_no(self, str method) except -1:
        answer = getattr(self.user, method)()
        if answer is True or answer is False:
            return answer is True
        # The truth values of NumPy are accepted.
        if class_name(type(answer)) not in ("bool", "bool_"):
            raise ExecutionError(f"{method}() returned {show_value(answer)} instead of True or False")
        return bool(answer)

    cdef bint wait(self, WaitToken* token) except -1:
        """Whether the operator has to wait. If so, the token is registered."""
        if not self.is_waiting:
            blocked = self.user.is_blocked()
            if blocked is None:
                return False
            self.waiting.begin(blocked)
            if blocked.reason is None:
                self.waiting.reason = WAIT_FOR_USER
            if self.waited_for is not blocked.future:
                self.waited_for = blocked.future
                self.n_idle = 0
        self.is_waiting = not self.waiting.poll(token)
        if self.is_waiting:
            self.blocked_reason = self.waiting.reason
        return self.is_waiting

    cdef Batch* import_batch(self, object given) except NULL:
        """Import what get_output returned."""
        cdef PyBatch batch
        if not isinstance(given, self.batch_class):
            raise ExecutionError(f"get_output() returned a {class_name(type(given))}, not a RecordBatch or None")
        if self.role == "sink":
            raise ExecutionError("returned a batch, but it is the sink; a sink returns None from get_output()")
        self.check_sizes(given)
        batch = PyBatch.from_arrow(given, self.memory)
        if schema_equal(batch.batch.schema, self.output_schema):
            # One schema object for all batches, so that operators downstream compare addresses only.
            return batch_with_schema(batch.batch, self.output_schema)
        if self.role == "source" or self.drift == DRIFT_WIDENS:
            if self.drift == DRIFT_NONE:
                wrong = explain_difference(Schema.wrap(self.output_schema), Schema.wrap(batch.batch.schema))
                raise SchemaChangeError(
                    f"returned a batch that does not fit: {wrong}; "
                    "a source whose schema changes needs on_schema_change='evolve'"
                )
            drift_to(self, batch.batch.schema)
        elif not self.was_promised(batch.batch.schema):
            declared = arrow_schema(Schema.wrap(self.output_schema))
            raise ExecutionError(
                "returned a batch of another schema than output_schema() declares\n"
                f"declared:\n{declared}\ngiven:\n{given.schema}"
            )
        return batch_ref(batch.batch)

    cdef int check_sizes(self, object given) except -1:
        """Check the sizes of buffers, which only pyarrow knows. Everything else is checked at import."""
        try:
            given.validate()
        except ValueError as error:         # pyarrow.ArrowInvalid
            raise ExecutionError(f"get_output() returned a malformed batch: {error}") from error
        return 0

    cdef bint was_promised(self, CSchema* schema) except -1:
        """Whether the schema was declared for an earlier input and widens into the one declared now."""
        cdef CSchema* wide
        cdef Schema promised
        for promised in self.earlier:
            if schema_equal(promised.schema, schema):
                wide = schema_widen(self.output_schema, schema)
                owner_unref(<Owner*> wide)
                return wide == self.output_schema
        return False

    cdef int finish(self) except -1 nogil:
        with gil:
            self.n_idle = 0
            # Set here and not in qcore.Operator.finish, because a subclass may override that without calling it.
            self.user.finish_called = True
            self.user.finish()
        return 0

    cdef void abandon(self) noexcept nogil:
        with gil:
            self.release("abandon")

    cdef void close(self) noexcept nogil:
        with gil:
            self.release("close")
            self.user = None
            self.make = None
            self.waited_for = None

    cdef void release(self, str method) noexcept:
        self.waiting.forget()
        self.is_waiting = False
        if self.user is None:
            return
        try:
            getattr(self.user, method)()
            if self.given is not None:
                self.given.check_all()
        except BaseException as error:
            self.note_end(error, method)
