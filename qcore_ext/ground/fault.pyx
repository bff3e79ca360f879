"""Places where a test can make the engine fail: named sites, counted passes. SPEC D9."""

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
    int64_t qc_looks_watched        # the watch during which this thread last looked
    int64_t qc_looked_nanos         # and its processor time then

SITES = (
    "reserve", "struct", "open", "bind", "add_input", "get_output", "finish", "split_open", "split_read", "wait",
    "stop",
    # Calls of connectors and writers to a file system.
    "file_list", "file_status", "file_open", "file_footer", "file_read",
    "write_folder", "write_open", "write_rows", "write_close", "write_rename",
)
# By name, those passed from Python.
NUMBERS = {name: number for number, name in enumerate(SITES) if number >= N_NATIVE_SITES}

cdef int64_t passes[N_FAULT_SITES]      # atomic
cdef int64_t failing_pass = 0           # of the armed site, counted from 1; 0: none fails
cdef int64_t armed_site = -1
cdef int64_t fired = 0                  # atomic
faults_watched = 0
cdef int64_t watch = 0                  # atomic; the number of the Faults entered last
cdef int64_t longest_nanos = 0          # atomic; processor time of a thread between two of its looks


class InjectedFault(ExecutionError):
    """What a site raises that a test armed."""


cdef void time_look() noexcept nogil:
    """A thread looks whether its query is stopped: so long it has worked since it last did."""
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
    """Pass a site in Python, just before a call to a file system. OSError when a test wants the call to fail."""
    cdef int site
    if qc_load(&faults_watched) == 0:
        return
    site = NUMBERS[name]
    # The compiler, which warns of what it cannot exclude, does not know that NUMBERS holds no others.
    if site >= N_NATIVE_SITES and fault_pass(site):
        raise OSError(f"injected fault: {name}, pass {failing_pass}")


cdef void allocations_watch(int64_t by) noexcept nogil:
    qc_fetch_add(&faults_watched, by)


cdef int64_t allocations_of_thread() noexcept nogil:
    return qc_allocations


cdef class Faults:
    """Counts passes of all sites while it is entered, and makes one of them fail. One at a time in a process.

    Parameters
    ----------
    site : str, optional
        One of SITES; left out: none fails.
    nth : int
        The pass that fails, from 1.
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
        # Atomic: a thread that finishes its last pass may still look.
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
        """Whether the armed pass came."""
        return qc_load(&fired) != 0

    @property
    def passes(self):
        """Passes of each site since it was entered."""
        return {name: qc_load(&passes[i]) for i, name in enumerate(SITES)}

    @property
    def longest_look_seconds(self):
        """The longest processor time of a thread between two of its looks at whether its query is stopped.

        What a thread does before its first look or after its last is not in it.
        """
        return qc_load(&longest_nanos) / 1e9
