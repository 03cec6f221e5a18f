/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading
 *
 * A block is read in pieces that stay in the cache while they are summed and copied into the pool,
 * and the pages that come next are asked for meanwhile, so that the disk always has something to
 * do. A copy holds the lock that fetch_drop() takes: the engine never waits for a disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/clock.h"
#include "sched/tier_impl.h"

#define AHEAD_BYTES (32u << 20)
#define GRACE_USEC  20000 /* before slowness is judged */

struct fetch *tier_ask(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                       uint32_t n)
{
    struct fetch *f = NEW(struct fetch, 1);

    assert(n > 0 && n <= INF_TIER_MAX_NAMES);
    if (!f)
        return NULL;
    f->names = NEW(struct kv_name, n);
    f->places = NEW(struct inf_tier_place, n);
    if (!f->names || !f->places) {
        free(f->names);
        free(f->places);
        free(f);
        return NULL;
    }
    memcpy(f->names, names, n * sizeof(*names));
    f->n = n;
    f->tier = t;
    f->owner = tier_owner_ref(owner);
    f->queued = true;
    pthread_mutex_lock(&t->lock);
    *t->fetches_end = f;
    t->fetches_end = &f->next;
    t->counts.n_asked += n;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    return f;
}

static void free_fetch(struct fetch *f)
{
    tier_owner_unref(f->owner);
    free(f->names);
    free(f->places);
    free(f->to);
    free(f);
}

enum fetch_state fetch_look(const struct fetch *f, uint32_t *ret_n_found, uint32_t *ret_n_loaded)
{
    enum fetch_state state;

    pthread_mutex_lock(&f->tier->lock);
    state = f->state;
    *ret_n_found = f->n_found;
    *ret_n_loaded = f->n_loaded;
    pthread_mutex_unlock(&f->tier->lock);
    return state;
}

