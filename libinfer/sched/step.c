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

#define TOUCH_ROWS 32 /* a part of a prompt with more rows touches no memory in advance */

int step_init(struct step *step, const struct plan_limits *limits)
{
    const size_t n_top = (size_t)limits->max_seqs * SAMPLE_MAX_TOP;

    *step = (struct step){
        .ready = NEW(struct seq *, limits->max_seqs),
        .wants = NEW(struct batch_want, limits->max_seqs),
        .rows = NEW(uint32_t, limits->max_seqs),
        .seqs = NEW(struct batch_seq, limits->max_seqs),
        .tokens = NEW(int32_t, limits->max_rows),
        .logit_rows = NEW(uint32_t, limits->max_logits),
        .parts = NEW(struct step_part, limits->max_seqs),
        .top = NEW(struct inf_top_logprob, n_top),
        .logit_parts = NEW(uint32_t, limits->max_logits),
    };
    if (!step->ready || !step->wants || !step->rows || !step->seqs || !step->tokens ||
        !step->logit_rows || !step->parts || !step->top || !step->logit_parts)
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

    step->n_single = 0;
    for (uint32_t i = 0; i < step->n_ready; i++) {
        step->wants[i] = (struct batch_want){
            .n_left = seq_n_left(step->ready[i]),
            .n_logits = seq_n_prompt_logits(step->ready[i]),
            .n_max = sched_max_rows(s, step->ready[i]),
        };
        step->n_single += step->wants[i].n_left == 1;
    }
    limits.chunk =
        batch_pace_chunk(&s->pace, step->n_single, step->n_ready - step->n_single, limits.max_rows);
    batch_plan(step->wants, step->n_ready, &limits, s->turn++, step->rows);
    /* A step has fewer rows of a prompt if there are too few free WINDOW blocks. */
    for (uint32_t i = 0; s->marks.has_windows && i < step->n_ready; i++)
        step->rows[i] = kv_table_open(&step->ready[i]->table, step->ready[i]->n_kv, step->rows[i]);
}

/* Adds the rows of one sequence to the batch. */
static void put_rows(struct step *step, struct batch *batch, struct seq *seq, uint32_t n_rows,
                     uint32_t n_prompt_logits)
{
    const uint32_t i = batch->n_seqs++, i_row = batch->n_rows;
    const bool decodes = seq_n_left(seq) == 1 && seq->n_kv >= seq->req->n_prompt;
    struct step_part *part = &step->parts[i];

    *part = (struct step_part){
        .seq = seq,
        .pos = seq->n_kv,
        .n_rows = n_rows,
        .i_logit = batch->n_logits,
        .n_prompt_logits = MIN(n_prompt_logits, n_rows),
        .samples = n_rows == seq_n_left(seq),
        .forced = channel_forced(&seq->req->channel, &seq->channel),
    };
    step->seqs[i] = kv_table_part(&seq->table, i_row, seq->n_kv, n_rows);
    for (uint32_t k = 0; k < n_rows; k++)
        step->tokens[i_row + k] = seq->tokens[seq->n_kv + k];
    for (uint32_t k = 0; k < part->n_prompt_logits; k++)
        step->logit_rows[batch->n_logits++] = i_row + k;
    if (part->samples)
        step->logit_rows[batch->n_logits++] = i_row + n_rows - 1;
    part->n_logits = batch->n_logits - part->i_logit;
    for (uint32_t k = 0; k < part->n_logits; k++)
        step->logit_parts[part->i_logit + k] = i;
    batch->n_rows += n_rows;
    *(decodes ? &step->n_decode_rows : &step->n_prompt_rows) += n_rows;
}

