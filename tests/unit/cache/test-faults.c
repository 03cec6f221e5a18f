/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests stores on a disk with random faults. Usage: test-cache-faults [FAULTS [SEED]]
 *
 * A "life" is a series of sessions in one directory. Each session has one kind of faults, and ends
 * when the store is closed or the power is lost. After each session the faults stop: the store must
 * open, no block that is found may be wrong, new blocks must be stored, and limits must hold. If a
 * life has no limits and its only fault is power loss, it must also lose no block that was put.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "lib/test.h"
#include "unit/cache/faults.h"
#include "unit/cache/kit.h"

enum {
    CHAINS = 12,
    LENGTH = 40,
    SIZE = 9000,
    SESSIONS = 12,
    OPS = 40,
    LIMIT = 768 * 1024,
    PLENTY = 16 * 1024 * 1024,
    SLACK = 20 * 1024, /* bytes by which each segment may exceed the limit */
};

enum kind {
    KILL,
    POWER,
    ERRORS,
    FULL,
    READ_ONLY,
    BAD_READS,
    ROT, /* bits change between sessions */
    KINDS,
};

struct life {
    struct kit kit;
    struct rng rng;
    uint64_t seed;
    bool is_honest; /* nothing that was put may be lost */
    uint32_t put[CHAINS];
    uint32_t wrong;
};

static uint64_t n_faults;

static uint32_t below(struct life *l, uint32_t n)
{
    return rng_u32(&l->rng) % n;
}

#define CHECK(l, cond)                                                                             \
    do {                                                                                           \
        if (!(cond))                                                                               \
            fail_msg("seed %llu: %s", (unsigned long long)(l)->seed, #cond);                       \
    } while (0)

static void op_put(struct life *l)
{
    const uint32_t chain = below(l, CHAINS), n = 1 + below(l, 8);
    const uint32_t first = l->is_honest ? l->put[chain] : below(l, LENGTH);
    int r;

    if (first + n > LENGTH)
        return;
    r = kit_put(&l->kit, &kit_origin, chain, first, n, SIZE);
    if (r > 0 && l->is_honest)
        l->put[chain] += (uint32_t)r;
}

static void op_find(struct life *l)
{
    kit_find(&l->kit, below(l, CHAINS), LENGTH, SIZE, &l->wrong);
}

static void op_used(struct life *l)
{
    uint8_t names[LENGTH][STORE_NAME_BYTES];
    const uint32_t chain = below(l, CHAINS);

    for (uint32_t i = 0; i < LENGTH; i++)
        kit_name(chain, i, names[i]);
    store_used(l->kit.store, &kit_origin, names, LENGTH);
}

static void op_tend(struct life *l)
{
    for (int i = 0; i < 5 && store_tend(l->kit.store) > 0; i++)
        ;
}

static void op_flush(struct life *l)
{
    store_flush(l->kit.store);
}

static void op_reject(struct life *l)
{
    uint8_t name[STORE_NAME_BYTES];

    if (l->is_honest)
        return;
    kit_name(below(l, CHAINS), below(l, LENGTH), name);
    store_reject(l->kit.store, name);
}

static void op_verify(struct life *l)
{
    struct store_cursor cursor = {0};

    store_verify(l->kit.store, &cursor);
}

static void op_purge(struct life *l)
{
    const struct store_filter filter = {.model = below(l, 4) ? "other" : "model"};
    struct store_cursor cursor = {0};

    if (!l->is_honest && below(l, 4) == 0)
        store_purge(l->kit.store, &filter, &cursor);
}

static void op_digest(struct life *l)
{
    const struct store_file file = {1, below(l, 4), 3, 4, 5};
    uint8_t digest[STORE_DIGEST_BYTES] = {(uint8_t)file.ino}, back[STORE_DIGEST_BYTES];

    store_remember(l->kit.store, &file, digest);
    store_recall(l->kit.store, &file, back);
}

/* Prepares two writes at once; the first of these writes may never run. */
static void op_two_puts(struct life *l)
{
    const uint32_t chain = below(l, CHAINS);
    struct store_block blocks[4], others[4];
    struct store_write *a = NULL, *b = NULL;
    int fd, other;

    if (l->is_honest)
        return;
    fd = kit_blocks(chain, below(l, LENGTH), 4, SIZE, blocks);
    other = kit_blocks(below(l, CHAINS), below(l, LENGTH), 4, SIZE, others);
    store_put_begin(l->kit.store, &kit_origin, blocks, 4, &a);
    store_put_begin(l->kit.store, &kit_origin, others, 4, &b);
    op_tend(l);
    if (b)
        store_write_run(b, other);
    store_put_end(l->kit.store, b);
    if (a && below(l, 2))
        store_write_run(a, fd);
    op_find(l);
    store_put_end(l->kit.store, a);
    close(fd);
    close(other);
}

static void (*const ops[])(struct life *) = {
    op_put,  op_put,   op_put,    op_put,    op_find,  op_find,   op_used,
    op_tend, op_flush, op_reject, op_verify, op_purge, op_digest, op_two_puts,
};

static void arm(struct life *l, enum kind kind)
{
    faults.off_at = kind == KILL || kind == POWER ? faults.calls + 1 + below(l, 600) : 0;
    faults.loses = kind == POWER;
    faults.one_in = kind == ERRORS ? 3 + below(l, 200) : 0;
    faults.flips = kind == BAD_READS ? 5 + below(l, 100) : 0;
}

/* Makes the disk full or read-only for a while. */
static void toggle(struct life *l, enum kind kind)
{
    if (below(l, 6) == 0) {
        faults.is_full = kind == FULL && !faults.is_full;
        faults.is_read_only = kind == READ_ONLY && !faults.is_read_only;
    }
}

static void rot_file(struct life *l, const char *name)
{
    char path[128];
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", l->kit.dir, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    for (uint32_t n = 1 + below(l, 6); fstat(fd, &st) == 0 && st.st_size > 0 && n > 0; n--) {
        const off_t at = (off_t)(rng_u32(&l->rng) % (uint64_t)st.st_size);
        uint8_t byte;

        if (pread(fd, &byte, 1, at) != 1)
            break;
        byte ^= (uint8_t)(1 << below(l, 8));
        CHECK(l, pwrite(fd, &byte, 1, at) == 1);
        faults.injected++;
    }
    close(fd);
}

