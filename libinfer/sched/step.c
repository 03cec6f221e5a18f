/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one step: selects, computes and samples rows.
 *
 * step_init() allocates all memory; the code of a step, including the functions that it calls, does
 * not allocate, lock or log. Grammars are the exception: a grammar's automaton grows while it is
 * used, and a lock guards the masks. The state of a sequence, including its random generator,
 * changes only after the device has returned all rows. So a failed step changes nothing.
 * graph/state.h explains the groups of the state (FULL, WINDOW, RECURRENT). "The tier" is tier 2 of
 * the KV cache, which keeps blocks on disk (tier.h).
 */
#include "sched/sched.h"

#include <errno.h>
#include <stdatomic.h>

#include "core/clock.h"

#define TOUCH_ROWS 32 /* for a part of a prompt with more rows, no memory is touched in advance */

int step_init(struct step *step, const struct plan_limits *limits)
{
    const size_t n_top = (size_t)limits->max_logits * SAMPLE_MAX_TOP;

    *step = (struct step){
        .ready = NEW(struct seq *, limits->max_seqs),
        .wants = NEW(struct batch_want, limits->max_seqs),
        .rows = NEW(uint32_t, limits->max_seqs),
        .seqs = NEW(struct batch_seq, limits->max_seqs),
        .tokens = NEW(int32_t, limits->max_rows),
        .logit_rows = NEW(uint32_t, limits->max_logits),
        .parts = NEW(struct step_part, limits->max_seqs),
        .picks = NEW(struct step_pick, limits->max_logits),
        .top = NEW(struct inf_top_logprob, n_top),
        .logit_parts = NEW(uint32_t, limits->max_logits),
    };
    if (!step->ready || !step->wants || !step->rows || !step->seqs || !step->tokens ||
        !step->logit_rows || !step->parts || !step->picks || !step->top || !step->logit_parts)
        return -ENOMEM;
    return 0;
}

void step_done(struct step *step)
{
    free(step->ready);
    free(step->wants);
    free(step->rows);
    free(step->seqs);
    free(step->tokens);
    free(step->logit_rows);
    free(step->parts);
    free(step->picks);
    free(step->top);
    free(step->logit_parts);
    *step = (struct step){0};
}

bool sched_pick_ready(struct sched *s)
{
    struct step *step = &s->step;

    step->n_ready = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        if (!s->running[i]->loading)
            step->ready[step->n_ready++] = s->running[i];
    return step->n_ready > 0;
}

/* Asks the batch policy how many rows each sequence computes. */
static void plan_rows(struct sched *s)
{
    struct step *step = &s->step;
    struct batch_limits limits = {
        .max_rows = MAX(runner_max_rows(s->runner), step->n_ready),
        .max_logits = s->runner->limits.max_logits,
    };

    step->n_single = step->n_replay_rows = 0;
    for (uint32_t i = 0; i < step->n_ready; i++) {
        const uint32_t n_replay = step->ready[i]->draft.n_replay;

        step->n_replay_rows += n_replay;
        step->wants[i] = (struct batch_want){
            .n_left = seq_n_left(step->ready[i]) - n_replay,
            .n_logits = seq_n_prompt_logits(step->ready[i]),
            .n_max = sched_max_rows(s, step->ready[i]),
        };
        step->n_single += step->wants[i].n_left == 1;
    }
    limits.max_rows -= MIN(step->n_replay_rows, limits.max_rows - step->n_ready);
    limits.chunk =
        batch_pace_chunk(&s->pace, step->n_single, step->n_ready - step->n_single, limits.max_rows);
    batch_plan(step->wants, step->n_ready, &limits, s->turn++, step->rows);
    for (uint32_t i = 0, left = s->runner->limits.max_rows - limits.max_rows; i < step->n_ready;
         i++) {
        const uint32_t n = MIN(step->ready[i]->draft.n_replay, left);

        step->rows[i] += n;
        left -= n;
    }
    /* A step has fewer rows of a prompt if there are too few free WINDOW blocks. */
    for (uint32_t i = 0; s->marks.has_windows && i < step->n_ready; i++)
        step->rows[i] = kv_table_open(&step->ready[i]->table, step->ready[i]->n_kv, step->rows[i]);
    sched_draft(s);
}

