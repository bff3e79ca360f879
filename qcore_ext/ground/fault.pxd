"""Places where a test can make the engine fail: named sites, counted passes. SPEC D9.

A site costs one load and one branch that is always predicted, while nothing is armed.
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
    FAULT_STOP = 10             # a loop looks whether its query is stopped, and finds that it is (account_stopped)
    N_NATIVE_SITES = 11         # the sites after these are passed from Python, by name (fault_site)

cdef enum:
    N_FAULT_SITES = 21


cdef int64_t faults_watched     # atomic; other than 0: sites call fault_pass

# A pass of `site`. True: fail now, with an error of your own kind that names injected_fault.
cdef bint fault_pass(int site) noexcept nogil
cdef int raise_injected(int site) except -1 nogil       # for sites whose error is nothing but this

cdef inline bint fault_here(int site) noexcept nogil:
    """Whether a test wants this site to fail now."""
    return qc_load(&faults_watched) != 0 and fault_pass(site)


# Count, by thread, what it allocates; checked mode looks at it around close. Nested calls add up.
cdef void allocations_watch(int64_t by) noexcept nogil
cdef int64_t allocations_of_thread() noexcept nogil
