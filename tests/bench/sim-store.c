/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes requests to the store of the service as an engine without its own cache does. A request
 * looks up the names and puts the missing blocks, some at a time. The blocks contain zeros.
 * Unwritten parts of a file are zeros, too, so only the headers of the blocks are written and take
 * memory.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <infer/tier.h>

#include "cache/rank-rules.h"
#include "cache/record.h"
#include "cache/store-inner.h"
#include "core/rng.h"

enum {
    NAMES_MAX = INF_TIER_MAX_NAMES,
    BLOCK = 63 * STORE_PAGE, /* 256 KiB with its header */
};

struct service {
    const struct trace *t;
    struct store *store;
    char dir[64];
    int zeros; /* a descriptor of the bytes of every block */
    uint64_t sum;
    uint32_t at_once;
};

static ssize_t write_pages_alone(void *data, int fd, const void *bytes, size_t n, uint64_t offset)
{
    struct stat st;

    if (n <= STORE_PAGE)
        return store_io_system.pwrite(data, fd, bytes, n, offset);
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size < offset + n && ftruncate(fd, (off_t)(offset + n)) < 0)
        return -errno;
    return (ssize_t)n;
}

static int no_sync(void *data, int fd)
{
    (void)data;
    (void)fd;
    return 0;
}

static void name_of(uint32_t block, uint8_t ret_name[STORE_NAME_BYTES])
{
    struct rng rng;

    rng_seed(&rng, block);
    for (int i = 0; i < STORE_NAME_BYTES; i += 4) {
        const uint32_t v = rng_u32(&rng);

        memcpy(ret_name + i, &v, 4);
    }
}

static const struct store_origin nobody = {"model", "f16/f16 cpu", "", NULL};

/* Returns the number of blocks at the start of @chain that are stored, or a negative errno. */
static int find(struct service *s, const uint32_t *chain, uint32_t n)
{
    static uint8_t names[NAMES_MAX][STORE_NAME_BYTES];
    static struct store_place places[NAMES_MAX];
    uint32_t found = 0;

    while (found < n) {
        const uint32_t some = MIN(n - found, NAMES_MAX);
        int r;

        for (uint32_t i = 0; i < some; i++)
            name_of(chain[found + i], names[i]);
        r = store_find(s->store, &nobody, (const uint8_t(*)[STORE_NAME_BYTES])names, some, false,
                       places);
        if (r < 0)
            return r;
        found += (uint32_t)r;
        if ((uint32_t)r < some)
            break;
    }
    return (int)found;
}

static int put(struct service *s, const uint32_t *chain, uint32_t first, uint32_t n)
{
    struct store_block blocks[INF_TIER_MAX_BLOCKS];

    for (uint32_t i = 0; i < n; i++) {
        struct store_block *b = &blocks[i];

        *b = (struct store_block){.index = first + i, .size = BLOCK, .sum = s->sum};
        name_of(chain[first + i], b->name);
        if (first + i > 0)
            name_of(chain[first + i - 1], b->parent);
    }
    return store_put(s->store, &nobody, s->zeros, blocks, n);
}

/* Makes one request. Returns the number of its first blocks that were found, or a negative
 * errno. */
static int request(struct service *s, const struct trace_request *q)
{
    const uint32_t *chain = s->t->chain + q->first;
    const int hits = find(s, chain, q->n);
    int r = MIN(hits, 0);

    for (uint32_t i = (uint32_t)MAX(hits, 0), n; i < q->n && r >= 0; i += n) {
        n = MIN(q->n - i, s->at_once);
        r = put(s, chain, i, n);
    }
    while (r >= 0 && (r = store_tend(s->store)) > 0)
        ;
    return r < 0 ? r : hits;
}

static int service_open(struct service *s, const struct store_params *p)
{
    static const char zeros[BLOCK];
    struct inf_err err;
    int r;

    s->zeros = memfd_create("zeros", MFD_CLOEXEC);
    if (s->zeros < 0 || ftruncate(s->zeros, BLOCK) < 0)
        return -errno;
    s->sum = record_sum(zeros, BLOCK);
    r = store_open(p, &s->store, &err);
    if (r < 0)
        fprintf(stderr, "%s\n", err.text);
    return r;
}

static void service_close(struct service *s)
{
    char command[80];

    store_close(s->store);
    if (s->zeros >= 0)
        close(s->zeros);
    snprintf(command, sizeof(command), "rm -r %s", s->dir);
    if (system(command) != 0)
        fprintf(stderr, "%s: cannot be removed\n", s->dir);
}

static int replay(struct service *s, struct sim_result *result)
{
    const uint64_t n = s->t->n_requests;
    struct store_stats st;

    for (uint64_t i = 0; i < n; i++) {
        const struct trace_request *q = &s->t->requests[i];
        const int hits = request(s, q);

        if (hits < 0)
            return hits;
        sim_count(result, i >= n / 2, q->n, (uint32_t)hits);
    }
    store_stats(s->store, &st);
    result->put = st.puts;
    result->rule = cache_policy_rule_name(s->store->policy);
    return 0;
}

int sim_run_store(const struct trace *t, uint32_t capacity, uint32_t at_once,
                  struct sim_result *ret_result)
{
    struct service s = {.t = t, .zeros = -1, .at_once = at_once};
    struct store_io io = store_io_system;
    const struct store_params p = {
        .path = s.dir,
        .io = &io,
        .limits.max_bytes = MAX(capacity, 1u) * record_bytes(BLOCK),
    };
    struct sim_result result = {.rule = ""};
    int r;

    io.pwrite = write_pages_alone;
    io.sync = no_sync;
    snprintf(s.dir, sizeof(s.dir), "%s/cache-sim-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(s.dir))
        return -errno;
    r = service_open(&s, &p);
    if (r == 0)
        r = replay(&s, &result);
    service_close(&s);
    if (r == 0)
        *ret_result = result;
    return r;
}
