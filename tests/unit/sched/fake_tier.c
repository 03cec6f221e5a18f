/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_tier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/macros.h"
#include "core/sum.h"
#include "lib/test.h"

struct fake_block {
    uint8_t name[32];
    uint64_t offset, size, sum;
};

static bool happens(struct fake_tier *t, uint32_t one_in)
{
    return one_in > 0 && rng_u32(&t->rng) % one_in == 0;
}

static void take_time(struct fake_tier *t)
{
    if (t->lies.usec > 0)
        usleep(rng_u32(&t->rng) % t->lies.usec);
}

static void change_byte(struct fake_tier *t, const struct fake_block *b)
{
    const off_t at = (off_t)(b->offset + rng_u32(&t->rng) % b->size);
    uint8_t byte;

    assert_int_equal(pread(t->fd, &byte, 1, at), 1);
    byte ^= (uint8_t)(1u << rng_u32(&t->rng) % 8);
    assert_int_equal(pwrite(t->fd, &byte, 1, at), 1);
}

static int fake_find(struct inf_tier *base, const struct inf_tier_origin *origin,
                     const uint8_t (*names)[32], uint32_t n, struct inf_tier_found *ret_found)
{
    struct fake_tier *t = (struct fake_tier *)base;
    uint32_t i;

    assert_true(n > 0 && n <= INF_TIER_MAX_NAMES && origin->tenant);
    t->n_finds++;
    take_time(t);
    if (happens(t, t->lies.fail_find))
        return -EIO;
    for (i = 0; i < n; i++) {
        const struct fake_block *b;
        uint64_t k;

        if (!map_find(&t->map, names[i], 32, &k))
            break;
        b = t->blocks[k];
        ret_found[i] = (struct inf_tier_found){b->size, b->sum};
        if (happens(t, t->lies.wrong_sum))
            ret_found[i].sum++;
        if (happens(t, t->lies.wrong_size))
            ret_found[i].size -= 8;
    }
    if (happens(t, t->lies.count))
        return i > 0 ? (int)n + 7 : (int)i;
    return (int)i;
}

/* Appends the bytes of a block to the stream @to. */
static void send_block(struct fake_tier *t, const struct fake_block *b, int to)
{
    uint64_t offset = b->offset;
    uint8_t *bytes = malloc(b->size + 1);

    if (b->size > 0 && happens(t, t->lies.wrong_byte))
        change_byte(t, b);
    if (b->size > 0 && happens(t, t->lies.other_block))
        offset = rng_u32(&t->rng) % (t->size / b->size) * b->size;
    assert_non_null(bytes);
    assert_int_equal(pread(t->fd, bytes, b->size, (off_t)offset), b->size);
    assert_int_equal(write(to, bytes, b->size), b->size);
    free(bytes);
}

static int stall(struct fake_tier *t)
{
    int ends[2];

    if (t->stalled >= 0)
        close(t->stalled);
    assert_return_code(pipe2(ends, O_CLOEXEC | O_NONBLOCK), errno);
    assert_int_equal(write(ends[1], "x", 1), 1);
    t->stalled = ends[1];
    return ends[0];
}

/* Returns the blocks in a file instead of a pipe. A tier may do so if the file has all bytes from
 * the start. */
static int fake_read(struct inf_tier *base, const uint8_t (*names)[32], uint32_t n,
                     uint32_t n_ahead, int *ret_fd)
{
    struct fake_tier *t = (struct fake_tier *)base;
    uint64_t k;
    int fd;

    assert_true(n > 0 && n + n_ahead <= INF_TIER_MAX_NAMES);
    take_time(t);
    if (happens(t, t->lies.fail_read))
        return rng_u32(&t->rng) % 2 ? -ENOENT : -EIO;
    if (happens(t, t->lies.stall)) {
        *ret_fd = stall(t);
        return 0;
    }
    fd = memfd_create("stream", MFD_CLOEXEC);
    assert_true(fd >= 0);
    for (uint32_t i = 0; i < n && map_find(&t->map, names[i], 32, &k); i++) {
        send_block(t, t->blocks[k], fd);
        if (happens(t, t->lies.short_stream)) {
            assert_return_code(ftruncate(fd, lseek(fd, 0, SEEK_CUR) / 2), errno);
            break;
        }
    }
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    *ret_fd = fd;
    return 0;
}

static void check_parent(struct fake_tier *t, const struct inf_tier_block *b)
{
    static const uint8_t zeros[32];
    uint64_t k;

    if (b->index == 0)
        assert_memory_equal(b->parent, zeros, 32);
    else if (t->lies.forget == 0 && t->lies.half_put == 0 && t->lies.fail_put == 0)
        assert_true(map_find(&t->map, b->parent, 32, &k));
}

