"""Named places in the code that a test can make fail on their n-th pass.

While no test watches, a site costs one load and one branch that is always predicted.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.atomic cimport qc_load


cdef enum FaultSite:
    FAULT_RESERVE = 0           # memory reserved at an account
    FAULT_STRUCT = 1            # a plain struct allocated
    FAULT_OPEN = 2              # calls of the operator contract, in checked mode
    FAULT_BIND = 3
    FAULT_ADD_INPUT = 4
    FAULT_GET_OUTPUT = 5
    FAULT_FINISH = 6
    FAULT_SPLIT_OPEN = 7        # a connector opens a split
    FAULT_SPLIT_READ = 8        # and reads its next batch
    FAULT_WAIT = 9              # a token is added to a wait list, or to a wait set for the first time
    FAULT_STOP = 10             # a call of account_stopped; if it fails, the query counts as stopped
    N_NATIVE_SITES = 11         # sites from this number on are passed from Python, by name (fault_site)

cdef enum:
    N_FAULT_SITES = 21


cdef int64_t faults_watched     # atomic; while it is not 0, sites call fault_pass

# Count a pass of `site`. True: the caller must fail now, with an error of its own kind that says "injected fault".
cdef bint fault_pass(int site) noexcept nogil
cdef int raise_injected(int site) except -1 nogil       # for sites that have no error of their own

cdef inline bint fault_here(int site) noexcept nogil:
    """Whether a test makes this site fail now."""
    return qc_load(&faults_watched) != 0 and fault_pass(site)


# While `by` adds up to more than 0, count the allocations of each thread. Checked mode compares them around close.
cdef void allocations_watch(int64_t by) noexcept nogil
cdef int64_t allocations_of_thread() noexcept nogil
