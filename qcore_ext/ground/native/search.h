/* Find bytes in bytes. memmem builds a table at every call, which costs more than the search in short strings. Floor E0. */
#ifndef QCORE_SEARCH_H
#define QCORE_SEARCH_H
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Position of the first occurrence of needle (m >= 1 bytes) in text (n bytes), or -1. */
static inline int64_t qc_find(const char *text, int64_t n, const char *needle, int64_t m) {
    int64_t last = n - m, i = 0;
    if (last < 0) return -1;
    if (m == 1) {
        const char *at = (const char *) memchr(text, needle[0], (size_t) n);
        return at ? at - text : -1;
    }
#if defined(__SSE2__)
    /* First and last byte of the needle against 16 positions at once; the rest only where both fit. */
    if (last >= 15) {
        const __m128i first = _mm_set1_epi8(needle[0]), final = _mm_set1_epi8(needle[m - 1]);
        for (;;) {
            __m128i a = _mm_loadu_si128((const __m128i *) (text + i));
            __m128i b = _mm_loadu_si128((const __m128i *) (text + i + m - 1));
            unsigned hits = (unsigned) _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, final)));
            while (hits) {
                int k = __builtin_ctz(hits);
                if (memcmp(text + i + k + 1, needle + 1, (size_t) (m - 1)) == 0) return i + k;
                hits &= hits - 1;
            }
            if (i == last - 15) return -1;
            i = i + 16 <= last - 15 ? i + 16 : last - 15;      /* the last block overlaps the one before */
        }
    }
#endif
    for (; i <= last; i++)
        if (text[i] == needle[0] && memcmp(text + i + 1, needle + 1, (size_t) (m - 1)) == 0) return i;
    return -1;
}
#endif
