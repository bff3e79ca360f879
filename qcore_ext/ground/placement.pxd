"""The choice of the processor on which a woken thread runs.

In a virtual machine Linux does not count a halted processor as idle (`vcpu_is_preempted`). It then starts a woken
thread on the processor of the thread that wakes it, and moves one of the two away only milliseconds later. So the
waking thread excludes its processor from those of the worker, until the worker runs. TPC-H Q6 on two threads took 20 ms
instead of 12 without it. On systems other than Linux these functions do nothing.
"""


cdef extern from "native/placement.h" nogil:
    ctypedef struct ThreadPlace "QcPlace":
        pass

    # Remember the calling thread, which is about to sleep, and the processors that it may use.
    void place_note "qc_place_note"(ThreadPlace* place)
    # The waking thread calls this: the woken thread then runs on another processor than the caller.
    void place_apart "qc_place_apart"(const ThreadPlace* place)
    # The woken thread calls this when it runs again: it may then use all its processors.
    void place_anywhere "qc_place_anywhere"(const ThreadPlace* place)

    # One step of a short busy wait.
    void qc_pause()
