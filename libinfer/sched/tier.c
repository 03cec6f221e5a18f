/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the thread and the queues of the tier (tier 2 of the KV cache, tier.h).
 *
 * The thread takes its work in this order: asking the tier for digests of files; hashing, if few
 * bytes are left to hash; fetches of the engine; hashing, if many bytes are left; notes of used
 * blocks; storing of blocks; preparing an empty batch.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "sched/tier-impl.h"

#define MAX_USED        64     /* largest number of waiting notes about used blocks */
#define FIRST_READ      1000.0 /* bytes per microsecond, assumed until the speed is measured */
#define FIRST_READ_SIZE 64e6
#define PAUSE_USEC      100000 /* first pause after a failed call */
#define MAX_PAUSE_USEC  10000000

struct tier_owner *tier_owner_new(const char *tenant, const char *session)
{
    const size_t n_tenant = tenant ? strlen(tenant) + 1 : 1;
    const size_t n_session = session ? strlen(session) + 1 : 0;
    struct tier_owner *o = calloc(1, sizeof(*o) + n_tenant + n_session);

    if (!o)
        return NULL;
    atomic_init(&o->n_refs, 1);
    memcpy(o->text, tenant ? tenant : "", n_tenant);
    o->tenant = o->text;
    if (session)
        o->session = memcpy(o->text + n_tenant, session, n_session);
    return o;
}

struct tier_owner *tier_owner_ref(struct tier_owner *o)
{
    if (o)
        atomic_fetch_add_explicit(&o->n_refs, 1, memory_order_relaxed);
    return o;
}

struct tier_owner *tier_owner_unref(struct tier_owner *o)
{
    if (o && atomic_fetch_sub(&o->n_refs, 1) == 1)
        free(o);
    return NULL;
}

int tier_new(const struct tier_params *params, struct tier **ret_tier)
{
    struct tier *t = NEW(struct tier, 1);

    assert(params->layout && params->sizes[0] > 0 && params->impl && params->news);
    if (!t)
        return -ENOMEM;
    t->params = *params;
    loop_thread_init(&t->thread);
    t->fetches_end = &t->fetches;
    t->used_end = &t->used;
    t->batches_end = &t->batches;
    t->reading = (struct tier_pace){FIRST_READ_SIZE, FIRST_READ_SIZE / FIRST_READ};
    if (tier_readers_init(t) < 0) {
        tier_free(t);
        return -ENOMEM;
    }
    *ret_tier = t;
    return 0;
}

static void stop_threads(struct tier *t)
{
    if (!t->thread.is_started)
        return;
    loop_thread_stop(&t->thread);
    tier_helper_stop(t);
}

static void free_batches(struct tier_batch *b)
{
    while (b) {
        struct tier_batch *next = b->next;

        tier_batch_free(b);
        b = next;
    }
}

struct tier *tier_free(struct tier *t)
{
    if (!t)
        return NULL;
    stop_threads(t);
    assert(!t->fetches);
    while (t->used) {
        struct used *next = t->used->next;

        tier_owner_unref(t->used->owner);
        free(t->used);
        t->used = next;
    }
    free_batches(t->batches);
    free_batches(t->over);
    free_batches(t->spare);
    tier_readers_done(t);
    loop_thread_done(&t->thread);
    free(t);
    return NULL;
}

void tier_count(struct tier *t, struct tier_counts *ret_counts)
{
    loop_thread_lock(&t->thread);
    *ret_counts = t->counts;
    loop_thread_unlock(&t->thread);
}

void tier_set_busy(struct tier *t, bool busy)
{
    atomic_store_explicit(&t->busy, busy, memory_order_relaxed);
}

void tier_pause_note(struct tier *t, struct tier_pause *p, bool failed)
{
    loop_thread_lock(&t->thread);
    if (failed) {
        p->usec = p->usec > 0 ? MIN(2 * p->usec, MAX_PAUSE_USEC) : PAUSE_USEC;
        p->until_usec = clock_usec() + p->usec;
        t->counts.n_failed++;
    } else {
        *p = (struct tier_pause){0};
    }
    loop_thread_unlock(&t->thread);
}

