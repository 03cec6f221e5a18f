/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures a large index of the cache service: bench-cache-index BLOCKS [DIRECTORY]
 *
 * Puts BLOCKS blocks of one byte, in chains of 512, into a store. The segments of the store are not
 * written, so only the index is measured: its bytes on disk, the memory of the process, and the
 * time to look up a chain. The program puts half of the chains whole. It puts the other half one
 * block at a time, mixed with other chains, which is the worst order that engines can cause.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cache/record.h"
#include "core/clock.h"
#include "core/rng.h"

enum { CHAIN = 512, BATCH = 16, LOOKUPS = 400 };

static ssize_t no_pwrite(void *data, int fd, const void *bytes, size_t n, uint64_t offset)
{
    (void)data;
    (void)bytes;
    /* Only the first page is written: it identifies the file as a segment. */
    return offset == 0 ? pwrite(fd, bytes, n, 0) : (ssize_t)n;
}

static int no_sync(void *data, int fd)
{
    (void)data;
    (void)fd;
    return 0;
}

static void name_of(uint64_t chain, uint32_t index, uint8_t *ret_name)
{
    struct rng rng;

    rng_seed(&rng, chain << 16 | index);
    for (int i = 0; i < STORE_NAME_BYTES; i += 4) {
        const uint32_t v = rng_u32(&rng);

        memcpy(ret_name + i, &v, 4);
    }
}

static struct store_block block_of(uint64_t chain, uint32_t index, uint64_t sum)
{
    struct store_block b = {.index = index, .size = 1, .sum = sum};

    name_of(chain, index, b.name);
    if (index > 0)
        name_of(chain, index - 1, b.parent);
    return b;
}

/* Puts chains first..first+BATCH-1: one whole chain after another, or one block of each in turn. */
static int put_batch(struct store *s, int fd, uint64_t first, bool mixed)
{
    static struct store_block blocks[BATCH * CHAIN];
    const struct store_origin origin = {"model", "f16/f16 cpu", "", NULL};
    const uint64_t sum = record_sum("", 1);

    for (uint32_t i = 0; i < BATCH * CHAIN; i++)
        blocks[i] = mixed ? block_of(first + i % BATCH, i / BATCH, sum)
                          : block_of(first + i / CHAIN, i % CHAIN, sum);
    return store_put(s, &origin, fd, blocks, BATCH * CHAIN);
}

static int fill(struct store *s, uint64_t n_chains)
{
    const uint64_t start = clock_usec();
    const int fd = memfd_create("block", MFD_CLOEXEC);
    int r = ftruncate(fd, 1);

    for (uint64_t chain = 0; chain < n_chains && r >= 0; chain += BATCH) {
        r = put_batch(s, fd, chain, chain / BATCH % 2);
        if (chain % (BATCH * 64) == 0)
            fprintf(stderr, "\r%.0f %%", 100.0 * (double)chain / (double)n_chains);
    }
    close(fd);
    fprintf(stderr, "\r      \r");
    printf("put            %8.1f us/block\n",
           (double)(clock_usec() - start) / (double)(n_chains * CHAIN));
    return r;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Times lookups of chains that were put whole (@mixed is 0) or mixed with others (@mixed is 1). */
static int look_up(struct store *s, uint64_t n_chains, uint64_t mixed, const char *what)
{
    static uint8_t names[CHAIN][STORE_NAME_BYTES];
    static struct store_place places[CHAIN];
    const struct store_origin origin = {"model", "f16/f16 cpu", "", NULL};
    uint64_t usec[LOOKUPS], sum = 0;
    struct rng rng;

    rng_seed(&rng, mixed);
    for (int i = 0; i < LOOKUPS; i++) {
        const uint64_t batch = rng_u32(&rng) % (n_chains / BATCH / 2) * 2 + mixed;
        const uint64_t chain = batch * BATCH + rng_u32(&rng) % BATCH;
        int found;

        for (uint32_t j = 0; j < CHAIN; j++)
            name_of(chain, j, names[j]);
        usec[i] = clock_usec();
        found = store_find(s, &origin, names, CHAIN, false, places);
        usec[i] = clock_usec() - usec[i];
        sum += usec[i];
        if (found != CHAIN)
            return -ENODATA;
        while (store_tend(s) > 0)
            ;
    }
    qsort(usec, LOOKUPS, sizeof(*usec), compare);
    printf("%s %8.3f ms median %8.3f ms mean %8.3f ms p99\n", what, (double)usec[LOOKUPS / 2] / 1e3,
           (double)sum / LOOKUPS / 1e3, (double)usec[LOOKUPS * 99 / 100] / 1e3);
    return 0;
}

/* Returns a field of /proc/self/status in bytes: the resident memory, now or at its peak. */
static double memory(const char *field)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "re");

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtod(line + strlen(field) + 1, NULL);
    if (f)
        fclose(f);
    return kib * 1024;
}

static int measure(const struct store_params *p, uint64_t n_chains)
{
    _cleanup_(store_closep) struct store *s = NULL;
    struct store_stats st;
    struct inf_err err;
    uint64_t start = clock_usec();
    int r = store_open(p, &s, &err);

    if (r < 0) {
        fprintf(stderr, "%s\n", err.text);
        return r;
    }
    printf("open           %8.1f ms\n", (double)(clock_usec() - start) / 1e3);
    store_stats(s, &st);
    if (st.blocks < n_chains * CHAIN) {
        r = fill(s, n_chains);
        if (r >= 0)
            r = store_flush(s);
    }
    store_stats(s, &st);
    printf("blocks         %8.0f\nindex          %8.1f MB\n", (double)st.blocks,
           (double)st.index_bytes / 1e6);
    if (r >= 0)
        r = look_up(s, n_chains, 0, "chain, whole  ");
    if (r >= 0)
        r = look_up(s, n_chains, 1, "chain, mixed  ");
    printf("memory         %8.1f MB, at most %.1f MB\n", memory("VmRSS") / 1e6,
           memory("VmHWM") / 1e6);
    return r;
}

int main(int argc, char **argv)
{
    struct store_io io = store_io_system;
    struct store_params p = {.path = argc > 2 ? argv[2] : "cache-index", .io = &io};
    const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    const uint64_t n_chains = ALIGN_UP(DIV_UP(n, CHAIN), 2 * BATCH);
    int r;

    io.pwrite = no_pwrite;
    io.sync = no_sync;
    r = measure(&p, n_chains);
    /* Measures again after the store was opened anew, as after a start. */
    if (r >= 0)
        r = measure(&p, n_chains);
    if (r < 0)
        fprintf(stderr, "%s\n", strerror(-r));
    return r < 0;
}
