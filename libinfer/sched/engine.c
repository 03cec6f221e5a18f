/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends the engine thread, fills its inbox, and calls the parts of a tick in order. A
 * tick is one round of the thread's work (sched_tick()).
 *
 * Callers and the thread share two things: the inbox, which the lock of the thread protects, and
 * the event queue, which has a lock of its own. The thread holds neither lock during a step. "The
 * tier" is tier 2 of the KV cache, which keeps blocks on disk (tier.h).
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/histogram.h"
#include "sched/sched.h"

#define FADE_USEC     5e6 /* time constant of the reported speeds */
#define RETRY_MSEC    10
#define LOSS_USEC     250000 /* first pause before a lost device is opened again */
#define REST_SEC      2      /* time without work until memory is returned to the system */
#define FLUSH_MSEC    4000   /* time to store blocks in the tier when the engine ends */
#define SNAP_EVERY    32     /* blocks between the snapshots of a long prompt */
#define LOAD_MARGIN   1.25
#define LANDING_BYTES (64u << 20)
/* These times apply while no steps run. IDLE_USEC is the pause before all blocks are copied to the
 * tier; it is not zero, because the next request may come soon. SPILL_USEC is the pause before a
 * tier that took no blocks is tried again. */
#define IDLE_USEC  250000
#define SPILL_USEC 250000

/* Lists the tokens that end a text. */
static int list_eog(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_vocab; i++)
        s->n_eog += (inf_tokenizer_token_flags(s->tok, (int32_t)i) & INF_TOKEN_EOG) != 0;
    s->eog = NEW(int32_t, s->n_eog);
    if (!s->eog)
        return -ENOMEM;
    for (uint32_t i = 0, n = 0; n < s->n_eog; i++)
        if ((inf_tokenizer_token_flags(s->tok, (int32_t)i) & INF_TOKEN_EOG) != 0)
            s->eog[n++] = (int32_t)i;
    return 0;
}

static struct mark_rules mark_rules(const struct kv_pool *pool)
{
    return (struct mark_rules){
        .is_plain = kv_pool_layout(pool)->n_groups == 1 && kv_pool_has_rule(pool, STATE_FULL),
        .has_chain = kv_pool_has_rule(pool, STATE_FULL),
        .has_windows = kv_pool_has_rule(pool, STATE_WINDOW),
        .has_snapshots = kv_pool_has_rule(pool, STATE_RECURRENT),
        .every = SNAP_EVERY,
    };
}

static uint32_t main_blocks(const struct kv_pool *pool)
{
    return kv_pool_layout(pool)->n_blocks[kv_pool_main_group(pool)];
}

int sched_new(struct runner **runner, const struct inf_tokenizer *tok,
              const struct sched_limits *limits, struct sched **ret_sched)
{
    _cleanup_(sched_freep) struct sched *s = NEW(struct sched, 1);
    int r;

    if (!s)
        return -ENOMEM;
    loop_thread_init(&s->thread);
    s->events.fd = -1;
    s->inbox_end = &s->inbox;
    s->next_id = 1;
    s->tok = tok;
    s->limits = *limits;
    s->files = limits->files;
    s->loss.pause_usec = LOSS_USEC;
    s->n_vocab = MIN((*runner)->n_vocab, inf_tokenizer_n_vocab(tok));
    s->marks = mark_rules((*runner)->pool);
    s->stats.n_blocks = main_blocks((*runner)->pool);
    assert((*runner)->limits.max_seqs >= limits->max_seqs);
    assert((*runner)->limits.max_logits >= limits->max_seqs);
    assert((*runner)->limits.max_rows >= limits->max_seqs);
    assert(!s->marks.has_chain ||
           (uint64_t)s->stats.n_blocks * kv_pool_block_tokens((*runner)->pool) >= limits->n_ctx);

    r = events_init(&s->events);
    if (r < 0)
        return r;
    r = samplers_new((*runner)->backend->ops->n_threads((*runner)->backend), s->n_vocab,
                     (*runner)->n_vocab, &s->samplers);
    if (r < 0)
        return r;
    breakers_init(&s->breakers, tok, s->n_vocab);
    r = list_eog(s);
    if (r < 0)
        return r;
    r = masks_init(&s->masks, (*runner)->limits.max_logits);
    if (r < 0)
        return r;
    r = step_init(&s->step, &(*runner)->limits);
    if (r < 0)
        return r;
    s->running = NEW(struct seq *, limits->max_seqs);
    if (!s->running)
        return -ENOMEM;
    if (limits->speculation != SPECULATION_OFF) {
        r = speculation_new(limits->speculation, limits->max_draft, (*runner)->limits.max_seqs,
                            &s->speculation);
        if (r < 0)
            return r;
        sched_init_drafts(s, *runner);
    }
    s->runner = STEAL(*runner);
    *ret_sched = STEAL(s);
    return 0;
}