static bool is_paused(struct tier *t, const struct tier_pause *p)
{
    bool paused;

    loop_thread_lock(&t->thread);
    paused = p->until_usec > 0 && clock_usec() < p->until_usec;
    loop_thread_unlock(&t->thread);
    return paused;
}

/* Returns whether the digest is unknown, and the tier is not asked for it yet because the last call
 * failed. */
static bool is_away(struct tier *t)
{
    return atomic_load(&t->digest_state) == DIGEST_NEW && is_paused(t, &t->find_pause);
}

bool tier_is_ready(struct tier *t)
{
    const int state = atomic_load(&t->digest_state);

    return state != DIGEST_HASHING && state != DIGEST_LOST && !is_paused(t, &t->find_pause);
}

bool tier_may_keep(struct tier *t)
{
    return atomic_load(&t->digest_state) == DIGEST_KNOWN && !is_paused(t, &t->put_pause);
}

bool tier_is_down(struct tier *t)
{
    const int state = atomic_load(&t->digest_state);
    bool down;

    loop_thread_lock(&t->thread);
    down = t->put_pause.usec >= MAX_PAUSE_USEC || state == DIGEST_LOST ||
           (state == DIGEST_NEW && t->find_pause.usec > 0);
    loop_thread_unlock(&t->thread);
    return down;
}

double tier_load_usec(struct tier *t, uint64_t n_bytes)
{
    double usec;

    loop_thread_lock(&t->thread);
    usec = t->reading.usec / t->reading.n * (double)n_bytes;
    loop_thread_unlock(&t->thread);
    return usec;
}

double tier_keep_usec(struct tier *t)
{
    double usec;

    loop_thread_lock(&t->thread);
    usec = t->keeping.n > 0 ? t->keeping.usec / t->keeping.n : 0;
    loop_thread_unlock(&t->thread);
    return usec;
}

void tier_name(const struct tier *t, const struct kv_name *name, uint32_t i_group,
               struct kv_name *ret_name)
{
    struct kv_name own;

    kv_name_group(name, i_group, &own);
    kv_name_stored(t->digest, t->params.format, &own, ret_name);
}

struct inf_tier_origin tier_origin(const struct tier *t, const struct tier_owner *owner)
{
    return (struct inf_tier_origin){
        .model = t->params.model,
        .codec = t->params.codec,
        .tenant = owner->tenant,
        .session = owner->session,
    };
}

void tier_note_used(struct tier *t, struct tier_owner *owner, const struct kv_name *names,
                    uint32_t n, uint32_t i_group)
{
    struct used *u;

    if (n == 0 || atomic_load(&t->digest_state) != DIGEST_KNOWN)
        return;
    u = malloc(sizeof(*u) + n * sizeof(u->names[0]));
    if (!u)
        return;
    *u = (struct used){.owner = tier_owner_ref(owner), .n = n, .i_group = i_group};
    memcpy(u->names, names, n * sizeof(u->names[0]));
    loop_thread_lock(&t->thread);
    if (t->n_used < MAX_USED) {
        *t->used_end = u;
        t->used_end = &u->next;
        t->n_used++;
        u = NULL;
        loop_thread_wake(&t->thread);
    }
    loop_thread_unlock(&t->thread);
    if (u) {
        tier_owner_unref(u->owner);
        free(u);
    }
}

