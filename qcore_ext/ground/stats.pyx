"""Counters of an operator: rows, bytes, batches and times."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from qcore_ext.ground.atomic cimport qc_load, qc_store

cdef extern from "<time.h>" nogil:
    enum:
        CLOCK_THREAD_CPUTIME_ID

cdef extern from "native/ticks.h" nogil:
    bint qc_ticks_steady()

cdef enum:
    # The two clocks are read within 0.1 µs, so after a fifth of a second the rate is right to one millionth.
    CALIBRATION_NANOS = 200000000

REASON_NAMES = (
    "not_blocked", "split", "join_build", "producer", "consumer", "memory", "peers", "yield", "user",
)


cdef int64_t wall_nanos() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef int64_t cpu_nanos() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef int64_t scale = 0                      # atomic
cdef int64_t first_ticks = qc_ticks()
cdef int64_t first_nanos = wall_nanos()
cdef bint steady = qc_ticks_steady()


cdef int64_t tick_scale() noexcept nogil:
    cdef int64_t found = qc_load(&scale)
    cdef int64_t nanos, ticks
    if found != 0 or not steady:
        return found
    ticks = qc_ticks() - first_ticks
    nanos = wall_nanos() - first_nanos
    if nanos < CALIBRATION_NANOS or ticks <= 0:
        return 0
    # Threads that compute this at the same time get the same result within the error.
    found = <int64_t> (<double> nanos * 4294967296.0 / <double> ticks)
    qc_store(&scale, found)
    return found


def tick_nanos():
    """Nanoseconds of one tick of the counter that times operators; 0.0 while the monotonic clock is used instead."""
    return <double> tick_scale() / 4294967296.0


cdef dict timing_to_dict(const Timing* timing):
    return {
        "calls": qc_load(&timing.calls),
        "wall_nanos": qc_load(&timing.wall_nanos),
        "cpu_nanos": qc_load(&timing.cpu_nanos),
    }


cdef dict stats_to_dict(const OperatorStats* stats):
    cdef int reason
    blocked_nanos = {}
    blocked_times = {}
    for reason in range(1, N_BLOCK_REASONS):
        if qc_load(&stats.blocked_times[reason]):
            blocked_nanos[REASON_NAMES[reason]] = qc_load(&stats.blocked_wall_nanos[reason])
            blocked_times[REASON_NAMES[reason]] = qc_load(&stats.blocked_times[reason])
    return {
        "add_input": timing_to_dict(&stats.add_input),
        "get_output": timing_to_dict(&stats.get_output),
        "finish": timing_to_dict(&stats.finish),
        "is_blocked": timing_to_dict(&stats.is_blocked),
        "blocked_wall_nanos": blocked_nanos,
        "blocked_times": blocked_times,
        "input_rows": qc_load(&stats.input_rows),
        "input_bytes": qc_load(&stats.input_bytes),
        "input_batches": qc_load(&stats.input_batches),
        "output_rows": qc_load(&stats.output_rows),
        "output_bytes": qc_load(&stats.output_bytes),
        "output_batches": qc_load(&stats.output_batches),
        "splits": qc_load(&stats.splits),
        "arrow_calls": qc_load(&stats.arrow_calls),
        "arrow_rows": qc_load(&stats.arrow_rows),
        "arrow_wall_nanos": qc_load(&stats.arrow_wall_nanos),
    }
