/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads blocks from the tier (tier 2 of the KV cache, tier.h), on one or two threads.
 *
 * The tier sends one stream of blocks to each thread that reads. If there are two streams, each has
 * every second block. A thread writes the bytes of its stream directly to the memory of the block.
 * Each thread has a lock `copy`: the thread waits for bytes without this lock, and reads available
 * bytes under this lock. Dropping a fetch takes the locks of both threads, so after the drop no
 * thread writes to the fetch's blocks. Each piece is added to the checksum while it is in the
 * processor's cache.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "core/clock.h"
#include "core/signals.h"
#include "sched/tier-impl.h"

#define GRACE_USEC 20000 /* time before a load can count as slow */
#define WAIT_MSEC  10    /* interval at which waiting threads check for a load that is too slow */

int tier_readers_init(struct tier *t)
{
    int r = 0;

    pthread_cond_init(&t->help, NULL);
    pthread_cond_init(&t->helped, NULL);
    t->n_readers = 1;
    for (unsigned i = 0; i < TIER_READERS; i++) {
        struct tier_reader *reader = &t->readers[i];

        reader->tier = t;
        reader->fd = -1;
        pthread_mutex_init(&reader->copy, NULL);
        reader->sum = sum_new();
        if (!reader->sum)
            r = -ENOMEM;
    }
    return r;
}

