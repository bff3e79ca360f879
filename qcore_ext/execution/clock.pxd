"""The clock of a driver: it charges the time of each call to the operator that was called.

A driver reads the clock after each call and charges the time since the previous reading, so one reading a call is
enough.
"""

from libc.stdint cimport int64_t

from qcore_ext.ground.stats cimport Timing


ctypedef struct DriverClock:
    Timing* charging        # timing of the call under way; NULL between calls
    int64_t now             # wall time of the last reading
    int64_t tick_scale      # of ground.stats; 0: this run reads the monotonic clock
    int64_t run_ticks       # the run's first reading of the tick counter, and the wall time then
    int64_t run_start
    int64_t cpu_now         # CPU time of the thread when it was last read
    int64_t cpu_assumed     # CPU time charged since then without a reading


# Begin a run, on the thread that calls: neither clock is compared with a reading of another thread.
cdef void clock_start(DriverClock* clock) noexcept nogil
# Charge the time since the last reading to `timing`, as one call. No call is under way then.
cdef void clock_charge(DriverClock* clock, Timing* timing) noexcept nogil