/* Asks for the masks of the sequences that get a new token. */
static void want_masks(struct sched *s)
{
    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        struct step_part *part = &s->step.parts[i];

        if (part->samples && part->forced < 0 && part->seq->mask.matcher)
            masks_add(&s->masks, &part->seq->mask);
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

/* Returns how many of the largest logits of a part's last row suffice; 0: the whole row. */
static uint32_t list_need(const struct sched *s, const struct step_part *part)
{
    const struct request *req = part->seq->req;
    struct sample_text text;

    if (part->forced >= 0)
        return req->want_logprobs ? 0 : 1;
    seq_forbidden(part->seq, &text);
    if (part->seq->mask.matcher || text.n_forbidden > 0)
        return 0;
    return sampler_list_need(s->samplers[0], &req->sampling, req->want_logprobs ? req->n_top : 0);
}

/* Requests a list of the largest logits instead of a whole row, where a list is enough to sample.
 * Log-probabilities of a prompt need whole rows, because the next token of a prompt can be a token
 * with a small logit. */
static void want_lists(struct sched *s)
{
    const struct step *step = &s->step;

    for (uint32_t i = 0; s->runner->tops && i < step->n_logits; i++) {
        const struct step_part *part = &step->parts[step->logit_parts[i]];
        const bool of_prompt = i - part->i_logit < part->n_prompt_logits;

        s->runner->tops[i].n_wanted = of_prompt ? 0 : list_need(s, part);
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

/* Samples the next token from the list of the largest logits of the last row. */
static void sample_list(struct sampler *sampler, struct step_part *part, const struct top_row *list,
                        struct inf_top_logprob *top)
{
    const struct request *req = part->seq->req;

    part->token = sampler_pick_from_list(sampler, &req->sampling, &part->seq->sampling, list);
    if (req->want_logprobs)
        part->n_top =
            sampler_logprob_from_list(sampler, list, part->token, req->n_top, &part->logprob, top);
}

/* Picks the next token from the whole last row. */
static int pick_from_row(struct sched *s, struct sampler *sampler, struct step_part *part,
                         float *logits)
{
    struct seq *seq = part->seq;
    struct sample_text text = {
        .tokens = seq->tokens, .n_tokens = seq->n_tokens, .n_prompt = seq->req->n_prompt};
    int r;

    if (seq->mask.matcher) {
        masks_await(&s->masks, &seq->mask);
        if (seq->mask.error < 0)
            return seq->mask.error;
        text.mask = seq->mask.bits;
    }
    seq_forbidden(seq, &text);
    r = sampler_pick(sampler, &seq->req->sampling, &text, &seq->sampling, logits, &part->token);
    if (r != SAMPLE_NONE_LEFT || !text.mask || text.n_forbidden == 0)
        return r;
    /* All tokens that the grammar permits are forbidden. The grammar takes precedence, so the pick
     * is repeated without forbidden tokens. */
    text.n_forbidden = 0;
    return sampler_pick(sampler, &seq->req->sampling, &text, &seq->sampling, logits, &part->token);
}

static void sample_row(struct sched *s, struct sampler *sampler, struct step_part *part,
                       float *logits, struct inf_top_logprob *top)
{
    const struct request *req = part->seq->req;

    part->token = part->forced;
    if (part->forced < 0)
        part->status = pick_from_row(s, sampler, part, logits);
    if (part->status != 0 || !req->want_logprobs)
        return;
    if (req->sampling.post_logprobs && part->forced < 0)
        part->n_top = sampler_post_logprob(sampler, req->n_top, &part->logprob, top);
    else
        part->n_top = sampler_logprob(sampler, logits, s->runner->n_vocab, part->token, req->n_top,
                                      &part->logprob, top);
}

static void sample_part(struct sched *s, struct sampler *sampler, struct step_part *part)
{
    const uint32_t i_logit = part->i_logit + part->n_logits - 1;
    const struct top_row *lists = s->runner->tops;
    struct inf_top_logprob *top = s->step.top + (size_t)(part - s->step.parts) * SAMPLE_MAX_TOP;

    part->sampled = true;
    if (!lists || lists[i_logit].n_wanted == 0)
        sample_row(s, sampler, part, runner_logits(s->runner, i_logit), top);
    else if (part->forced >= 0)
        part->token = part->forced;
    else
        sample_list(sampler, part, &lists[i_logit], top);
}

/*
 * Processes rows of logits on one thread: each thread takes the next row that no thread has taken.
 * The result of a row depends only on the row and its sequence, so it does not matter which thread
 * takes it.
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
        else
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
        const struct step_part *part = &s->step.parts[i];
        struct prompt_logprobs *plp = &part->seq->req->plp;

        part->seq->n_kv += part->n_rows;
        seq_note_kv(part->seq, true);
        sched_name_blocks(s, part->seq);
        sched_note_marks(s, part->seq, part->pos);
        if (part->n_prompt_logits > 0)
            plp->n_done = MAX(plp->n_done, part->pos + part->n_prompt_logits + 1);
    }
}

/* If texts flow beside prompts, touches the memory that the prompts need next. A step with many
 * rows of a prompt is long in any case, and its threads touch memory faster than this one. */
static void touch_memory(const struct step *step)
{
    for (uint32_t i = 0; step->n_single > 0 && i < step->n_parts; i++)
        if (step->parts[i].n_rows <= TOUCH_ROWS)
            kv_table_touch(&step->parts[i].seq->table, step->parts[i].pos, step->parts[i].n_rows);
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
    if (r < 0)
        return r;
    touch_memory(step);
    count_rows(s);
    step->usec = clock_usec() - begin;
    batch_pace_note(&s->pace, step->n_single, batch.n_rows - step->n_single,
                    s->runner->limits.max_rows, step->usec);
    return 0;
}
