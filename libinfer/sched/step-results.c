/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the results of a step.
 *
 * Appends the sampled tokens, reports text and the ends of choices, and frees finished requests. A
 * choice is one answer to a request. If there is not enough memory to report the end of a choice,
 * the report is tried again after the next step, so no end is lost.
 */
#include "sched/sched.h"

#include <errno.h>

static int tell_text(struct sched *s, struct seq *seq)
{
    struct output_part part;
    int r;

    if (!output_ready(&seq->output, &part))
        return 0;
    r = events_add_tokens(&s->events, seq, &part);
    if (r < 0)
        return r;
    output_drop(&seq->output, &part);
    return 0;
}

/* Ends a choice without an error: text that was held back is sent, too. */
static int finish_choice(struct seq *seq, enum inf_finish why)
{
    uint32_t i_stop = 0;
    const int r = output_end(&seq->output, &i_stop);

    if (r < 0)
        return r;
    if (r == OUTPUT_STOPPED) {
        why = INF_FINISH_STOP_TEXT;
        seq->stop_index = i_stop;
    }
    seq_end(seq, why, NULL);
    return 0;
}

static bool is_among(const int32_t *tokens, uint32_t n, int32_t token)
{
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

/* Returns whether a token ends the text. A grammar permits the model's tokens that end a text only
 * after a complete text, so with a grammar such a token ends the text even if EOS is ignored. */
static bool ends_text(const struct sched *s, const struct seq *seq, int32_t token,
                      enum channel_token kind)
{
    const struct request *req = seq->req;

    if (kind == CHANNEL_MARK)
        return false;
    if ((!req->ignore_eos || seq->mask.matcher) &&
        (inf_tokenizer_token_flags(s->tok, token) & INF_TOKEN_EOG) != 0)
        return true;
    return kind == CHANNEL_TEXT &&
           is_among(req->ends + req->n_eog, req->n_ends - req->n_eog, token);
}

/* Appends a new token to the text of the choice. */
static int push_token(struct sched *s, struct seq *seq, const struct step_pick *pick, bool search)
{
    const struct inf_top_logprob *top =
        s->step.top + (size_t)(pick - s->step.picks) * SAMPLE_MAX_TOP;
    const struct output_token token = {
        .token = pick->token, .logprob = pick->logprob, .n_top = pick->n_top};

    return output_push(&seq->output, &token, top, search, &seq->stop_index);
}

static int end_with_token(struct sched *s, struct seq *seq, const struct step_pick *pick)
{
    int r = 0;

    seq->stop_token = pick->token;
    if (is_among(seq->req->shown, seq->req->n_shown, pick->token))
        r = push_token(s, seq, pick, false);
    return r < 0 ? r : finish_choice(seq, INF_FINISH_STOP);
}

/* Passes the new token to the grammar's matcher. Returns whether the choice continues. */
static bool match_token(struct seq *seq, int32_t token)
{
    const int r = seq->mask.matcher ? mask_take(&seq->mask, token) : 0;

    if (r == 0)
        return true;
    seq_end(seq, INF_FINISH_ERROR,
            r == MATCHER_REFUSED ? "the grammar does not permit the end of the reasoning"
            : r == -E2BIG        ? "the grammar reached a limit of its size"
                                 : "out of memory");
    return false;
}

static int accept_token(struct sched *s, struct seq *seq, const struct step_pick *pick)
{
    enum channel_token kind;
    int r;

    assert(seq->n_tokens < seq->req->max_total);
    seq->tokens[seq->n_tokens++] = pick->token;
    kind = channel_take(&seq->req->channel, &seq->channel, pick->token);
    if (ends_text(s, seq, pick->token, kind))
        return end_with_token(s, seq, pick);
    r = push_token(s, seq, pick,
                   kind == CHANNEL_TEXT && seq_n_generated(seq) >= seq->req->min_tokens);
    if (r < 0)
        return r;
    if (r == OUTPUT_STOPPED) {
        seq_end(seq, INF_FINISH_STOP_TEXT, NULL);
        return 0;
    }
    if (!match_token(seq, pick->token))
        return 0;
    if (seq->mask.matcher && grammar_matcher_must_end(seq->mask.matcher))
        return finish_choice(seq, INF_FINISH_STOP);
    return seq_is_full(seq) ? finish_choice(seq, INF_FINISH_LENGTH) : 0;
}

/* Ends a choice for which no token could be chosen. */
static void fail_pick(struct sched *s, struct seq *seq, int status)
{
    const char *error = "out of memory";

    if (status == SAMPLE_BAD_ROW) {
        /* The KV blocks from which a bad row was computed may be bad, too, and other sequences may
         * have shared them before the bad row was detected. So all names are dropped. */
        kv_pool_forget(s->runner->pool);
        error = "the model gave no usable probabilities";
    } else if (status == SAMPLE_NONE_LEFT) {
        error = seq->mask.matcher ? "the grammar permits no token that could come next"
                                  : "all tokens are excluded from the choice";
    } else if (status == -E2BIG) {
        error = "the grammar reached a limit of its size";
    }
    seq_end(seq, INF_FINISH_ERROR, error);
}

/* Appends the tokens that the step chose, up to one that ends the choice. */
static int accept_picks(struct sched *s, struct step_part *part)
{
    struct seq *seq = part->seq;
    uint32_t k = 0;

    for (; k < part->n_picked && seq->state == SEQ_RUNNING; k++) {
        const struct step_pick *pick = step_pick(&s->step, part, k);
        int r = 0;

        if (pick->status != 0)
            fail_pick(s, seq, pick->status);
        else
            r = accept_token(s, seq, pick);
        if (r < 0)
            return r;
    }
    if (k < part->n_picked)
        sched_drop_picks(part, k);
    return 0;
}

static int emit_part(struct sched *s, struct step_part *part)
{
    struct seq *seq = part->seq;
    int r;

    if (part->n_picked == 0)
        return events_add_progress(&s->events, seq, MIN(seq->n_kv, seq->req->n_prompt));
    if (step_pick(&s->step, part, 0)->status == 0 && !seq->prompt_told) {
        r = events_add_progress(&s->events, seq, seq->req->n_prompt);
        r = r < 0 ? r : events_add_prompt(&s->events, seq);
        if (r < 0)
            return r;
        seq->prompt_told = true;
    }
    r = accept_picks(s, part);
    return r < 0 ? r : tell_text(s, seq);
}

void sched_emit(struct sched *s)
{
    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        struct seq *seq = s->step.parts[i].seq;
        const int r = emit_part(s, &s->step.parts[i]);

        if (r == 0)
            continue;
        seq->state = SEQ_RUNNING; /* undoes the end that is already set, so that seq_end() can set
                                     another end */
        seq_end(seq, INF_FINISH_ERROR,
                r == -ENOMEM ? "out of memory" : "a token could not be decoded");
    }
}

