/* A mutex with a site, so that a test can show which code takes one. */
#ifndef QCORE_LOCK_H
#define QCORE_LOCK_H
#include <pthread.h>
#include <stdint.h>

typedef struct { pthread_mutex_t mutex; int64_t site; } QcMutex;

static inline void qc_mutex_init(QcMutex *m, int64_t site) { pthread_mutex_init(&m->mutex, 0); m->site = site; }
static inline void qc_mutex_destroy(QcMutex *m) { pthread_mutex_destroy(&m->mutex); }
static inline void qc_mutex_lock(QcMutex *m) { pthread_mutex_lock(&m->mutex); }
static inline void qc_mutex_unlock(QcMutex *m) { pthread_mutex_unlock(&m->mutex); }
#endif