int sched_add_drafter(struct sched *s, struct runner **runner)
{
    assert(s->speculation && !s->speculation->drafter && !s->thread.is_started);
    assert((*runner)->limits.max_seqs >= s->limits.max_seqs);
    return drafter_new(runner, s->n_vocab, &s->speculation->drafter);
}

/* Wakes the engine because the tier has news. The thread of the tier calls this function. */
static void take_news(void *data)
{
    struct sched *s = data;

    loop_thread_lock(&s->thread);
    s->news = true;
    loop_thread_wake(&s->thread);
    loop_thread_unlock(&s->thread);
}

int sched_add_tier(struct sched *s, const struct tier_params *params, double first_tok_s)
{
    struct tier_params p = *params;
    int r;

    assert(!s->tier && !s->thread.is_started);
    p.layout = kv_pool_layout(s->runner->pool);
    p.mark_every = s->marks.every;
    for (uint32_t g = 0; g < p.layout->n_groups; g++)
        p.sizes[g] = kv_pool_group_bytes(s->runner->pool, g);
    if (s->limits.no_prefix_cache || p.sizes[0] == 0)
        return -EOPNOTSUPP;
    p.format = s->runner->backend->ops->kv_format(s->runner->backend);
    p.news = take_news;
    p.data = s;
    r = keep_init(&s->keep, s->runner->pool);
    if (r < 0)
        return r;
    s->fetching = (struct fetching){
        .first_tok_s = first_tok_s, .margin = LOAD_MARGIN, .landing = LANDING_BYTES};
    s->spill.grace_usec = IDLE_USEC;
    return tier_new(&p, &s->tier);
}

static void free_requests(struct request *first, bool inbox)
{
    struct request *next;

    for (; first; first = next) {
        next = inbox ? first->next_in : first->next;
        request_free(first);
    }
}

struct sched *sched_free(struct sched *s)
{
    if (!s)
        return NULL;
    loop_thread_stop(&s->thread);
    free_requests(s->live, false);
    free_requests(s->inbox, true);
    sched_flush(s, FLUSH_MSEC);
    tier_batch_free(s->spill.batch);
    s->tier = tier_free(s->tier);
    keep_done(&s->keep);
    events_done(&s->events);
    step_done(&s->step);
    samplers_free(s->samplers);
    masks_done(&s->masks);
    speculation_free(s->speculation);
    breakers_done(&s->breakers);
    free(s->eog);
    free(s->running);
    s->runner = runner_free(s->runner);
    loop_thread_done(&s->thread);
    free(s);
    return NULL;
}

static int make_request(struct sched *s, const struct inf_request *in, struct request **ret_request)
{
    const struct request_limits limits = {s->limits.n_ctx, s->eog, s->n_eog, s->tok};
    _cleanup_(request_freep) struct request *req = NULL;
    int r;

    r = request_new(in, &limits, &req);
    if (r < 0)
        return r;
    if (dry_is_on(&req->sampling.dry)) {
        r = breakers_find(&s->breakers, in->sampling.dry_breakers, in->sampling.n_dry_breakers,
                          &req->sampling.dry.breakers);
        if (r < 0)
            return r;
    }
    if (!s->limits.no_prefix_cache && !in->no_cache) {
        r = request_name_blocks(req, in, &s->limits.origin, kv_pool_block_tokens(s->runner->pool));
        if (r < 0)
            return r;
        r = s->tier ? request_name_owner(req, in) : 0;
        if (r < 0)
            return r;
    }
    *ret_request = STEAL(req);
    return 0;
}

