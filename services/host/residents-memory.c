/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the memory of models, and makes room (see residents-memory.h). */
#include "host/residents-memory.h"

#include <stdio.h>

#include "common/service/log.h"
#include "core/clock.h"
#include "host/residents-spare.h"

/* The places and the memory that a set of residents takes. */
struct residents_use {
    uint32_t n;
    uint64_t host, device; /* in bytes */
};

static void use_add(struct residents_use *use, const struct resident *r)
{
    use->n++;
    use->host += r->host_bytes;
    use->device += r->device_bytes;
}

static void use_drop(struct residents_use *use, const struct resident *r)
{
    use->n--;
    use->host -= r->host_bytes;
    use->device -= r->device_bytes;
}

static bool is_within(uint64_t used, uint64_t more, uint64_t budget)
{
    return budget == 0 || more == 0 || (used <= budget && more <= budget - used);
}

/* Returns whether @r can be loaded beside what @use counts. */
static bool use_permits(const struct residents_use *use, const struct resident *r)
{
    const struct residents *pool = r->pool;

    return use->n < MAX(pool->max_models, 1u) &&
           is_within(use->host, r->host_bytes, pool->host_budget) &&
           is_within(use->device, r->device_bytes, pool->device_budget);
}

/* Counts what is in memory, including residents that only wait for the end of their last use. */
static struct residents_use use_of_all(const struct residents *pool)
{
    struct residents_use use = {0};

    for (const struct resident *r = pool->first; r; r = r->next)
        if (r->state == RESIDENT_READY)
            use_add(&use, r);
    for (const struct resident *r = pool->dropped; r; r = r->next)
        if (r->yields)
            use_add(&use, r);
    return use;
}

static struct residents_use use_of_pinned(const struct residents *pool)
{
    struct residents_use use = {0};

    for (const struct resident *r = pool->first; r; r = r->next)
        if (r->state == RESIDENT_READY && r->pinned)
            use_add(&use, r);
    return use;
}

/* --- models that never fit --- */

/* Writes a size, such as "1.5 GiB", for messages. */
static const char *size_text(uint64_t bytes, char text[32])
{
    if (bytes >= 1u << 30)
        snprintf(text, 32, "%.1f GiB", (double)bytes / (1u << 30));
    else
        snprintf(text, 32, "%.1f MiB", (double)bytes / (1u << 20));
    return text;
}

static int problem_of_memory(const struct resident *r, const char *where, uint64_t needed,
                             uint64_t budget, uint64_t pinned, struct problem *problem)
{
    const uint64_t room = budget - MIN(budget, pinned);
    char a[32], b[32], c[32], d[32], by_pinned[80] = "", advice[200] = "";

    if (pinned)
        snprintf(by_pinned, sizeof(by_pinned), ", of which pinned models take %s",
                 size_text(pinned, d));
    if (r->pool->ops->advise)
        r->pool->ops->advise(r, room, advice, sizeof(advice));
    return problem_set(problem, 507, "model_too_large", "model",
                       "The model '%.100s' needs %s of %s; the limit is %s%s, so %s are missing.%s",
                       r->name, size_text(needed, a), where, size_text(budget, b), by_pinned,
                       size_text(needed - room, c), advice);
}

int resident_settle(struct resident *r, struct problem *problem)
{
    const struct residents *pool = r->pool;
    const struct residents_use pinned = use_of_pinned(pool);
    const uint64_t host = pool->host_budget ? pool->host_budget : UINT64_MAX;

    if (pinned.n >= MAX(pool->max_models, 1u))
        return problem_set(problem, 507, "model_too_large", "model",
                           "The model '%.100s' cannot be loaded: pinned models take all %u places "
                           "of models in memory.",
                           r->name, pinned.n);
    if (!is_within(pinned.host, r->least_bytes, host))
        return problem_of_memory(r, "memory", r->least_bytes, host, pinned.host, problem);
    r->host_bytes = MIN(MAX(r->want_bytes, r->least_bytes), host - pinned.host);
    if (!is_within(pinned.device, r->device_bytes, pool->device_budget))
        return problem_of_memory(r, "the device's memory", r->device_bytes, pool->device_budget,
                                 pinned.device, problem);
    return 0;
}

/* --- making room --- */

/* Returns the ready resident that makes room first. If @in_use is false, this is the least recently
 * used resident without users; otherwise the resident with users that was loaded first. NULL: there
 * is none. */
static struct resident *residents_next_victim(const struct residents *pool, bool in_use)
{
    struct resident *victim = NULL;

    for (struct resident *r = pool->first; r; r = r->next) {
        if (r->state != RESIDENT_READY || r->pinned || (r->n_users > 0) != in_use)
            continue;
        if (!victim ||
            (in_use ? r->loaded_usec < victim->loaded_usec : r->used_usec < victim->used_usec))
            victim = r;
    }
    return victim;
}

/* Removes the resident @r, which is freed when @heir is loaded. */
static void resident_bequeath(struct resident *r, struct resident *heir)
{
    log_info("unloading %s", r->name);
    /* The watch belongs to the loop, so it is freed here, on the loop's thread. */
    r->watch = loop_watch_free(r->watch);
    resident_spare_keep(r);
    resident_unlink(r);
    r->next = heir->victims;
    heir->victims = r;
}

/* Chooses residents with users that get no new users, until @heir would have room without the
 * chosen residents. @use counts what is in memory, except for residents without users. */
static void residents_yield(struct residents *pool, const struct resident *heir,
                            struct residents_use use)
{
    struct resident *victim;

    /* Residents that yield already count as gone. */
    for (const struct resident *r = pool->dropped; r; r = r->next)
        if (r->yields)
            use_drop(&use, r);
    while (!use_permits(&use, heir) && (victim = residents_next_victim(pool, true))) {
        log_info("%s gets no new requests, because %s waits for its memory", victim->name,
                 heir->name);
        use_drop(&use, victim);
        resident_unlink(victim);
        victim->dropped = victim->yields = true;
        victim->next = pool->dropped;
        pool->dropped = victim;
    }
}

bool residents_make_room(struct residents *pool, struct resident *heir)
{
    struct residents_use use = use_of_all(pool), busy = use;
    struct resident *victim;

    for (const struct resident *r = pool->first; r; r = r->next)
        if (r->state == RESIDENT_READY && r->n_users == 0 && !r->pinned)
            use_drop(&busy, r);
    if (!use_permits(&busy, heir)) {
        if (clock_usec() - heir->since_usec >= RESIDENT_PATIENCE_USEC)
            residents_yield(pool, heir, busy);
        return false;
    }
    while (!use_permits(&use, heir) && (victim = residents_next_victim(pool, false))) {
        use_drop(&use, victim);
        resident_bequeath(victim, heir);
    }
    residents_spare_trim(pool, heir, use.host + heir->host_bytes);
    return true;
}
