"""The choice of the processor on which a woken thread runs.

In a virtual machine Linux does not count a halted processor as idle (`vcpu_is_preempted`). It then starts a woken
thread on the processor of the thread that wakes it, and moves one of the two away only milliseconds later. So the
waking thread excludes its processor from those of the worker, until the worker runs. TPC-H Q6 on two threads took 20 ms
instead of 12 without it.

For the same reason a worker that waited for the GIL or for a lock may come back on the processor of another one. If the
second processor had been halted for 15 ms, the two took turns on the first one for 10 ms and more: each query after a
pause ran as on one thread. So each worker that runs has the seat of its processor. One that finds another worker there
goes to a processor whose seat is free. On systems other than Linux these functions do nothing.
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

    ctypedef struct Seat "QcSeat":
        pass

    void seat_init "qc_seat_init"(Seat* seat)       # by its thread
    # Called often: if another worker has the seat of this processor, go to one whose seat is free. Returns whether it
    # went.
    bint seat_keep "qc_seat_keep"(Seat* seat)
    # The thread will not work for a while.
    void seat_leave "qc_seat_leave"(Seat* seat)

    # One step of a short busy wait.
    void qc_pause()