int sched_submit(struct sched *s, const struct inf_request *in, uint64_t *ret_id)
{
    struct request *req;
    uint32_t room;
    int r;

    loop_thread_lock(&s->thread);
    /* Requests that can start at once do not count against the limit of the queue, although they
     * pass through the queue. */
    room = s->limits.max_queue;
    if (s->n_active < s->limits.max_seqs)
        room += s->limits.max_seqs - s->n_active;
    r = s->n_queued < room ? 0 : INF_ENGINE_FULL;
    if (r == 0)
        s->n_queued++;
    else
        s->stats.n_rejected++;
    loop_thread_unlock(&s->thread);
    if (r != 0)
        return r;

    r = make_request(s, in, &req);
    loop_thread_lock(&s->thread);
    if (r < 0) {
        s->n_queued--;
    } else {
        *ret_id = req->id = s->next_id++;
        *s->inbox_end = req;
        s->inbox_end = &req->next_in;
        s->stats.n_requests++;
        s->stats.n_waiting += req->n_choices;
        loop_thread_wake(&s->thread);
    }
    loop_thread_unlock(&s->thread);
    return r;
}

void sched_cancel(struct sched *s, uint64_t id)
{
    struct request *req;

    loop_thread_lock(&s->thread);
    for (req = s->live; req && req->id != id; req = req->next)
        ;
    if (!req)
        for (req = s->inbox; req && req->id != id; req = req->next_in)
            ;
    if (req) {
        atomic_store(&req->cancelled, true);
        s->cancel_pending = true;
        loop_thread_wake(&s->thread);
    }
    loop_thread_unlock(&s->thread);
}

static void count_tier(struct tier *t, struct inf_engine_stats *stats)
{
    struct tier_counts counts;

    tier_count(t, &counts);
    stats->has_tier = true;
    stats->n_tier_loaded = counts.n_loaded;
    stats->tier_loaded_bytes = counts.loaded_bytes;
    stats->n_tier_kept = counts.n_kept;
    stats->tier_kept_bytes = counts.kept_bytes;
    stats->n_tier_bad = counts.n_bad;
    stats->n_tier_failed = counts.n_failed;
}

void sched_stats(struct sched *s, struct inf_engine_stats *ret_stats)
{
    loop_thread_lock(&s->thread);
    *ret_stats = s->stats;
    loop_thread_unlock(&s->thread);
    if (s->tier)
        count_tier(s->tier, ret_stats);
}

/* Moves new requests to the live list. Returns true if a cancellation is pending. */
static bool take_inbox(struct sched *s)
{
    struct request *req, *first;
    bool cancel;

    loop_thread_lock(&s->thread);
    first = s->inbox;
    s->inbox = NULL;
    s->inbox_end = &s->inbox;
    cancel = s->cancel_pending;
    s->cancel_pending = false;
    for (req = first; req; req = req->next_in) {
        req->next = s->live;
        if (s->live)
            s->live->prev = req;
        s->live = req;
    }
    loop_thread_unlock(&s->thread);

    for (req = first; req; req = req->next_in)
        for (uint32_t i = 0; i < req->n_choices; i++) {
            req->seqs[i].age = s->next_age++;
            sched_enqueue(s, &req->seqs[i]);
            sched_ask(s, &req->seqs[i]);
        }
    return cancel;
}

static void fade_speed(double *tokens, double *usec, uint32_t n, uint64_t step_usec)
{
    const double keep = exp(-(double)step_usec / FADE_USEC);

    if (n == 0)
        return;
    *tokens = *tokens * keep + n;
    *usec = *usec * keep + (double)step_usec;
}

/* Returns the number of tokens that a part chose. */
static uint32_t part_n_tokens(const struct step *step, const struct step_part *part)
{
    if (part->n_picked == 0)
        return 0;
    return part->n_picked - (step_pick(step, part, part->n_picked - 1)->status != 0);
}

