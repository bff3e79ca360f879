/* Blocks of whole pages, whose length the system can change without a copy: it moves their pages to other addresses.
   Where it cannot, and under the address and thread sanitizers, which must see every block, malloc has the blocks. */
#ifndef QCORE_PAGE_BLOCKS_H
#define QCORE_PAGE_BLOCKS_H
#include <stdlib.h>
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <sys/mman.h>

/* `size` is a multiple of a page. NULL if the system gives no memory. */
static inline void *qc_pages_new(size_t size) {
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static inline void qc_pages_free(void *block, size_t size) {
    munmap(block, size);
}

/* The block with the bytes that it had and more behind them, at the same or another address. NULL, and the block stays
   as it is, if the system cannot do so; for example if it has advice about some of the pages only. */
static inline void *qc_pages_lengthen(void *block, size_t size, size_t longer) {
    void *moved = mremap(block, size, longer, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}
#else
static inline void *qc_pages_new(size_t size) {
    void *block = NULL;
    return posix_memalign(&block, 4096, size) == 0 ? block : NULL;
}

static inline void qc_pages_free(void *block, size_t size) {
    (void) size;
    free(block);
}

static inline void *qc_pages_lengthen(void *block, size_t size, size_t longer) {
    (void) block;
    (void) size;
    (void) longer;
    return NULL;
}
#endif
#endif
