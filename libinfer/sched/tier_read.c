/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading blocks, on two threads
 *
 * Each takes the next block that nobody has taken. What the page cache holds goes straight to where
 * it is used; for the rest a thread waits, with a buffer of its own, so that a block whose fetch is
 * dropped is nobody's at once: bytes go into blocks under the lock that dropping takes, and no disk
 * is waited for with it. Pieces are summed while the processor's cache has them, and the pages that
 * come next are asked for meanwhile, so that the disk always has something to do.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>

#include "core/clock.h"
#include "sched/tier_impl.h"

#define AHEAD_BYTES (32u << 20)
#define GRACE_USEC  20000 /* before slowness is judged */

int tier_readers_init(struct tier *t)
{
    int r = 0;

    pthread_cond_init(&t->help, NULL);
    pthread_cond_init(&t->helped, NULL);
    for (unsigned i = 0; i < TIER_READERS; i++) {
        struct tier_reader *reader = &t->readers[i];

        reader->tier = t;
        pthread_mutex_init(&reader->copy, NULL);
        reader->sum = sum_new();
        reader->piece = malloc(TIER_PIECE_BYTES);
        if (!reader->sum || !reader->piece)
            r = -ENOMEM;
    }
    return r;
}

void tier_readers_done(struct tier *t)
{
    for (unsigned i = 0; i < TIER_READERS; i++) {
        pthread_mutex_destroy(&t->readers[i].copy);
        sum_free(t->readers[i].sum);
        free(t->readers[i].piece);
    }
    pthread_cond_destroy(&t->help);
    pthread_cond_destroy(&t->helped);
}

void tier_read_drop(struct tier *t, struct fetch *f)
{
    for (unsigned i = 0; i < TIER_READERS; i++)
        pthread_mutex_lock(&t->readers[i].copy);
    f->dropped = true;
    for (unsigned i = TIER_READERS; i-- > 0;)
        pthread_mutex_unlock(&t->readers[i].copy);
}

bool tier_read_is_dropped(struct tier *t, struct fetch *f)
{
    bool dropped;

    pthread_mutex_lock(&t->readers[0].copy);
    dropped = f->dropped;
    pthread_mutex_unlock(&t->readers[0].copy);
    return dropped;
}

enum {
    PIECE_DROPPED = 1,
    PIECE_ELSEWHERE = 2, /* not in the page cache */
};

/* A piece is wanted: @n bytes at @offset of @fd, which go to @to. */
struct piece {
    int fd;
    uint64_t offset;
    uint8_t *to;
    size_t n;
};

static void advance(struct piece *p, size_t n)
{
    p->offset += n;
    p->to += n;
    p->n -= n;
}

/* What of the piece is in the page cache, from its beginning on. 0: some of it came; -EIO. */
static int read_cached(struct tier_reader *r, struct fetch *f, struct piece *p)
{
    const struct iovec to = {p->to, p->n};
    ssize_t n;
    int error = 0;

    if (r->must_wait)
        return PIECE_ELSEWHERE;
    pthread_mutex_lock(&r->copy);
    if (f->dropped) {
        pthread_mutex_unlock(&r->copy);
        return PIECE_DROPPED;
    }
    n = preadv2(p->fd, &to, 1, (off_t)p->offset, RWF_NOWAIT);
    error = n < 0 ? errno : 0;
    if (n > 0)
        sum_add(r->sum, p->to, (size_t)n);
    pthread_mutex_unlock(&r->copy);
    if (n > 0)
        advance(p, (size_t)n);
    r->must_wait = error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
    if (error == EAGAIN || error == EINTR || r->must_wait)
        return PIECE_ELSEWHERE;
    return n > 0 ? 0 : -EIO;
}

/* Some of the piece, from wherever it is. */
static int read_waiting(struct tier_reader *r, struct fetch *f, struct piece *p)
{
    ssize_t n;
    bool dropped;

    do
        n = pread(p->fd, r->piece, p->n, (off_t)p->offset);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return -EIO;
    sum_add(r->sum, r->piece, (size_t)n);
    pthread_mutex_lock(&r->copy);
    dropped = f->dropped;
    if (!dropped)
        memcpy(p->to, r->piece, (size_t)n);
    pthread_mutex_unlock(&r->copy);
    advance(p, (size_t)n);
    return dropped ? PIECE_DROPPED : 0;
}

