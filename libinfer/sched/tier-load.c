/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds blocks in the tier (tier 2 of the KV cache, tier.h) and loads them for the fetches of the
 * engine. A mark is a border between blocks at which everything that is needed to resume computing
 * is kept (marks.c). graph/state.h explains the groups of the state, and kv/prefix.h the chains of
 * blocks.
 */
#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "sched/tier-impl.h"

/* The last LAST_MARKS borders of a found chain are all tried as marks. */
#define LAST_MARKS 4

static void free_fetch(struct fetch *f)
{
    tier_owner_unref(f->owner);
    free(f->chain);
    free(f->items);
    free(f->names);
    free(f->found);
    free(f->to);
    free(f->reads);
    free(f);
}

/* Returns the number of FULL groups, and sets *ret_others to the largest number of blocks that a
 * mark needs in the other groups. */
static uint32_t count_groups(const struct tier_params *p, uint64_t *ret_others)
{
    uint32_t n_full = 0;

    *ret_others = 0;
    for (uint32_t g = 0; g < p->layout->n_groups; g++) {
        const struct state_group *group = &p->layout->groups[g];

        n_full += group->rule == STATE_FULL;
        *ret_others += group->rule == STATE_RECURRENT;
        if (group->rule == STATE_WINDOW)
            *ret_others += DIV_UP((uint64_t)group->window, p->layout->block_tokens) + 1;
    }
    return n_full;
}

uint32_t tier_max_ask(const struct tier *t)
{
    uint64_t n_others;
    const uint32_t n_full = count_groups(&t->params, &n_others);

    if (n_others >= INF_TIER_MAX_NAMES)
        return 0;
    return (uint32_t)(INF_TIER_MAX_NAMES - n_others) / MAX(n_full, 1);
}

static bool alloc_fetch(const struct tier *t, struct fetch *f, uint32_t n)
{
    uint64_t n_others;
    const uint32_t n_full = count_groups(&t->params, &n_others);

    f->cap = n * MAX(n_full, 1) + (uint32_t)n_others;
    f->chain = NEW(struct kv_name, f->first_block + n);
    f->items = NEW(struct fetch_item, f->cap);
    f->names = NEW(struct kv_name, f->cap);
    f->found = NEW(struct inf_tier_found, f->cap);
    f->to = NEW(void *, f->cap);
    f->reads = NEW(uint8_t, f->cap);
    return f->chain && f->items && f->names && f->found && f->to && f->reads;
}

struct fetch *tier_ask(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                       uint32_t first, uint32_t n)
{
    struct fetch *f = NEW(struct fetch, 1);

    assert(n > 0 && n <= tier_max_ask(t));
    if (!f)
        return NULL;
    f->first_block = first;
    if (!alloc_fetch(t, f, n)) {
        free_fetch(f);
        return NULL;
    }
    memcpy(f->chain, names, (first + n) * sizeof(*names));
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

struct fetch_item fetch_item(const struct fetch *f, uint32_t i)
{
    assert(i < f->n_found);
    return f->items[i];
}

uint64_t fetch_bytes(const struct fetch *f, uint32_t first, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = first; i < first + n; i++)
        bytes += f->found[i].size;
    return bytes;
}

uint32_t fetch_mark(const struct fetch *f)
{
    return f->mark;
}