int fetch_load(struct fetch *f, uint32_t first, void *const *to, double usec)
{
    struct tier *t = f->tier;
    const uint32_t n = f->n_found - first;

    assert(f->state == FETCH_FOUND && first < f->n_found);
    f->to = NEW(void *, n);
    if (!f->to)
        return -ENOMEM;
    memcpy(f->to, to, n * sizeof(*to));
    f->first = first;
    f->usec_a_block = usec;
    pthread_mutex_lock(&t->lock);
    f->state = FETCH_LOADING;
    f->queued = true;
    *t->fetches_end = f;
    t->fetches_end = &f->next;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

static void unqueue(struct tier *t, struct fetch *f)
{
    struct fetch **at = &t->fetches;

    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    if (!f->next)
        t->fetches_end = at;
    f->queued = false;
}

/* What stands in a block that did not come whole may be anything, and who computes a part of a
 * block multiplies the rest by zero. */
static void wipe(struct fetch *f)
{
    const uint32_t i = f->first + f->n_loaded;

    if (f->to && i < f->n_found)
        memset(f->to[f->n_loaded], 0, f->tier->params.block_bytes);
}

struct fetch *fetch_drop(struct fetch *f)
{
    struct tier *t;

    if (!f)
        return NULL;
    t = f->tier;
    pthread_mutex_lock(&t->copy);
    f->dropped = true;
    pthread_mutex_unlock(&t->copy);
    pthread_mutex_lock(&t->lock);
    if (f->queued)
        unqueue(t, f);
    wipe(f);
    /* The thread frees what it has in its hands. */
    f->orphan = f->at_work;
    if (f->at_work)
        f = NULL;
    pthread_mutex_unlock(&t->lock);
    if (f)
        free_fetch(f);
    return NULL;
}

static bool is_dropped(struct fetch *f)
{
    bool dropped;

    pthread_mutex_lock(&f->tier->copy);
    dropped = f->dropped;
    pthread_mutex_unlock(&f->tier->copy);
    return dropped;
}

/* Where the blocks are, from @first on; how many of them follow each other. What the tier says is
 * checked as far as that can be done without reading. */
static uint32_t find(struct tier *t, struct fetch *f, uint32_t first)
{
    const struct inf_tier_origin origin = tier_origin(t, f->owner);
    struct inf_tier *impl = t->params.impl;
    uint32_t n = 0;
    int r;

    r = impl->ops->find(impl, &origin, &f->names[first].bytes, f->n - first, f->places + first);
    f->serial = ++t->serial;
    tier_pause_note(t, &t->find_pause, r < 0);
    while (r > 0 && n < MIN((uint32_t)r, f->n - first)) {
        const struct inf_tier_place *p = &f->places[first + n];

        if (p->fd < 0 || p->size != t->params.block_bytes || p->offset > INT64_MAX - p->size)
            break;
        n++;
    }
    return first + n;
}

static void work_find(struct tier *t, struct fetch *f)
{
    uint32_t n_found = 0;

    if (!f->has_names)
        for (uint32_t i = 0; i < f->n; i++)
            tier_name(t, &f->names[i], &f->names[i]);
    f->has_names = true;
    if (atomic_load(&t->digest_state) == DIGEST_KNOWN)
        n_found = find(t, f, 0);
    pthread_mutex_lock(&t->lock);
    f->n_found = n_found;
    f->state = FETCH_FOUND;
    t->counts.n_found += n_found;
    pthread_mutex_unlock(&t->lock);
}

/* All of @n bytes, or false. */
static bool read_piece(int fd, uint8_t *to, size_t n, uint64_t offset)
{
    while (n > 0) {
        const ssize_t k = pread(fd, to, n, (off_t)offset);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        to += k;
        n -= (size_t)k;
        offset += (size_t)k;
    }
    return true;
}

static bool copy_piece(struct tier *t, struct fetch *f, uint8_t *to, const uint8_t *piece, size_t n)
{
    bool copied;

    pthread_mutex_lock(&t->copy);
    copied = !f->dropped;
    if (copied)
        memcpy(to, piece, n);
    pthread_mutex_unlock(&t->copy);
    return copied;
}

enum loaded {
    LOADED,
    LOAD_DROPPED,
    LOAD_BAD,
};

static enum loaded load_block(struct tier *t, struct fetch *f, uint32_t i)
{
    const struct inf_tier_place *p = &f->places[i];
    uint8_t *to = f->to[i - f->first];

    sum_begin(t->sum);
    for (uint64_t at = 0; at < p->size;) {
        const size_t n = (size_t)MIN(p->size - at, (uint64_t)TIER_PIECE_BYTES);

        if (!read_piece(p->fd, t->piece, n, p->offset + at))
            return LOAD_BAD;
        sum_add(t->sum, t->piece, n);
        if (!copy_piece(t, f, to + at, t->piece, n))
            return LOAD_DROPPED;
        at += n;
    }
    return sum_end(t->sum) == p->sum ? LOADED : LOAD_BAD;
}

/* Asks for the pages of blocks behind @i as far as they were not asked for, up to @*n_ahead. */
static void look_ahead(const struct tier *t, const struct fetch *f, uint32_t i, uint32_t *n_ahead)
{
    const uint64_t n = MAX(AHEAD_BYTES / t->params.block_bytes, 2u);

    for (*n_ahead = MAX(*n_ahead, i); *n_ahead < f->n_found && *n_ahead < i + n; ++*n_ahead) {
        const struct inf_tier_place *p = &f->places[*n_ahead];

        posix_fadvise(p->fd, (off_t)p->offset, (off_t)p->size, POSIX_FADV_WILLNEED);
    }
}

static void note_block(struct tier *t, struct fetch *f, uint64_t usec)
{
    pthread_mutex_lock(&t->lock);
    f->n_loaded++;
    t->counts.n_loaded++;
    t->counts.loaded_bytes += t->params.block_bytes;
    tier_pace_add(&t->reading, (double)t->params.block_bytes, (double)usec);
    pthread_mutex_unlock(&t->lock);
}

static void refuse_block(struct tier *t, const struct fetch *f, uint32_t i)
{
    pthread_mutex_lock(&t->lock);
    t->counts.n_bad++;
    pthread_mutex_unlock(&t->lock);
    t->params.impl->ops->reject(t->params.impl, f->names[i].bytes);
}

static void work_load(struct tier *t, struct fetch *f)
{
    const uint64_t begin = clock_usec();
    uint32_t n_found = f->n_found, n_ahead = 0;

    if (f->serial != t->serial) {
        const uint32_t n = find(t, f, f->first);

        n_found = MIN(n_found, n);
    }
    for (uint32_t i = f->first; i < n_found; i++) {
        const uint64_t at = clock_usec();
        enum loaded r;

        if ((double)(at - begin) > GRACE_USEC + (i - f->first + 1) * f->usec_a_block)
            break;
        look_ahead(t, f, i, &n_ahead);
        r = load_block(t, f, i);
        if (r == LOAD_BAD)
            refuse_block(t, f, i);
        if (r != LOADED)
            break;
        note_block(t, f, clock_usec() - at);
    }
    pthread_mutex_lock(&t->lock);
    f->state = FETCH_LOADED;
    pthread_mutex_unlock(&t->lock);
}

void tier_work_fetch(struct tier *t, struct fetch *f)
{
    bool orphan;

    if (!is_dropped(f)) {
        if (f->state == FETCH_ASKED)
            work_find(t, f);
        else
            work_load(t, f);
    }
    pthread_mutex_lock(&t->lock);
    f->at_work = false;
    orphan = f->orphan;
    pthread_mutex_unlock(&t->lock);
    if (orphan)
        free_fetch(f);
    t->params.news(t->params.data);
}
