/* Loops over integers, compiled once for each instruction set. QE(name) names this one's functions. */

#define QE_RANGE(name, T)                                                                                            \
    static void QE(range_##name)(const void *values, int64_t n, int64_t *least, int64_t *most) {                     \
        const T *v = values;                                                                                         \
        T low = v[0], high = v[0];                                                                                   \
        for (int64_t i = 1; i < n; i++) {                                                                            \
            low = v[i] < low ? v[i] : low;                                                                           \
            high = v[i] > high ? v[i] : high;                                                                        \
        }                                                                                                            \
        *least = (int64_t)low;                                                                                       \
        *most = (int64_t)high;                                                                                       \
    }

/* The differences to `base`, which fit the narrow type; and back. */
#define QE_PAIR(wide, W, narrow, N)                                                                                  \
    static void QE(pack_##wide##_##narrow)(const void *values, int64_t n, int64_t base, void *out) {                 \
        const W *v = values;                                                                                         \
        N *o = out;                                                                                                  \
        W b = (W)base;                                                                                               \
        for (int64_t i = 0; i < n; i++) o[i] = (N)(W)(v[i] - b);                                                     \
    }                                                                                                                \
    static void QE(unpack_##wide##_##narrow)(const void *values, int64_t n, int64_t base, void *out) {               \
        const N *v = values;                                                                                         \
        W *o = out;                                                                                                  \
        W b = (W)base;                                                                                               \
        for (int64_t i = 0; i < n; i++) o[i] = (W)(v[i] + b);                                                        \
    }

QE_RANGE(i8, int8_t)
QE_RANGE(i16, int16_t)
QE_RANGE(i32, int32_t)
QE_RANGE(i64, int64_t)
QE_RANGE(u8, uint8_t)
QE_RANGE(u16, uint16_t)
QE_RANGE(u32, uint32_t)
QE_RANGE(u64, uint64_t)
QE_PAIR(8, uint8_t, 8, uint8_t)
QE_PAIR(16, uint16_t, 8, uint8_t)
QE_PAIR(16, uint16_t, 16, uint16_t)
QE_PAIR(32, uint32_t, 8, uint8_t)
QE_PAIR(32, uint32_t, 16, uint16_t)
QE_PAIR(32, uint32_t, 32, uint32_t)
QE_PAIR(64, uint64_t, 8, uint8_t)
QE_PAIR(64, uint64_t, 16, uint16_t)
QE_PAIR(64, uint64_t, 32, uint32_t)
QE_PAIR(64, uint64_t, 64, uint64_t)

#undef QE_RANGE
#undef QE_PAIR
