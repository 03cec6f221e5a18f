/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds blocks in the tier and loads them for the fetches of the engine.
 */
#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "sched/tier-impl.h"

static void free_fetch(struct fetch *f)
{
    tier_owner_unref(f->owner);
    free(f->names);
    free(f->found);
    free(f->to);
    free(f->reads);
    free(f);
}

struct fetch *tier_ask(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                       uint32_t n)
{
    struct fetch *f = NEW(struct fetch, 1);

    assert(n > 0 && n <= INF_TIER_MAX_NAMES);
    if (!f)
        return NULL;
    f->names = NEW(struct kv_name, n);
    f->found = NEW(struct inf_tier_found, n);
    f->to = NEW(void *, n);
    f->reads = NEW(uint8_t, n);
    if (!f->names || !f->found || !f->to || !f->reads) {
        free_fetch(f);
        return NULL;
    }
    memcpy(f->names, names, n * sizeof(*names));
    f->n = n;
    f->tier = t;
    f->owner = tier_owner_ref(owner);
    f->queued = true;
    loop_thread_lock(&t->thread);
    *t->fetches_end = f;
    t->fetches_end = &f->after;
    t->counts.n_asked += n;
    loop_thread_wake(&t->thread);
    loop_thread_unlock(&t->thread);
    return f;
}

enum fetch_state fetch_look(const struct fetch *f, uint32_t *ret_n_found, uint32_t *ret_n_loaded)
{
    enum fetch_state state;

    loop_thread_lock(&f->tier->thread);
    state = f->state;
    *ret_n_found = f->n_found;
    *ret_n_loaded = f->n_loaded;
    loop_thread_unlock(&f->tier->thread);
    return state;
}

void fetch_load(struct fetch *f, uint32_t first, uint32_t n, void *const *to, double usec)
{
    struct tier *t = f->tier;

    assert(f->state == FETCH_FOUND || f->state == FETCH_LOADED);
    assert(first < f->n_found && n > 0 && n <= f->n_found - first);
    memcpy(f->to + first, to, n * sizeof(*to));
    memset(f->reads + first, READ_NOT, n);
    f->first = f->next = first;
    f->end = first + n;
    f->n_loaded = 0;
    f->usec_a_block = usec;
    loop_thread_lock(&t->thread);
    f->state = FETCH_LOADING;
    f->queued = true;
    *t->fetches_end = f;
    t->fetches_end = &f->after;
    loop_thread_wake(&t->thread);
    loop_thread_unlock(&t->thread);
}

static void unqueue_fetch(struct tier *t, struct fetch *f)
{
    struct fetch **at = &t->fetches;

    while (*at != f)
        at = &(*at)->after;
    *at = f->after;
    if (!f->after)
        t->fetches_end = at;
    f->queued = false;
}

/* Clears the blocks that did not arrive completely. Their bytes may be anything, including NaN.
 * Attention multiplies the unused part of a block by zero, and zero times NaN is NaN. */
static void wipe_fetch(struct fetch *f)
{
    for (uint32_t i = f->first; i < f->next; i++)
        if (f->reads[i] != READ_WHOLE)
            memset(f->to[i], 0, f->tier->params.block_bytes);
}

struct fetch *fetch_drop(struct fetch *f)
{
    struct tier *t;

    if (!f)
        return NULL;
    t = f->tier;
    tier_read_drop(t, f);
    loop_thread_lock(&t->thread);
    if (f->queued)
        unqueue_fetch(t, f);
    wipe_fetch(f);
    /* If the tier's thread is working on the fetch, that thread frees it later. */
    f->orphan = f->at_work;
    if (f->at_work)
        f = NULL;
    loop_thread_unlock(&t->thread);
    if (f)
        free_fetch(f);
    return NULL;
}

/* Asks the tier how many of the first blocks of @f it has. Checks the answer as far as possible
 * without reading the blocks. */
static uint32_t find_blocks(struct tier *t, struct fetch *f)
{
    const struct inf_tier_origin origin = tier_origin(t, f->owner);
    struct inf_tier *impl = t->params.impl;
    uint32_t n = 0;
    int r;

    r = impl->ops->find(impl, &origin, &f->names[0].bytes, f->n, f->found);
    tier_pause_note(t, &t->find_pause, r < 0);
    while (r > 0 && n < MIN((uint32_t)r, f->n) && f->found[n].size == t->params.block_bytes)
        n++;
    return n;
}

static void work_find(struct tier *t, struct fetch *f)
{
    uint32_t n_found = 0;

    if (!f->has_names)
        for (uint32_t i = 0; i < f->n; i++)
            tier_name(t, &f->names[i], &f->names[i]);
    f->has_names = true;
    if (atomic_load(&t->digest_state) == DIGEST_KNOWN)
        n_found = find_blocks(t, f);
    loop_thread_lock(&t->thread);
    f->n_found = n_found;
    f->state = FETCH_FOUND;
    t->counts.n_found += n_found;
    loop_thread_unlock(&t->thread);
}

/* Ends a load: reports wrong blocks to the tier, and records the time of the load. The time is
 * recorded even if no block arrived. */
static void end_load(struct tier *t, struct fetch *f)
{
    const double usec = (double)(clock_usec() - f->begin_usec);

    for (uint32_t i = f->first; i < f->next; i++)
        if (f->reads[i] == READ_BAD) {
            loop_thread_lock(&t->thread);
            t->counts.n_bad++;
            loop_thread_unlock(&t->thread);
            t->params.impl->ops->reject(t->params.impl, f->names[i].bytes);
        }
    loop_thread_lock(&t->thread);
    for (uint32_t i = 0; i < f->n_loaded; i++)
        tier_pace_add(&t->reading, (double)t->params.block_bytes, usec / f->n_loaded);
    if (f->n_loaded == 0)
        tier_pace_add(&t->reading, 0, usec);
    f->state = FETCH_LOADED;
    loop_thread_unlock(&t->thread);
}

static void work_load(struct tier *t, struct fetch *f)
{
    f->begin_usec = clock_usec();
    tier_read_blocks(t, f);
    end_load(t, f);
}

void tier_work_fetch(struct tier *t, struct fetch *f)
{
    bool orphan;

    if (!tier_read_is_dropped(t, f)) {
        if (f->state == FETCH_ASKED)
            work_find(t, f);
        else
            work_load(t, f);
    }
    loop_thread_lock(&t->thread);
    f->at_work = false;
    orphan = f->orphan;
    loop_thread_unlock(&t->thread);
    if (orphan)
        free_fetch(f);
    t->params.news(t->params.data);
}