bool fetch_has_chain(const struct fetch *f)
{
    return f->has_chain;
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
            memset(f->to[i], 0, f->found[i].size);
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

/* Adds a block to the list of @f, which has @n blocks. */
static void add_item(const struct tier *t, struct fetch *f, uint32_t n, uint32_t i_group,
                     uint32_t i)
{
    assert(n < f->cap);
    f->items[n] = (struct fetch_item){i_group, i};
    tier_name(t, &f->chain[i], i_group, &f->names[n]);
}

/* Asks the tier how many of the list's blocks @first … @end - 1 it has. @is_guess: the border to
 * which these blocks belong may not be a mark. Checks the answer as far as possible without reading
 * the blocks. */
static uint32_t find_blocks(struct tier *t, struct fetch *f, uint32_t first, uint32_t end,
                            bool is_guess)
{
    struct inf_tier_origin origin = tier_origin(t, f->owner);
    struct inf_tier *impl = t->params.impl;
    uint32_t n = 0;
    int r;

    if (first == end)
        return 0;
    origin.is_guess = is_guess;
    r = impl->ops->find(impl, &origin, &f->names[first].bytes, end - first, f->found + first);
    tier_pause_note(t, &t->find_pause, r < 0);
    while (r > 0 && n < MIN((uint32_t)r, end - first) &&
           f->found[first + n].size == t->params.sizes[f->items[first + n].i_group])
        n++;
    return n;
}

/* Appends to the list of *@n blocks the blocks that the groups with the rule @rule need at the
 * border @mark. Then asks the tier for these blocks. Returns false if the tier does not have all of
 * them. */
static bool find_rule(struct tier *t, struct fetch *f, enum state_rule rule, uint32_t mark,
                      uint32_t *n)
{
    const struct kv_layout *layout = t->params.layout;

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint32_t begin = *n;
        uint32_t i = mark - 1;

        if (layout->groups[g].rule != rule)
            continue;
        if (rule == STATE_WINDOW)
            i = kv_pool_first_seen(layout, g, mark * layout->block_tokens);
        for (; i < kv_pool_last_seen(layout, g, mark); i++)
            add_item(t, f, (*n)++, g, i);
        if (find_blocks(t, f, begin, *n, true) < *n - begin)
            return false;
    }
    return true;
}

/* Finds the blocks that are needed to compute the tokens after the border @mark; the FULL blocks
 * are already listed and found. Returns their number; 0: the tier does not have all of them. */
static uint32_t find_mark(struct tier *t, struct fetch *f, uint32_t mark)
{
    uint64_t n_others;
    uint32_t n = (mark - f->first_block) * count_groups(&t->params, &n_others);

    return find_rule(t, f, STATE_WINDOW, mark, &n) && find_rule(t, f, STATE_RECURRENT, mark, &n)
               ? n
               : 0;
}

/* Lists the FULL blocks that @f asks for. Returns how many blocks of the chain the tier has in all
 * FULL groups; if there are no such groups, returns the number of blocks of the chain. */
static uint32_t find_chain(struct tier *t, struct fetch *f)
{
    const struct kv_layout *layout = t->params.layout;
    uint32_t n = 0;
    uint64_t n_others;

    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t g = 0; g < layout->n_groups; g++)
            if (layout->groups[g].rule == STATE_FULL)
                add_item(t, f, n++, g, f->first_block + i);
    return n > 0 ? find_blocks(t, f, 0, n, false) / count_groups(&t->params, &n_others) : f->n;
}

/* Returns the highest border below @mark that may be a mark. The last borders of the chain can be
 * the ends of prompts or texts. */
static uint32_t mark_before(const struct tier *t, uint32_t mark, uint32_t last)
{
    if (mark + LAST_MARKS > last + 1)
        return mark - 1;
    return (mark - 1) / t->params.mark_every * t->params.mark_every;
}

/* Finds the blocks of @f. Sets *ret_mark to the border at which a sequence can be resumed with
 * them. */
static uint32_t find_all(struct tier *t, struct fetch *f, uint32_t *ret_mark)
{
    const uint32_t last = f->first_block + find_chain(t, f);
    uint32_t n = 0, mark = last;

    f->has_chain = last == f->first_block + f->n;
    if (tier_is_plain(&t->params)) {
        *ret_mark = last;
        return last - f->first_block;
    }
    while (mark > f->first_block && (n = find_mark(t, f, mark)) == 0)
        mark = mark_before(t, mark, last);
    *ret_mark = mark;
    return n;
}

static void work_find(struct tier *t, struct fetch *f)
{
    uint32_t n_found = 0, mark = f->first_block;

    if (atomic_load(&t->digest_state) == DIGEST_KNOWN)
        n_found = find_all(t, f, &mark);
    loop_thread_lock(&t->thread);
    f->n_found = n_found;
    f->mark = mark;
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
        tier_pace_add(&t->reading, (double)f->found[f->first + i].size, usec / f->n_loaded);
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