/* Counts the times of new tokens and the size of the step. The caller holds the lock. */
static void count_times(struct sched *s)
{
    const struct step *step = &s->step;
    const uint64_t now = clock_usec();

    histogram_add(&s->stats.step_tokens, INF_HISTOGRAM_NUMBER,
                  (double)step->n_prompt_rows + step->n_decode_rows + step->n_draft_rows);
    histogram_add(&s->stats.step_seqs, INF_HISTOGRAM_NUMBER, step->n_parts);
    for (uint32_t i = 0; i < step->n_parts; i++) {
        struct seq *seq = step->parts[i].seq;
        const uint32_t n = part_n_tokens(step, &step->parts[i]);
        const uint64_t since = seq->token_usec > 0 ? seq->token_usec : seq->req->submit_usec;

        /* Tokens of one step share the time since the sequence's last token. */
        for (uint32_t k = 0; seq->token_usec > 0 && k < n; k++)
            histogram_add(&s->stats.next_token_seconds, INF_HISTOGRAM_SECONDS,
                          (double)(now - since) * 1e-6 / n);
        if (n > 0 && seq->token_usec == 0)
            histogram_add(&s->stats.first_token_seconds, INF_HISTOGRAM_SECONDS,
                          (double)(now - since) * 1e-6);
        if (n > 0)
            seq->token_usec = now;
    }
}

static void count_step(struct sched *s)
{
    const struct step *step = &s->step;
    uint32_t n_sampled = 0, n_decoded = step->n_decode_rows;

    for (uint32_t i = 0; i < step->n_parts; i++) {
        n_sampled += part_n_tokens(step, &step->parts[i]);
        n_decoded += MAX(step->parts[i].n_picked, 1u) - 1;
    }
    sched_note_step(s, n_sampled);
    fade_speed(&s->prefill_tokens, &s->prefill_usec, step->n_prompt_rows, step->usec);
    fade_speed(&s->decode_tokens, &s->decode_usec, n_decoded, step->usec);
    loop_thread_lock(&s->thread);
    count_times(s);
    sched_count_drafts(s);
    s->stats.n_steps++;
    s->stats.n_prompt_tokens += step->n_prompt_rows;
    s->stats.n_generated_tokens += n_sampled;
    s->stats.busy_seconds += (double)step->usec * 1e-6;
    if (s->prefill_usec > 0)
        s->stats.prefill_tok_s = s->prefill_tokens * 1e6 / s->prefill_usec;
    if (s->decode_usec > 0)
        s->stats.decode_tok_s = s->decode_tokens * 1e6 / s->decode_usec;
    loop_thread_unlock(&s->thread);
}

/* Adds the bytes of the blocks that sequences use, and of those that are kept for later. */
static void add_bytes(const struct kv_pool *pool, uint64_t *used, uint64_t *idle)
{
    const struct kv_layout *layout = kv_pool_layout(pool);

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t size = kv_layout_block_bytes(layout, g);

        *used += size * (layout->n_blocks[g] - kv_pool_group_free(pool, g));
        *idle += size * kv_pool_group_idle(pool, g);
    }
}

static void count_state(struct sched *s)
{
    const uint32_t i_group = kv_pool_main_group(s->runner->pool);

    loop_thread_lock(&s->thread);
    s->stats.kv_used_bytes = s->stats.kv_idle_bytes = 0;
    add_bytes(s->runner->pool, &s->stats.kv_used_bytes, &s->stats.kv_idle_bytes);
    if (s->speculation && s->speculation->drafter && !s->speculation->drafter->runner->shares_pool)
        add_bytes(s->speculation->drafter->runner->pool, &s->stats.kv_used_bytes,
                  &s->stats.kv_idle_bytes);
    s->stats.n_waiting = s->n_waiting;
    s->stats.n_running = s->n_running;
    s->stats.n_blocks_used = s->stats.n_blocks - kv_pool_group_free(s->runner->pool, i_group);
    s->stats.n_blocks_idle = kv_pool_group_idle(s->runner->pool, i_group);
    s->stats.n_tier_refused = s->fetching.n_refused;
    loop_thread_unlock(&s->thread);
}

static void run_step(struct sched *s)
{
    const int r = sched_step(s);

    if (r == 0) {
        sched_emit(s);
        count_step(s);
        sched_check_ends(s);
    } else if (file_set_check(&s->files, NULL) < 0) {
        sched_end_stale(s);
    } else if (r == -ENODEV && s->runner->backend->ops->recover) {
        sched_lose_device(s);
    } else {
        sched_fail_running(s, INF_FINISH_ERROR, "the device failed");
        kv_pool_forget(s->runner->pool);
    }
}