static void rot(struct life *l)
{
    char name[64];

    switch (below(l, 4)) {
    case 0:
        snprintf(name, sizeof(name), "segments/%08u.kv", 1 + below(l, 4));
        rot_file(l, name);
        break;
    case 1:
        rot_file(l, "policy");
        break;
    default:
        rot_file(l, "index.db");
    }
}

/* Runs a session with faults; even opening the store may fail. */
static void session(struct life *l, enum kind kind)
{
    struct inf_err err;

    arm(l, kind);
    if (kind == ROT)
        rot(l);
    if (store_open(&l->kit.params, &l->kit.store, &err) < 0) {
        CHECK(l, err.code > 0 && err.text[0]);
        l->kit.store = NULL;
    }
    for (int i = 0; i < OPS && l->kit.store && !faults.is_off; i++) {
        toggle(l, kind);
        ops[below(l, sizeof(ops) / sizeof(ops[0]))](l);
    }
    kit_close(&l->kit);
    faults_power_on();
    CHECK(l, l->wrong == 0);
}

/* Checks that the store is consistent. No faults are simulated meanwhile. */
static void examine(struct life *l)
{
    struct store_stats st;
    struct inf_err err;
    const int opened = store_open(&l->kit.params, &l->kit.store, &err);
    int r;

    if (opened < 0)
        fail_msg("seed %llu: %s", (unsigned long long)l->seed, err.text);
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        r = kit_find(&l->kit, chain, LENGTH, SIZE, &l->wrong);
        CHECK(l, r >= 0);
        if (l->is_honest)
            CHECK(l, r >= (int)l->put[chain]);
    }
    CHECK(l, l->wrong == 0);
    r = kit_put(&l->kit, &kit_origin, CHAINS, 0, 4, SIZE);
    CHECK(l, r == 4);
    while ((r = store_tend(l->kit.store)) > 0)
        ;
    CHECK(l, r == 0);
    store_stats(l->kit.store, &st);
    if (!l->is_honest && kit_disk(&l->kit, "segments") > LIMIT + st.segments * SLACK)
        fail_msg("seed %llu: %llu blocks of %llu bytes in %llu segments take %llu",
                 (unsigned long long)l->seed, (unsigned long long)st.blocks,
                 (unsigned long long)st.bytes, (unsigned long long)st.segments,
                 (unsigned long long)kit_disk(&l->kit, "segments"));
    CHECK(l, st.segments <= 256);
    kit_close(&l->kit);
}

static void live(uint64_t seed)
{
    struct life l = {.seed = seed};

    rng_seed(&l.rng, seed);
    faults_start(seed);
    l.is_honest = below(&l, 3) == 0;
    faults.no_punch = !l.is_honest && below(&l, 4) == 0;
    kit_init(&l.kit);
    l.kit.params.io = &faults_io;
    l.kit.params.vfs = faults_vfs;
    l.kit.params.limits.segment_bytes = 128 * 1024;
    l.kit.params.limits.max_bytes = l.is_honest ? PLENTY : LIMIT;
    for (int i = 0; i < SESSIONS; i++) {
        session(&l, l.is_honest ? below(&l, 2) : below(&l, KINDS));
        examine(&l);
    }
    kit_done(&l.kit);
    n_faults += faults.injected;
    faults.injected = 0;
}

static uint64_t want_faults, first_seed, most_usec;

TEST(nothing_wrong_is_found_whatever_fails)
{
    const uint64_t start = clock_usec();
    uint64_t lives = 0;

    while (n_faults < want_faults && clock_usec() - start < most_usec)
        live(first_seed + lives++);
    print_message("%llu faults in %llu lives, seeds from %llu\n", (unsigned long long)n_faults,
                  (unsigned long long)lives, (unsigned long long)first_seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_wrong_is_found_whatever_fails),
    };

    /* Without an argument the test runs for some seconds. With a number as its argument it runs
     * until that many faults have occurred. */
    want_faults = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    most_usec = argc > 1 ? UINT64_MAX : 15000000;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