static int read_piece(struct tier_reader *reader, struct fetch *f, struct piece p)
{
    int r = 0;

    while (r == 0 && p.n > 0) {
        r = read_cached(reader, f, &p);
        if (r == PIECE_ELSEWHERE)
            r = read_waiting(reader, f, &p);
    }
    return r;
}

static enum tier_read read_block(struct tier_reader *reader, struct fetch *f, uint32_t i)
{
    const struct inf_tier_place *place = &f->places[i];

    sum_begin(reader->sum);
    for (uint64_t at = 0; at < place->size; at += TIER_PIECE_BYTES) {
        const struct piece p = {
            .fd = place->fd,
            .offset = place->offset + at,
            .to = (uint8_t *)f->to[i] + at,
            .n = (size_t)MIN(place->size - at, (uint64_t)TIER_PIECE_BYTES),
        };
        const int r = read_piece(reader, f, p);

        if (r != 0)
            return r < 0 ? READ_BAD : READ_NOT;
    }
    return sum_end(reader->sum) == place->sum ? READ_WHOLE : READ_BAD;
}

static bool is_slow(const struct fetch *f)
{
    const double usec = (double)(clock_usec() - f->begin_usec);

    return usec > GRACE_USEC + (f->next - f->first + 1) * f->usec_a_block;
}

/* A block to read, and those from *ret_ahead to *ret_ahead_end to be asked for before. */
static bool take_block(struct tier *t, struct fetch *f, uint32_t *ret_i, uint32_t *ret_ahead,
                       uint32_t *ret_ahead_end)
{
    const uint64_t n_ahead = MAX(AHEAD_BYTES / t->params.block_bytes, 2u);
    bool taken;

    pthread_mutex_lock(&t->lock);
    if (f->next < f->end && is_slow(f))
        f->end = f->next;
    taken = f->next < f->end;
    if (taken) {
        *ret_i = f->next++;
        f->reads[*ret_i] = READ_AT_WORK;
        *ret_ahead = MAX(f->n_ahead, *ret_i);
        *ret_ahead_end = (uint32_t)MIN(*ret_i + n_ahead, (uint64_t)f->n_found);
        f->n_ahead = MAX(f->n_ahead, *ret_ahead_end);
    }
    pthread_mutex_unlock(&t->lock);
    return taken;
}

static void put_block(struct tier *t, struct fetch *f, uint32_t i, enum tier_read read)
{
    pthread_mutex_lock(&t->lock);
    f->reads[i] = (uint8_t)read;
    if (read != READ_WHOLE)
        f->end = MIN(f->end, i);
    while (f->first + f->n_loaded < f->end && f->reads[f->first + f->n_loaded] == READ_WHOLE) {
        f->n_loaded++;
        t->counts.n_loaded++;
        t->counts.loaded_bytes += t->params.block_bytes;
    }
    pthread_mutex_unlock(&t->lock);
}

static void read_on(struct tier_reader *r, struct fetch *f)
{
    uint32_t i, ahead, ahead_end;

    while (take_block(r->tier, f, &i, &ahead, &ahead_end)) {
        for (; ahead < ahead_end; ahead++)
            posix_fadvise(f->places[ahead].fd, (off_t)f->places[ahead].offset,
                          (off_t)f->places[ahead].size, POSIX_FADV_WILLNEED);
        put_block(r->tier, f, i, read_block(r, f, i));
    }
}

static void *helper_main(void *arg)
{
    struct tier_reader *r = arg;
    struct tier *t = r->tier;

    pthread_setname_np(pthread_self(), "infer-tier-read");
    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        struct fetch *f = t->loading;

        if (!f || f->next >= f->end) {
            pthread_cond_wait(&t->help, &t->lock);
            continue;
        }
        t->is_helping = true;
        pthread_mutex_unlock(&t->lock);
        read_on(r, f);
        pthread_mutex_lock(&t->lock);
        t->is_helping = false;
        pthread_cond_signal(&t->helped);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

void tier_read_blocks(struct tier *t, struct fetch *f)
{
    pthread_mutex_lock(&t->lock);
    t->loading = f;
    pthread_cond_signal(&t->help);
    pthread_mutex_unlock(&t->lock);
    read_on(&t->readers[0], f);
    pthread_mutex_lock(&t->lock);
    while (t->is_helping)
        pthread_cond_wait(&t->helped, &t->lock);
    t->loading = NULL;
    pthread_mutex_unlock(&t->lock);
}

int tier_helper_start(struct tier *t)
{
    return -pthread_create(&t->helper, NULL, helper_main, &t->readers[1]);
}

void tier_helper_stop(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->help);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->helper, NULL);
}
