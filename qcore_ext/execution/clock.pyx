"""The clock of a driver: wall time and CPU time of each call of an operator."""

from qcore_ext.ground.counter cimport counter_add
from qcore_ext.ground.stats cimport cpu_nanos, qc_ticks, qc_ticks_nanos, tick_scale, wall_nanos

cdef enum:
    # Reading a thread's CPU clock is a system call of at least 0.2 µs. A shorter call than this is charged as CPU time
    # in full; the next reading corrects the sum. It costs below 1 % this way.
    CPU_READ_NANOS = 20000


cdef void clock_start(DriverClock* clock) noexcept nogil:
    clock.tick_scale = tick_scale()
    clock.now = wall_nanos()
    clock.run_ticks = qc_ticks()
    clock.run_start = clock.now
    clock.cpu_now = cpu_nanos()
    clock.cpu_assumed = 0


cdef void clock_charge(DriverClock* clock, Timing* timing) noexcept nogil:
    cdef int64_t now, wall
    if clock.tick_scale != 0:
        now = clock.run_start + qc_ticks_nanos(qc_ticks() - clock.run_ticks, clock.tick_scale)
    else:
        now = wall_nanos()
    # Time never goes back: the counters of two processors may differ by a little when the thread moves.
    wall = now - clock.now if now > clock.now else 0
    clock.now += wall
    clock.charging = NULL
    counter_add(&timing.calls, 1)
    counter_add(&timing.wall_nanos, wall)
    if wall < CPU_READ_NANOS:
        clock.cpu_assumed += wall
        counter_add(&timing.cpu_nanos, wall)
    else:
        counter_add(&timing.cpu_nanos, cpu_since_reading(clock))


cdef int64_t cpu_since_reading(DriverClock* clock) noexcept nogil:
    """CPU time of the last call: the time since the last reading without what was charged for the calls before it."""
    cdef int64_t now = cpu_nanos()
    cdef int64_t cpu = now - clock.cpu_now - clock.cpu_assumed
    clock.cpu_now = now
    clock.cpu_assumed = 0
    return cpu if cpu > 0 else 0