bool sched_tick(struct sched *s)
{
    bool again;

    if (take_inbox(s)) {
        sched_apply_cancels(s);
        /* Send the events now, because the step that follows may take a while. */
        sched_retire(s);
        events_flush(&s->events);
    }
    s->await_usec = 0;
    if (UNLIKELY(file_set_is_lost(&s->files)))
        sched_end_stale(s);
    if (sched_has_device(s)) {
        sched_admit(s);
        events_flush(&s->events);
        sched_make_room(s);
        if (s->tier)
            sched_fetch(s);
        /* A load that has ended changes which blocks the next token needs. */
        if (s->tier && !s->marks.is_plain)
            sched_make_room(s);
        if (sched_pick_ready(s)) {
            s->await_usec = 0;
            run_step(s);
            sched_spill_busy(s);
        }
    }
    again = sched_retire(s);
    /* Update the counts before the events leave, so that a client that has read the last event sees
     * the final statistics. */
    count_state(s);
    again |= !events_flush(&s->events);
    return again || s->n_running > 0 || s->n_waiting > 0;
}

static bool take_rest(struct sched *s)
{
    loop_thread_unlock(&s->thread);
    runner_rest(s->runner);
    if (s->speculation && s->speculation->drafter)
        runner_rest(s->speculation->drafter->runner);
    if (s->tier)
        tier_rest(s->tier);
    loop_thread_lock(&s->thread);
    return true;
}

/* Waits until the time @usec. A new request, a cancellation, or a request to end the thread ends
 * the wait earlier; if @news is set, so does news of the tier. */
static void await_until(struct sched *s, uint64_t usec, bool news)
{
    bool go_on = true;

    loop_thread_lock(&s->thread);
    while (go_on && !s->thread.stop && !s->inbox && !s->cancel_pending && !(news && s->news))
        go_on = loop_thread_wait_until(&s->thread, usec);
    s->news = false;
    loop_thread_unlock(&s->thread);
}

/* Waits for work, unless @busy says that there is work. Returns false when the thread must end. */
static bool await_work(struct sched *s, bool busy)
{
    const uint64_t rest_usec = clock_usec() + REST_SEC * 1000000;
    bool go_on, resting = false;

    loop_thread_lock(&s->thread);
    while (!busy && !s->thread.stop && !s->inbox && !s->cancel_pending && !s->news) {
        if (resting)
            loop_thread_wait(&s->thread);
        else if (!loop_thread_wait_until(&s->thread, rest_usec))
            resting = take_rest(s);
    }
    if (!busy)
        s->news = false;
    go_on = !s->thread.stop;
    loop_thread_unlock(&s->thread);
    return go_on;
}

/* Does the work between ticks. Returns whether the thread has more to do without waiting for new
 * work. */
static bool pause_thread(struct sched *s, bool busy)
{
    const struct timespec retry = {0, RETRY_MSEC * 1000000L};
    enum spilled r;

    if (busy) {
        if (s->loss.lost)
            await_until(s, s->loss.retry_usec, false);
        else if (s->await_usec > 0)
            await_until(s, s->await_usec, true);
        else if (s->n_running == 0 && s->n_waiting == 0)
            nanosleep(&retry, NULL); /* only events are left, for which there was not enough memory:
                                        retry soon */
        return true;
    }
    r = sched_spill_idle(s);
    if (r == SPILL_LATER)
        await_until(s, clock_usec() + SPILL_USEC, true);
    return r != SPILLED_ALL;
}

static void run_thread(void *arg)
{
    struct sched *s = arg;
    bool busy = false;

    while (await_work(s, busy)) {
        busy = sched_tick(s);
        if (s->tier)
            tier_set_busy(s->tier, busy);
        busy = pause_thread(s, busy);
    }
}

int sched_start(struct sched *s)
{
    int r = s->tier ? tier_start(s->tier) : 0;

    if (r == 0)
        r = masks_start(&s->masks);
    return r < 0 ? r : loop_thread_start(&s->thread, "infer-engine", run_thread, s);
}
