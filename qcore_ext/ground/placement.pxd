"""On which processor a thread that is woken runs.

In a virtual machine Linux does not count a halted processor as idle (`vcpu_is_preempted`). It then puts a thread that
is woken on the processor of the thread that wakes it, and moves one of the two away only milliseconds later. A thread
that wakes a worker therefore forbids it its own processor until the worker runs. TPC-H Q6 on two threads took 20 ms
instead of 12 without it. On other systems these functions do nothing.
"""


cdef extern from "native/placement.h" nogil:
    ctypedef struct ThreadPlace "QcPlace":
        pass

    # Remember the calling thread, which is about to sleep, and the processors that it may use.
    void place_note "qc_place_note"(ThreadPlace* place)
    # Called by the thread that wakes it: it shall run on another processor than the caller.
    void place_apart "qc_place_apart"(const ThreadPlace* place)
    # Called by the thread itself when it runs again: it may use all its processors again.
    void place_anywhere "qc_place_anywhere"(const ThreadPlace* place)

    # One step of a short busy wait.
    void qc_pause()