/* Prepares the picks of a part. Each pick has the state of the channel after the drafted tokens
 * before it, because this state decides which token the engine itself writes (channel.h) and which
 * tokens are forbidden. */
static void put_picks(struct step *step, const struct step_part *part)
{
    const struct seq *seq = part->seq;
    struct channel_state state = seq->channel;

    for (uint32_t k = 0; k <= part->n_draft; k++) {
        struct step_pick *pick = step_pick(step, part, k);

        *pick = (struct step_pick){.channel = state,
                                   .forced = channel_forced(&seq->req->channel, &state)};
        if (k < part->n_draft)
            channel_take(&seq->req->channel, &state, seq->tokens[seq->n_tokens + k]);
    }
}

/* Adds the rows of one sequence to the batch. */
static void put_rows(struct step *step, struct batch *batch, struct seq *seq, uint32_t n_rows,
                     uint32_t n_prompt_logits)
{
    const uint32_t i = batch->n_seqs++, i_row = batch->n_rows, n_left = seq_n_left(seq);
    const uint32_t n_replay = seq->draft.n_replay;
    const bool decodes = n_left == 1 + n_replay && seq->n_kv >= seq->req->n_prompt;
    const bool samples = n_rows >= n_left;
    struct step_part *part = &step->parts[i];

    *part = (struct step_part){
        .seq = seq,
        .pos = seq->n_kv,
        .n_rows = n_rows,
        .i_logit = batch->n_logits,
        .n_prompt_logits = MIN(n_prompt_logits, n_rows),
        .n_replay = MIN(n_replay, n_rows),
        .n_draft = samples ? n_rows - n_left : 0,
    };
    step->seqs[i] = kv_table_part(&seq->table, i_row, seq->n_kv, n_rows);
    for (uint32_t k = 0; k < n_rows; k++)
        step->tokens[i_row + k] = seq->tokens[seq->n_kv + k];
    for (uint32_t k = 0; k < part->n_prompt_logits; k++)
        step->logit_rows[batch->n_logits++] = i_row + k;
    for (uint32_t k = n_left - 1; samples && k < n_rows; k++)
        step->logit_rows[batch->n_logits++] = i_row + k;
    part->n_logits = batch->n_logits - part->i_logit;
    if (samples)
        put_picks(step, part);
    for (uint32_t k = 0; k < part->n_logits; k++)
        step->logit_parts[part->i_logit + k] = i;
    batch->n_rows += n_rows;
    *(decodes ? &step->n_decode_rows : &step->n_prompt_rows) +=
        n_rows - part->n_draft - part->n_replay;
}

/* Returns how many tokens a part chooses if all its drafted tokens are accepted. */
static uint32_t n_picks(const struct step_part *part)
{
    return part->n_logits - part->n_prompt_logits;
}

/* Returns the mask for pick @k of a part. */
static struct mask *pick_mask(const struct step_part *part, uint32_t k)
{
    return k == 0 ? &part->seq->mask : &part->seq->draft.masks[k - 1];
}

/* Asks for the masks of the sequences that get a new token. */
static void want_masks(struct sched *s)
{
    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        const struct step_part *part = &s->step.parts[i];

        for (uint32_t k = 0; part->seq->mask.matcher && k < n_picks(part); k++)
            if (step_pick(&s->step, part, k)->forced < 0)
                masks_add(&s->masks, pick_mask(part, k));
    }
    masks_begin(&s->masks);
}

static struct batch build_batch(struct sched *s)
{
    struct step *step = &s->step;
    struct batch batch = {
        .tokens = step->tokens, .seqs = step->seqs, .logit_rows = step->logit_rows};