static bool is_kept(const struct fake_tier *t, const uint8_t name[32])
{
    uint64_t k;

    return map_find(&t->map, name, 32, &k) && t->blocks[k]->size > 0;
}

static void keep(struct fake_tier *t, int fd, const struct inf_tier_block *b)
{
    struct fake_block *block = NEW(struct fake_block, 1);
    uint8_t *bytes = malloc(b->size);

    assert_true(block && bytes);
    assert_int_equal(pread(fd, bytes, b->size, (off_t)b->offset), b->size);
    assert_true(sum_bytes(bytes, b->size) == b->sum);
    assert_int_equal(pwrite(t->fd, bytes, b->size, (off_t)t->size), b->size);
    free(bytes);
    memcpy(block->name, b->name, 32);
    block->offset = t->size;
    block->size = b->size;
    block->sum = b->sum;
    t->size += b->size;
    if (t->n_blocks == t->cap) {
        t->cap = MAX(2 * t->cap, 64u);
        t->blocks = realloc(t->blocks, t->cap * sizeof(*t->blocks));
        assert_non_null(t->blocks);
    }
    t->blocks[t->n_blocks] = block;
    ASSERT_OK(map_set(&t->map, block->name, 32, t->n_blocks++));
}

static int fake_put(struct inf_tier *base, const struct inf_tier_origin *origin, int fd,
                    const struct inf_tier_block *blocks, uint32_t n)
{
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct fake_tier *t = (struct fake_tier *)base;
    uint32_t i;

    assert_true(n > 0 && n <= INF_TIER_MAX_BLOCKS);
    assert_int_equal(fcntl(fd, F_GET_SEALS) & seals, seals);
    t->n_puts++;
    take_time(t);
    if (happens(t, t->lies.fail_put))
        return rng_u32(&t->rng) % 2 ? -ENOSPC : -EIO;
    snprintf(t->session, sizeof(t->session), "%s", origin->session ? origin->session : "");
    snprintf(t->tenant, sizeof(t->tenant), "%s", origin->tenant);
    for (i = 0; i < n; i++) {
        if (happens(t, t->lies.half_put))
            break;
        check_parent(t, &blocks[i]);
        if (is_kept(t, blocks[i].name) || happens(t, t->lies.forget))
            continue;
        keep(t, fd, &blocks[i]);
        t->n_put_blocks++;
    }
    return (int)i;
}

static void fake_used(struct inf_tier *base, const struct inf_tier_origin *origin UNUSED,
                      const uint8_t (*names)[32], uint32_t n)
{
    struct fake_tier *t = (struct fake_tier *)base;
    uint64_t k;

    assert_true(n > 0 && n <= INF_TIER_MAX_NAMES);
    for (uint32_t i = 0; i < n; i++)
        t->n_used += map_find(&t->map, names[i], 32, &k);
}

static void fake_reject(struct inf_tier *base, const uint8_t name[32])
{
    struct fake_tier *t = (struct fake_tier *)base;
    uint64_t k;

    t->n_rejects++;
    if (map_find(&t->map, name, 32, &k))
        t->blocks[k]->size = 0; /* the block was dropped, and is never found again */
}

static int fake_recall(struct inf_tier *base, const struct inf_tier_file *file, uint8_t ret[32])
{
    struct fake_tier *t = (struct fake_tier *)base;

    t->n_recalls++;
    if (happens(t, t->lies.fail_recall))
        return -ECONNREFUSED;
    for (uint32_t i = 0; i < t->n_remembered; i++)
        if (memcmp(&t->files[i], file, sizeof(*file)) == 0) {
            memcpy(ret, t->remembered[i], 32);
            return 1;
        }
    return 0;
}

static int fake_remember(struct inf_tier *base, const struct inf_tier_file *file,
                         const uint8_t digest[32])
{
    struct fake_tier *t = (struct fake_tier *)base;

    assert_true(t->n_remembered < ARRAY_SIZE(t->files));
    t->files[t->n_remembered] = *file;
    memcpy(t->remembered[t->n_remembered++], digest, 32);
    return 0;
}

static const struct inf_tier_ops fake_ops = {
    .find = fake_find,
    .read = fake_read,
    .put = fake_put,
    .used = fake_used,
    .reject = fake_reject,
    .recall = fake_recall,
    .remember = fake_remember,
};

void fake_tier_init(struct fake_tier *t, uint64_t seed)
{
    *t = (struct fake_tier){
        .base = {&fake_ops}, .fd = memfd_create("fake", MFD_CLOEXEC), .stalled = -1};
    assert_true(t->fd >= 0);
    rng_seed(&t->rng, seed);
}

void fake_tier_done(struct fake_tier *t)
{
    for (uint32_t i = 0; i < t->n_blocks; i++)
        free(t->blocks[i]);
    free(t->blocks);
    map_done(&t->map);
    if (t->stalled >= 0)
        close(t->stalled);
    close(t->fd);
}
