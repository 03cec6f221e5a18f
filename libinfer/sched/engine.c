/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine thread: its making and end, its inbox, and the order of one tick.
 *
 * Callers and the thread meet in two places: the inbox under `lock`, and the event logs. The lock
 * is never held across a step.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "sched/sched.h"

#define FADE_USEC  5e6 /* speeds are those of the last seconds of work */
#define RETRY_MSEC 10
#define REST_SEC   2 /* without work: then memory goes back to the system */

static int samplers_new(struct sched *s, const struct runner *runner)
{
    const uint32_t n = runner->backend->ops->n_threads(runner->backend);
    int r;

    s->samplers = NEW(struct sampler *, n);
    if (!s->samplers)
        return -ENOMEM;
    for (; s->n_samplers < n; s->n_samplers++) {
        r = sampler_new(s->n_vocab, runner->n_vocab, &s->samplers[s->n_samplers]);
        if (r < 0)
            return r;
    }
    return 0;
}

int sched_new(struct runner **runner, const struct inf_tokenizer *tok,
              const struct sched_limits *limits, struct sched **ret_sched)
{
    _cleanup_(sched_freep) struct sched *s = NEW(struct sched, 1);
    pthread_condattr_t monotonic;
    int r;

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->events.fd = -1;
    s->inbox_end = &s->inbox;
    s->next_id = 1;
    s->tok = tok;
    s->limits = *limits;
    s->n_vocab = MIN((*runner)->n_vocab, inf_tokenizer_n_vocab(tok));
    s->stats.n_blocks = kv_pool_n_blocks((*runner)->pool);
    assert((*runner)->limits.max_seqs >= limits->max_seqs);
    assert((*runner)->limits.max_logits >= limits->max_seqs);
    assert((*runner)->limits.max_rows >= limits->max_seqs);
    assert((uint64_t)s->stats.n_blocks * kv_pool_block_tokens((*runner)->pool) >= limits->n_ctx);

    r = events_init(&s->events);
    if (r < 0)
        return r;
    r = samplers_new(s, *runner);
    if (r < 0)
        return r;
    r = step_init(&s->step, &(*runner)->limits);
    if (r < 0)
        return r;
    s->running = NEW(struct seq *, limits->max_seqs);
    if (!s->running)
        return -ENOMEM;
    s->runner = STEAL(*runner);
    *ret_sched = STEAL(s);
    return 0;
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
    if (s->has_thread) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    free_requests(s->live, false);
    free_requests(s->inbox, true);
    events_done(&s->events);
    step_done(&s->step);
    for (uint32_t i = 0; i < s->n_samplers; i++)
        sampler_free(s->samplers[i]);
    free(s->samplers);
    free(s->running);
    s->runner = runner_free(s->runner);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

int sched_submit(struct sched *s, const struct inf_request *in, uint64_t *ret_id)
{
    struct request *req;
    uint32_t room;
    int r;

    pthread_mutex_lock(&s->lock);
    /* Requests that can start at once are no queue, though they pass through it. */
    room = s->limits.max_queue;
    if (s->n_active < s->limits.max_seqs)
        room += s->limits.max_seqs - s->n_active;
    r = s->n_queued < room ? 0 : INF_ENGINE_FULL;
    if (r == 0)
        s->n_queued++;
    else
        s->stats.n_rejected++;
    pthread_mutex_unlock(&s->lock);
    if (r != 0)
        return r;

    r = request_new(in, s->limits.n_ctx, &req);
    pthread_mutex_lock(&s->lock);
    if (r < 0) {
        s->n_queued--;
    } else {
        *ret_id = req->id = s->next_id++;
        *s->inbox_end = req;
        s->inbox_end = &req->next_in;
        s->stats.n_requests++;
        s->stats.n_waiting += req->n_choices;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

void sched_cancel(struct sched *s, uint64_t id)
{
    struct request *req;

    pthread_mutex_lock(&s->lock);
    for (req = s->live; req && req->id != id; req = req->next)
        ;
    if (!req)
        for (req = s->inbox; req && req->id != id; req = req->next_in)
            ;
    if (req) {
        atomic_store(&req->cancelled, true);
        s->cancel_pending = true;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
}

void sched_stats(struct sched *s, struct inf_engine_stats *ret_stats)
{
    pthread_mutex_lock(&s->lock);
    *ret_stats = s->stats;
    pthread_mutex_unlock(&s->lock);
}

/* Moves new requests to the live ones; true when something is to be cancelled. */
static bool take_inbox(struct sched *s)
{
    struct request *req, *first;
    bool cancel;

    pthread_mutex_lock(&s->lock);
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
    pthread_mutex_unlock(&s->lock);

    for (req = first; req; req = req->next_in)
        for (uint32_t i = 0; i < req->n_choices; i++) {
            req->seqs[i].age = s->next_age++;
            sched_wait(s, &req->seqs[i]);
        }
    return cancel;
}

static void fade(double *tokens, double *usec, uint32_t n, uint64_t step_usec)
{
    const double keep = exp(-(double)step_usec / FADE_USEC);

    if (n == 0)
        return;
    *tokens = *tokens * keep + n;
    *usec = *usec * keep + (double)step_usec;
}

static void count_step(struct sched *s)
{
    const struct step *step = &s->step;
    uint32_t n_sampled = 0;

    for (uint32_t i = 0; i < step->n_parts; i++)
        n_sampled += step->parts[i].sampled && step->parts[i].status == 0;
    fade(&s->prefill_tokens, &s->prefill_usec, step->n_prompt_rows, step->usec);
    fade(&s->decode_tokens, &s->decode_usec, step->n_decode_rows, step->usec);
    pthread_mutex_lock(&s->lock);
    s->stats.n_steps++;
    s->stats.n_prompt_tokens += step->n_prompt_rows;
    s->stats.n_generated_tokens += n_sampled;
    s->stats.busy_seconds += (double)step->usec * 1e-6;
    if (s->prefill_usec > 0)
        s->stats.prefill_tok_s = s->prefill_tokens * 1e6 / s->prefill_usec;
    if (s->decode_usec > 0)
        s->stats.decode_tok_s = s->decode_tokens * 1e6 / s->decode_usec;
    pthread_mutex_unlock(&s->lock);
}

static void count_state(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->stats.n_waiting = s->n_waiting;
    s->stats.n_running = s->n_running;
    s->stats.n_blocks_used = s->stats.n_blocks - kv_pool_n_free(s->runner->pool);
    pthread_mutex_unlock(&s->lock);
}

bool sched_tick(struct sched *s)
{
    bool again;

    if (take_inbox(s)) {
        sched_apply_cancels(s);
        /* Told before the step, which may take a while. */
        sched_retire(s);
        events_flush(&s->events);
    }
    sched_admit(s);
    sched_make_room(s);
    if (s->n_running > 0) {
        if (sched_step(s) < 0) {
            sched_fail_running(s, "the device failed");
        } else {
            count_step(s);
            sched_emit(s);
        }
    }
    again = sched_retire(s);
    /* Counted before the events leave: who reads the last one finds the books in order. */
    count_state(s);
    again |= !events_flush(&s->events);
    return again || s->n_running > 0 || s->n_waiting > 0;
}

static bool take_rest(struct sched *s)
{
    pthread_mutex_unlock(&s->lock);
    runner_rest(s->runner);
    pthread_mutex_lock(&s->lock);
    return true;
}

/* Waits for work; false when the thread shall end. */
static bool await_work(struct sched *s, bool busy)
{
    bool go_on, resting = false;
    struct timespec rest;

    if (!busy) {
        clock_gettime(CLOCK_MONOTONIC, &rest);
        rest.tv_sec += REST_SEC;
    }
    pthread_mutex_lock(&s->lock);
    while (!busy && !s->stop && !s->inbox && !s->cancel_pending) {
        if (resting)
            pthread_cond_wait(&s->wake, &s->lock);
        else if (pthread_cond_timedwait(&s->wake, &s->lock, &rest) == ETIMEDOUT)
            resting = take_rest(s);
    }
    go_on = !s->stop;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void *thread_main(void *arg)
{
    const struct timespec retry = {0, RETRY_MSEC * 1000000L};
    struct sched *s = arg;
    bool busy = false;

    pthread_setname_np(pthread_self(), "infer-engine");
    while (await_work(s, busy)) {
        busy = sched_tick(s);
        /* Only memory for events is missing: others must free some first. */
        if (busy && s->n_running == 0 && s->n_waiting == 0)
            nanosleep(&retry, NULL);
    }
    return NULL;
}

int sched_start(struct sched *s)
{
    sigset_t all, old;
    int r;

    /* Signals are the business of the threads of our user. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(&s->thread, NULL, thread_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0)
        return -r;
    s->has_thread = true;
    return 0;
}