    step->n_prompt_rows = step->n_decode_rows = 0;
    for (uint32_t i = 0; i < step->n_ready; i++)
        if (step->rows[i] > 0)
            put_rows(step, &batch, step->ready[i], step->rows[i], step->wants[i].n_logits);
    step->n_parts = batch.n_seqs;
    step->n_logits = batch.n_logits;
    return batch;
}

/* Finds the tokens that pick @k of a part must not choose. */
static void pick_forbidden(const struct step *step, const struct step_part *part, uint32_t k,
                           struct sample_text *text)
{
    seq_forbidden(part->seq, seq_n_generated(part->seq) + k,
                  step_pick(step, part, k)->channel.place, text);
}

/* Returns how many of the largest logits suffice for pick @k of a part; 0: the whole row. */
static uint32_t list_need(const struct sched *s, const struct step_part *part, uint32_t k)
{
    const struct request *req = part->seq->req;
    struct sample_text text;

    if (step_pick(&s->step, part, k)->forced >= 0)
        return req->want_logprobs ? 0 : 1;
    pick_forbidden(&s->step, part, k, &text);
    if (part->seq->mask.matcher || text.n_forbidden > 0)
        return 0;
    return sampler_list_need(s->samplers[0], &req->sampling, req->want_logprobs ? req->n_top : 0);
}

/* Requests a list of the largest logits instead of a whole row if a list is enough to sample.
 * Log-probabilities of a prompt need whole rows, because the next token of a prompt can be a token
 * with a small logit. */
static void want_lists(struct sched *s)
{
    const struct step *step = &s->step;

    for (uint32_t i = 0; s->runner->tops && i < step->n_logits; i++) {
        const struct step_part *part = &step->parts[step->logit_parts[i]];
        const uint32_t k = i - part->i_logit;

        s->runner->tops[i].n_wanted =
            k < part->n_prompt_logits ? 0 : list_need(s, part, k - part->n_prompt_logits);
    }
}

/* Fetches each whole row whose list turned out to be insufficient. */
static int fetch_rows(struct sched *s)
{
    struct runner *runner = s->runner;

    for (uint32_t i = 0; runner->tops && i < s->step.n_logits; i++) {
        struct top_row *list = &runner->tops[i];
        int r;

        if (list->n_wanted == 0 || sampler_list_suffices(s->samplers[0], list))
            continue;
        r = runner_fetch(runner, i);
        if (r < 0)
            return r;
        list->n_wanted = 0;
    }
    return 0;
}

/* Takes the log-probability of the next prompt token from a row of the prompt. */
static void take_prompt_logprob(struct sched *s, struct sampler *sampler,
                                const struct step_part *part, uint32_t i_logit)
{
    struct request *req = part->seq->req;
    const uint32_t i = part->pos + (i_logit - part->i_logit) + 1;
    struct output_token *t = &req->plp.tokens[i];

    *t = (struct output_token){.token = req->prompt[i]};
    t->n_top =
        sampler_logprob(sampler, runner_logits(s->runner, i_logit), s->runner->n_vocab, t->token,
                        req->n_top, &t->logprob, req->plp.top + (size_t)i * req->n_top);
}

/* Samples a token from the list of the largest logits of its row. */
static void sample_list(struct sampler *sampler, struct seq *seq, struct step_pick *pick,
                        const struct top_row *list, struct inf_top_logprob *top)
{
    const struct request *req = seq->req;

    pick->token = sampler_pick_from_list(sampler, &req->sampling, &seq->sampling, list);
    if (req->want_logprobs)
        pick->n_top =
            sampler_logprob_from_list(sampler, list, pick->token, req->n_top, &pick->logprob, top);
}