static bool work_used(struct tier *t)
{
    struct inf_tier_origin origin;
    struct used *u;

    loop_thread_lock(&t->thread);
    u = t->used;
    if (u) {
        t->used = u->next;
        t->n_used--;
        if (!t->used)
            t->used_end = &t->used;
    }
    loop_thread_unlock(&t->thread);
    if (!u)
        return false;
    origin = tier_origin(t, u->owner);
    for (uint32_t i = 0; i < u->n; i++)
        tier_name(t, &u->names[i], u->i_group, &u->names[i]);
    for (uint32_t i = 0; i < u->n; i += INF_TIER_MAX_NAMES)
        t->params.impl->ops->used(t->params.impl, &origin, &u->names[i].bytes,
                                  MIN(u->n - i, (uint32_t)INF_TIER_MAX_NAMES));
    tier_owner_unref(u->owner);
    free(u);
    return true;
}

static bool work_fetch(struct tier *t)
{
    struct fetch *f;

    loop_thread_lock(&t->thread);
    f = t->fetches;
    if (f) {
        t->fetches = f->after;
        if (!t->fetches)
            t->fetches_end = &t->fetches;
        f->after = NULL;
        f->queued = false;
        f->at_work = true;
    }
    loop_thread_unlock(&t->thread);
    if (!f)
        return false;
    tier_work_fetch(t, f);
    return true;
}

static bool work_batch(struct tier *t)
{
    struct tier_batch *b;

    loop_thread_lock(&t->thread);
    b = t->batches;
    if (b) {
        t->batches = b->next;
        if (!t->batches)
            t->batches_end = &t->batches;
        b->next = NULL;
    }
    loop_thread_unlock(&t->thread);
    if (!b)
        return false;
    tier_work_batch(t, b);
    return true;
}

static bool work_spare(struct tier *t)
{
    struct tier_batch *b;
    bool wanted;

    loop_thread_lock(&t->thread);
    wanted = t->want_spare && !t->spare && t->n_batches < TIER_MAX_BATCHES;
    t->want_spare &= !wanted;
    loop_thread_unlock(&t->thread);
    if (!wanted)
        return false;
    b = tier_batch_new(t);
    if (!b) {
        tier_pause_note(t, &t->put_pause, true);
        return true;
    }
    loop_thread_lock(&t->thread);
    t->spare = b;
    loop_thread_unlock(&t->thread);
    t->params.news(t->params.data);
    return true;
}

bool tier_work(struct tier *t)
{
    if ((atomic_load(&t->digest_state) == DIGEST_NEW && !is_away(t)) || tier_digest_is_near(t))
        return tier_work_digest(t);
    return work_fetch(t) ||
           (atomic_load(&t->digest_state) == DIGEST_HASHING && tier_work_digest(t)) ||
           work_used(t) || work_batch(t) || work_spare(t);
}

/* Returns the time when the next bytes may be hashed, or 0 if there is nothing to hash. No other
 * thread requests hashing, so the tier's thread must wake by itself at this time. */
static uint64_t next_due(const struct tier *t)
{
    return atomic_load(&t->digest_state) == DIGEST_HASHING ? MAX(t->hash_usec, UINT64_C(1)) : 0;
}

/* Waits for requested work, or for the time when the next bytes may be hashed. Does not wait if
 * @worked is set. Returns false when the thread must end. */
static bool await_work(struct tier *t, bool worked)
{
    const uint64_t due = next_due(t);
    bool go_on, in_time = true;

    loop_thread_lock(&t->thread);
    while (!worked && in_time && !t->thread.stop && !t->fetches && !t->used && !t->batches &&
           !(t->want_spare && !t->spare && t->n_batches < TIER_MAX_BATCHES)) {
        if (due > 0)
            in_time = loop_thread_wait_until(&t->thread, due);
        else
            loop_thread_wait(&t->thread);
    }
    go_on = !t->thread.stop;
    loop_thread_unlock(&t->thread);
    return go_on;
}

static void run_thread(void *arg)
{
    struct tier *t = arg;
    bool worked = true;

    while (await_work(t, worked))
        worked = tier_work(t);
}

int tier_start(struct tier *t)
{
    int r = tier_helper_start(t);

    if (r < 0)
        return r;
    r = loop_thread_start(&t->thread, "infer-tier", run_thread, t);
    if (r < 0)
        tier_helper_stop(t);
    return r;
}
