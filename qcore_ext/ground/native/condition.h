/* A condition variable whose timeouts follow the monotonic clock. */
#ifndef QCORE_CONDITION_H
#define QCORE_CONDITION_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include "lock.h"

typedef struct { pthread_cond_t condition; } QcCondition;

static inline void qc_condition_init(QcCondition *c) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
static inline void qc_condition_destroy(QcCondition *c) { pthread_cond_destroy(&c->condition); }
/* `m` is locked. Returns 0 when the time is over. May also return 1 without a wake-up. */
static inline int qc_condition_wait(QcCondition *c, QcMutex *m, int64_t nanos) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    nanos += until.tv_nsec;
    until.tv_sec += nanos / 1000000000;
    until.tv_nsec = nanos % 1000000000;
    return pthread_cond_timedwait(&c->condition, &m->mutex, &until) == 0;
}
static inline void qc_condition_wake_one(QcCondition *c) { pthread_cond_signal(&c->condition); }
static inline void qc_condition_wake_all(QcCondition *c) { pthread_cond_broadcast(&c->condition); }
#endif
