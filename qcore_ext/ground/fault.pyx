"""Named places in the code that a test can make fail on their n-th pass."""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_fetch_add, qc_load, qc_store
from qcore_ext.ground.stats cimport cpu_nanos

from qcore_ext.ground.status import ExecutionError

cdef extern from *:
    """
    static __thread int64_t qc_allocations;
    static __thread int64_t qc_looks_watched, qc_looked_nanos;
    """
    int64_t qc_allocations
    int64_t qc_looks_watched        # number of the watch in which this thread last called account_check
    int64_t qc_looked_nanos         # processor time of this thread at that call

SITES = (
    "reserve", "struct", "open", "bind", "add_input", "get_output", "finish", "split_open", "split_read", "wait",
    "stop",
    # Calls of connectors and writers to a file system.
    "file_list", "file_status", "file_open", "file_footer", "file_read",
    "write_folder", "write_open", "write_rows", "write_close", "write_rename",
)
# Numbers, by name, of the sites that are passed from Python.
NUMBERS = {name: number for number, name in enumerate(SITES) if number >= N_NATIVE_SITES}

cdef int64_t passes[N_FAULT_SITES]      # atomic
cdef int64_t failing_pass = 0           # of the armed site, counted from 1; 0: none fails
cdef int64_t armed_site = -1
cdef int64_t fired = 0                  # atomic
faults_watched = 0
cdef int64_t watch = 0                  # atomic; number of the Faults that was entered last
cdef int64_t longest_nanos = 0          # atomic; the longest processor time of a thread between two of its checks


class InjectedFault(ExecutionError):
    """The error of a site that has no error of its own."""


cdef void time_look() noexcept nogil:
    """A thread checks whether its query is stopped: record the processor time since its previous check."""
    global qc_looks_watched, qc_looked_nanos
    cdef int64_t now = cpu_nanos()
    if qc_looks_watched == qc_load(&watch) and now - qc_looked_nanos > qc_load(&longest_nanos):
        qc_store(&longest_nanos, now - qc_looked_nanos)
    qc_looks_watched = qc_load(&watch)
    qc_looked_nanos = now


cdef bint fault_pass(int site) noexcept nogil:
    cdef int64_t number = qc_fetch_add(&passes[site], 1) + 1
    if site == FAULT_STOP:
        time_look()
    if site == FAULT_RESERVE or site == FAULT_STRUCT:
        global qc_allocations
        qc_allocations += 1
    if qc_load(&armed_site) != site or number != qc_load(&failing_pass):
        return False
    qc_store(&fired, 1)
    return True


cdef int raise_injected(int site) except -1 nogil:
    with gil:
        raise InjectedFault(f"injected fault: {SITES[site]}, pass {failing_pass}")


def fault_site(str name):
    """Count a pass of a site in Python, just before a call to a file system. Raises OSError if a test makes it fail."""
    cdef int site
    if qc_load(&faults_watched) == 0:
        return
    site = NUMBERS[name]
    # The compiler warns because it cannot know that NUMBERS holds only numbers below N_FAULT_SITES.
    if site >= N_NATIVE_SITES and fault_pass(site):
        raise OSError(f"injected fault: {name}, pass {failing_pass}")


cdef void allocations_watch(int64_t by) noexcept nogil:
    qc_fetch_add(&faults_watched, by)


cdef int64_t allocations_of_thread() noexcept nogil:
    return qc_allocations


cdef class Faults:
    """Counts passes of all sites while it is entered, and makes one of them fail. Only one is entered at a time.

    Parameters
    ----------
    site : str, optional
        One of SITES. By default no site fails.
    nth : int
        The pass that fails; 1 is the first.
    """
    cdef int site
    cdef int64_t nth

    def __init__(self, site=None, int64_t nth=1):
        self.site = SITES.index(site) if site is not None else -1
        self.nth = nth

    def __enter__(self):
        global armed_site
        cdef int i
        if armed_site >= 0:
            raise RuntimeError("faults are armed already")
        for i in range(N_FAULT_SITES):
            qc_store(&passes[i], 0)
        # Atomic: a thread that is finishing its last pass may still read them.
        qc_store(&fired, 0)
        qc_store(&failing_pass, self.nth)
        qc_store(&armed_site, self.site)
        qc_store(&longest_nanos, 0)
        qc_fetch_add(&watch, 1)
        allocations_watch(1)
        return self

    def __exit__(self, *error):
        global armed_site
        allocations_watch(-1)
        qc_store(&armed_site, -1)

    @property
    def fired(self):
        """Whether the armed site reached its failing pass."""
        return qc_load(&fired) != 0

    @property
    def passes(self):
        """Number of passes of each site since this was entered."""
        return {name: qc_load(&passes[i]) for i, name in enumerate(SITES)}

    @property
    def longest_look_seconds(self):
        """The longest processor time of a thread between two of its checks whether its query is stopped, in seconds.

        The time before a thread's first check and after its last one is not included.
        """
        return qc_load(&longest_nanos) / 1e9