/* Picks token @k of a part from the whole row. */
static int pick_from_row(struct sched *s, struct sampler *sampler, const struct step_part *part,
                         uint32_t k, float *logits)
{
    struct seq *seq = part->seq;
    int32_t *ret_token = &step_pick(&s->step, part, k)->token;
    struct mask *mask = pick_mask(part, k);
    struct sample_text text = {
        .tokens = seq->tokens, .n_tokens = seq->n_tokens + k, .n_prompt = seq->req->n_prompt};
    int r;

    if (seq->mask.matcher) {
        masks_await(&s->masks, mask);
        if (mask->error < 0)
            return mask->error;
        text.mask = mask->bits;
    }
    pick_forbidden(&s->step, part, k, &text);
    r = sampler_pick(sampler, &seq->req->sampling, &text, &seq->sampling, logits, ret_token);
    if (r != SAMPLE_NONE_LEFT || !text.mask || text.n_forbidden == 0)
        return r;
    /* All tokens that the grammar permits are forbidden. The grammar takes precedence, so the pick
     * is repeated without forbidden tokens. */
    text.n_forbidden = 0;
    return sampler_pick(sampler, &seq->req->sampling, &text, &seq->sampling, logits, ret_token);
}

static void sample_row(struct sched *s, struct sampler *sampler, const struct step_part *part,
                       uint32_t k, float *logits, struct inf_top_logprob *top)
{
    const struct request *req = part->seq->req;
    struct step_pick *pick = step_pick(&s->step, part, k);

    pick->token = pick->forced;
    if (pick->forced < 0)
        pick->status = pick_from_row(s, sampler, part, k, logits);
    if (pick->status != 0 || !req->want_logprobs)
        return;
    if (req->sampling.post_logprobs && pick->forced < 0)
        pick->n_top = sampler_post_logprob(sampler, req->n_top, &pick->logprob, top);
    else
        pick->n_top = sampler_logprob(sampler, logits, s->runner->n_vocab, pick->token, req->n_top,
                                      &pick->logprob, top);
}

static void sample_pick(struct sched *s, struct sampler *sampler, const struct step_part *part,
                        uint32_t k)
{
    const uint32_t i_logit = part->i_logit + part->n_prompt_logits + k;
    const struct top_row *lists = s->runner->tops;
    struct step_pick *pick = step_pick(&s->step, part, k);
    struct inf_top_logprob *top = s->step.top + (size_t)i_logit * SAMPLE_MAX_TOP;

    if (!lists || lists[i_logit].n_wanted == 0)
        sample_row(s, sampler, part, k, runner_logits(s->runner, i_logit), top);
    else if (pick->forced >= 0)
        pick->token = pick->forced;
    else
        sample_list(sampler, part->seq, pick, &lists[i_logit], top);
}

/* Chooses the next token and, as long as each chosen token equals the drafted token, the tokens
 * after it. They are chosen in order, because each choice depends on the tokens chosen before it,
 * and on the state in which they left the random generator. */
static void sample_part(struct sched *s, struct sampler *sampler, struct step_part *part)
{
    const struct seq *seq = part->seq;

    for (uint32_t k = 0; k <= part->n_draft; k++) {
        const struct step_pick *pick = step_pick(&s->step, part, k);

        sample_pick(s, sampler, part, k);
        part->n_picked++;
        if (pick->status != 0 || k == part->n_draft ||
            pick->token != seq->tokens[seq->n_tokens + k])
            break;
    }
}

/*
 * Processes rows of logits on one thread: each thread takes the next row that no thread has taken.
 * The result of a row depends only on the row and its sequence, so it does not matter which thread
 * takes it. The thread that takes the row of a part's last token also takes the rows of the part's
 * draft.
 */
static void take_logits(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    struct sched *s = arg;
    struct step *step = &s->step;
    uint32_t i;

    while ((i = atomic_fetch_add_explicit(&step->next_logit, 1, memory_order_relaxed)) <
           step->n_logits) {
        struct step_part *part = &step->parts[step->logit_parts[i]];

        if (i - part->i_logit < part->n_prompt_logits)
            take_prompt_logprob(s, s->samplers[i_thread], part, i);
        else if (i - part->i_logit == part->n_prompt_logits)
            sample_part(s, s->samplers[i_thread], part);
    }
}