void tier_readers_done(struct tier *t)
{
    for (unsigned i = 0; i < TIER_READERS; i++) {
        pthread_mutex_destroy(&t->readers[i].copy);
        sum_free(t->readers[i].sum);
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

static bool is_slow(const struct fetch *f)
{
    const double usec = (double)(clock_usec() - f->begin_usec);

    return usec > GRACE_USEC + (f->next - f->first + 1) * f->usec_a_block;
}

/* Reads available bytes, at most @n, to @to. Returns their number, 0 if none are available yet, or
 * a negative number if the stream failed or ended or the fetch was dropped. */
static ssize_t take_some(struct tier_reader *r, struct fetch *f, uint8_t *to, size_t n)
{
    ssize_t got = -1;
    int error = ECANCELED;

    pthread_mutex_lock(&r->copy);
    if (!f->dropped) {
        got = read(r->fd, to, n);
        error = got == 0 ? ENODATA : errno;
    }
    if (got > 0)
        sum_add(r->sum, to, (size_t)got);
    pthread_mutex_unlock(&r->copy);
    if (got > 0)
        return got;
    return error == EAGAIN || error == EINTR ? 0 : -error;
}

/* Waits for bytes, for at most WAIT_MSEC milliseconds. Returns false if none came and the load is
 * too slow. */
static bool await_more(struct tier_reader *r, struct fetch *f)
{
    struct pollfd wait = {.fd = r->fd, .events = POLLIN};
    bool slow;

    if (poll(&wait, 1, WAIT_MSEC) > 0)
        return true;
    loop_thread_lock(&r->tier->thread);
    slow = is_slow(f);
    loop_thread_unlock(&r->tier->thread);
    return !slow;
}

static enum tier_read read_block(struct tier_reader *reader, struct fetch *f, uint32_t i)
{
    const uint64_t size = f->found[i].size;
    uint8_t *to = f->to[i];
    uint64_t at = 0;

    if (reader->fd < 0)
        return READ_NOT;
    sum_begin(reader->sum);
    while (at < size) {
        const ssize_t n =
            take_some(reader, f, to + at, (size_t)MIN(size - at, (uint64_t)TIER_PIECE_BYTES));

        if (n < 0 || (n == 0 && !await_more(reader, f)))
            return READ_NOT;
        at += (uint64_t)n;
    }
    return sum_end(reader->sum) == f->found[i].sum ? READ_WHOLE : READ_BAD;
}

/* Sets *ret_i to the next block that @r must read. Returns false if there is none. */
static bool take_block(struct tier_reader *r, struct fetch *f, uint32_t *ret_i)
{
    struct tier *t = r->tier;
    bool taken;

    loop_thread_lock(&t->thread);
    if (f->next < f->end && is_slow(f))
        f->end = f->next;
    taken = r->next < f->end;
    if (taken) {
        *ret_i = r->next;
        r->next += f->n_streams;
        f->next = MAX(f->next, *ret_i + 1);
        f->reads[*ret_i] = READ_AT_WORK;
    }
    loop_thread_unlock(&t->thread);
    return taken;
}

static void put_block(struct tier *t, struct fetch *f, uint32_t i, enum tier_read read)
{
    loop_thread_lock(&t->thread);
    f->reads[i] = (uint8_t)read;
    if (read != READ_WHOLE)
        f->end = MIN(f->end, i);
    while (f->first + f->n_loaded < f->end && f->reads[f->first + f->n_loaded] == READ_WHOLE) {
        f->n_loaded++;
        t->counts.n_loaded++;
        t->counts.loaded_bytes += f->found[f->first + f->n_loaded - 1].size;
    }
    loop_thread_unlock(&t->thread);
}

static void read_on(struct tier_reader *r, struct fetch *f)
{
    uint32_t i;

    while (take_block(r, f, &i))
        put_block(r->tier, f, i, read_block(r, f, i));
}

/* Returns whether the helper has work. The caller holds the lock of the tier's thread. */
static bool needs_help(const struct tier *t)
{
    return t->loading && t->readers[1].next < t->loading->end;
}

static void *helper_main(void *arg)
{
    struct tier_reader *r = arg;
    struct tier *t = r->tier;

    pthread_setname_np(pthread_self(), "infer-tier-read");
    loop_thread_lock(&t->thread);
    while (!t->thread.stop) {
        struct fetch *f = t->loading;

        if (!needs_help(t)) {
            pthread_cond_wait(&t->help, &t->thread.lock);
            continue;
        }
        t->is_helping = true;
        loop_thread_unlock(&t->thread);
        read_on(r, f);
        loop_thread_lock(&t->thread);
        t->is_helping = false;
        pthread_cond_signal(&t->helped);
    }
    loop_thread_unlock(&t->thread);
    return NULL;
}

/* Asks the tier for a stream that has the block @first of @f and every n_streams-th block after
 * it. */
static void open_stream(struct tier_reader *r, struct fetch *f, uint32_t first)
{
    struct tier *t = r->tier;
    uint8_t names[INF_TIER_MAX_NAMES][INF_TIER_NAME_BYTES];
    uint32_t n = 0, n_ahead = 0;
    int error;

    for (uint32_t i = first; i < f->n_found; i += f->n_streams) {
        memcpy(names[n + n_ahead], f->names[i].bytes, INF_TIER_NAME_BYTES);
        n += i < f->end;
        n_ahead += i >= f->end;
    }
    error = t->params.impl->ops->read(t->params.impl, (const uint8_t(*)[INF_TIER_NAME_BYTES])names,
                                      n, n_ahead, &r->fd);
    if (error < 0)
        r->fd = -1;
    tier_pause_note(t, &t->find_pause, error < 0 && error != -ENOENT);
    r->next = first;
}

static void open_streams(struct tier *t, struct fetch *f)
{
    f->n_streams = MIN(t->n_readers, f->end - f->first);
    for (uint32_t i = 0; i < f->n_streams; i++)
        open_stream(&t->readers[i], f, f->first + i);
    for (uint32_t i = f->n_streams; i < TIER_READERS; i++)
        t->readers[i].next = f->end;
}

static void close_streams(struct tier *t)
{
    for (unsigned i = 0; i < TIER_READERS; i++) {
        if (t->readers[i].fd >= 0)
            close(t->readers[i].fd);
        t->readers[i].fd = -1;
    }
}

void tier_read_blocks(struct tier *t, struct fetch *f)
{
    open_streams(t, f);
    loop_thread_lock(&t->thread);
    t->loading = f;
    pthread_cond_signal(&t->help);
    loop_thread_unlock(&t->thread);
    read_on(&t->readers[0], f);
    loop_thread_lock(&t->thread);
    while (t->is_helping || needs_help(t))
        pthread_cond_wait(&t->helped, &t->thread.lock);
    t->loading = NULL;
    loop_thread_unlock(&t->thread);
    close_streams(t);
}

int tier_helper_start(struct tier *t)
{
    sigset_t old;
    int r;

    t->n_readers = TIER_READERS;
    signals_block(&old);
    r = pthread_create(&t->helper, NULL, helper_main, &t->readers[1]);
    signals_restore(&old);
    return -r;
}

void tier_helper_stop(struct tier *t)
{
    loop_thread_lock(&t->thread);
    t->thread.stop = true;
    pthread_cond_signal(&t->help);
    loop_thread_unlock(&t->thread);
    pthread_join(t->helper, NULL);
}