void sched_fail_running(struct sched *s, enum inf_finish finish, const char *error)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (s->running[i]->state == SEQ_RUNNING)
            seq_end(s->running[i], finish, error);
}

void sched_fail_waiting(struct sched *s, enum inf_finish finish, const char *error)
{
    while (s->waiting) {
        struct seq *seq = s->waiting;

        sched_dequeue(s, seq);
        seq_end(seq, finish, error);
    }
}

void sched_apply_cancels(struct sched *s)
{
    for (struct request *req = s->live; req; req = req->next) {
        if (!atomic_load(&req->cancelled))
            continue;
        events_forget(&s->events, req->id);
        for (uint32_t i = 0; i < req->n_choices; i++) {
            struct seq *seq = &req->seqs[i];

            if (seq->state == SEQ_ENDED)
                continue;
            if (seq->state == SEQ_WAITING)
                sched_dequeue(s, seq);
            seq_end(seq, INF_FINISH_CANCELLED, NULL);
        }
    }
}

static void count_end(struct inf_engine_stats *stats, const struct request *req,
                      enum inf_finish finish)
{
    if (finish == INF_FINISH_ERROR || finish == INF_FINISH_STALE)
        stats->n_errors++;
    if (req->n_live > 0)
        return;
    stats->n_finished++;
    stats->n_cancelled += atomic_load(&req->cancelled);
}

static void forget_request(struct sched *s, struct request *req)
{
    if (req->prev)
        req->prev->next = req->next;
    else
        s->live = req->next;
    if (req->next)
        req->next->prev = req->prev;
    s->n_queued -= !req->started;
}

/* Reports the ends of one request's choices. Returns false if there is not enough memory. */
static bool retire_request(struct sched *s, struct request *req)
{
    for (uint32_t i = 0; i < req->n_choices; i++) {
        struct seq *seq = &req->seqs[i];

        if (seq->state != SEQ_ENDED || seq->finish_told)
            continue;
        if (events_add_finish(&s->events, seq, req->n_live == 1) < 0)
            return false;
        seq->finish_told = true;
        req->n_live--;
        loop_thread_lock(&s->thread);
        s->n_active -= seq->started;
        count_end(&s->stats, req, seq->finish);
        loop_thread_unlock(&s->thread);
        if (seq->started)
            sched_end_marks(s, seq);
        if (seq->started)
            sched_end_draft(s, seq);
        seq_stop(seq);
    }
    return true;
}

bool sched_retire(struct sched *s)
{
    struct request *req, *next;
    uint32_t n = 0;
    bool short_of_memory = false;

    for (uint32_t i = 0; i < s->n_running; i++)
        if (s->running[i]->state == SEQ_RUNNING)
            s->running[n++] = s->running[i];
    s->n_running = n;

    for (req = s->live; req; req = next) {
        next = req->next;
        short_of_memory |= !retire_request(s, req);
        if (req->n_live > 0)
            continue;
        loop_thread_lock(&s->thread);
        forget_request(s, req);
        loop_thread_unlock(&s->thread);
        request_free(req);
    }
    return short_of_memory;
}