static void take_all_logits(struct sched *s)
{
    struct backend *b = s->runner->backend;

    atomic_store_explicit(&s->step.next_logit, 0, memory_order_relaxed);
    if (s->step.n_logits > 1)
        b->ops->parallel(b, take_logits, s);
    else
        take_logits(s, 0, 1);
}

/* Records the name of block @i of each FULL group, so that the tier can store the block. */
static void keep_chain(struct sched *s, struct seq *seq, uint32_t i)
{
    const struct kv_layout *layout = kv_pool_layout(s->runner->pool);

    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (layout->groups[g].rule == STATE_FULL)
            keep_named(&s->keep, seq->table.blocks[g][i], seq->names, i, seq->req->owner,
                       i < seq->n_stored);
}

void sched_name_blocks(struct sched *s, struct seq *seq)
{
    const uint32_t n = seq->names ? seq->n_kv / seq->req->block_tokens : 0;
    uint32_t i = seq->table.n_named;

    if (n <= i)
        return;
    seq_make_names(seq, seq->n_kv);
    kv_table_name(&seq->table, seq->names, n);
    for (; s->tier && i < seq->table.n_named; i++)
        keep_chain(s, seq, i);
}

/* Records that the rows of the step are in the KV cache now. Other sequences can then find the
 * blocks that the step filled. */
static void count_rows(struct sched *s)
{
    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        struct step_part *part = &s->step.parts[i];
        struct prompt_logprobs *plp = &part->seq->req->plp;

        sched_keep_rows(s, part);
        sched_note_draft(s, part);
        seq_note_kv(part->seq, true);
        sched_name_blocks(s, part->seq);
        sched_note_marks(s, part->seq, part->pos);
        if (part->n_prompt_logits > 0)
            plp->n_done = MAX(plp->n_done, part->pos + part->n_prompt_logits + 1);
    }
}

/* If some sequences decode while prompts are computed, touches the memory that the prompts need
 * next. Parts with many rows are left out: their step is long in any case, and the threads of the
 * device touch memory faster than this thread does. */
static void touch_memory(const struct step *step)
{
    for (uint32_t i = 0; step->n_single > 0 && i < step->n_parts; i++)
        if (step->parts[i].n_rows <= TOUCH_ROWS)
            kv_table_touch(&step->parts[i].seq->table, step->parts[i].pos, step->parts[i].n_rows);
}

/* Ends the drafts of all sequences of the step. */
static void end_drafts(struct sched *s)
{
    for (uint32_t i = 0; i < s->step.n_parts; i++)
        sched_end_step_draft(s, s->step.parts[i].seq);
}

int sched_step(struct sched *s)
{
    struct step *step = &s->step;
    const uint64_t begin = clock_usec();
    struct batch batch;
    int r;

    assert(step->n_ready > 0);
    plan_rows(s);
    batch = build_batch(s);
    sched_mark_drafted(s);
    want_lists(s);
    want_masks(s);
    r = runner_forward(s->runner, &batch);
    if (r == 0)
        r = fetch_rows(s);
    if (r == 0 && file_set_is_lost(&s->files))
        r = -ESTALE;
    if (r == 0)
        take_all_logits(s);
    masks_end(&s->masks);
    if (r == 0) {
        sched_accept(s, &batch);
        count_rows(s);
        sched_take_hidden(s);
    }
    end_drafts(s);
    if (r < 0)
        return r;
    touch_memory(step);
    step->usec = clock_usec() - begin;
    sched_note_draft_time(s);
    if (step->n_draft_rows == 0 && step->n_replay_rows == 0)
        batch_pace_note(&s->pace, step->n_single, batch.n_rows - step->n_single,
                        s->runner->limits.max_rows, step->usec - step->draft_usec);
    return 0;
}
