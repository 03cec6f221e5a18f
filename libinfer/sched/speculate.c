/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drafts tokens for the sequences of a step, and takes the result of their verification.
 *
 * In each step without prompts, this file makes a draft for each sequence. The rates of acceptance
 * (draft/rates.h) tell how likely the tokens of a draft are to be right. With these rates and the
 * measured times of steps, draft/cost.h chooses how many drafted tokens the step verifies. A draft
 * that gets no rows is compared with the tokens that the following steps choose, so it updates the
 * rates at no cost.
 *
 * The mask of a drafted token's row depends on this token, so a sequence with a grammar has a
 * matcher for each such row. A draft ends before a token that the grammar refuses or that ends the
 * text, and before a position at which the engine itself writes the token (channel.h). If the next
 * tokens are written by the engine, they are the draft, and are always accepted. Where a grammar
 * leaves no choice, the tokens of the only text that it permits are added to the draft
 * (grammar/matcher.h). If a draft is looked up in texts, all this is done before the number of
 * tokens is chosen, so that the choice does not count on tokens that cannot come. A draft model
 * makes its tokens only after this choice.
 */
#include "sched/speculate.h"

#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "sched/sched.h"

/* At most this many tokens of the prompt, and as many of the generated text, are in the automaton
 * of a sequence's own text. */
#define OWN_TOKENS  16384u
#define TAKE_TOKENS 1024u /* most tokens that one step adds to this automaton */
#define MIN_MATCH   2u    /* fewest tokens of a repetition */

int speculation_new(enum speculation_kind kind, uint32_t max_draft, uint32_t max_seqs,
                    struct speculation **ret_speculation)
{
    struct speculation *x = NEW(struct speculation, 1);
    int r = 0;

    if (!x)
        return -ENOMEM;
    x->max_draft = max_draft > 0 ? MIN(max_draft, DRAFT_MAX) : DRAFT_MAX;
    x->drafts = NEW(struct draft, max_seqs);
    x->offers = NEW(struct draft_offer, max_seqs);
    x->n_taken = NEW(uint32_t, max_seqs);
    x->mixed = NEW(struct draft_offer, max_seqs);
    x->n_mixed = NEW(uint32_t, max_seqs);
    x->behind = NEW(struct seq *, max_seqs);
    x->n_accepted = NEW(uint32_t, max_seqs);
    if (!x->drafts || !x->offers || !x->n_taken || !x->mixed || !x->n_mixed || !x->behind ||
        !x->n_accepted)
        r = -ENOMEM;
    x->looks_up = kind != SPECULATION_MODEL;
    if (r == 0 && (kind == SPECULATION_SUFFIX || kind == SPECULATION_AUTO))
        r = draft_memory_new(&x->memory);
    if (r < 0) {
        speculation_free(x);
        return r;
    }
    *ret_speculation = x;
    return 0;
}

struct speculation *speculation_free(struct speculation *x)
{
    if (!x)
        return NULL;
    draft_memory_free(x->memory);
    drafter_free(x->drafter);
    free(x->drafts);
    free(x->offers);
    free(x->n_taken);
    free(x->mixed);
    free(x->n_mixed);
    free(x->behind);
    free(x->n_accepted);
    free(x);
    return NULL;
}

void sched_start_draft(struct sched *s, struct seq *seq)
{
    const struct request *req = seq->req;
    struct seq_draft *d = &seq->draft;
    const uint32_t n_own =
        MIN(req->n_prompt, OWN_TOKENS) + MIN(req->max_total - req->n_prompt, OWN_TOKENS);

    if (!s->speculation || req->max_draft == 0)
        return;
    *d = (struct seq_draft){.n_taken = req->n_prompt - MIN(req->n_prompt, OWN_TOKENS)};
    if (req->grammar) {
        d->masks = NEW(struct mask, DRAFT_MAX);
        if (!d->masks)
            return;
    }
    d->wanted = true;
    if (s->speculation->looks_up && suffix_new(n_own, &d->own) < 0)
        d->own = NULL;
    if (s->speculation->drafter)
        drafter_start(s->speculation->drafter, seq);
}

/* Returns the key of the sequence's answers, or NULL if answers are not remembered. */
static const uint8_t *draft_key(const struct sched *s, const struct seq *seq)
{
    return s->speculation->memory && seq->req->has_names ? seq->req->root.bytes : NULL;
}

void sched_end_draft(struct sched *s, struct seq *seq)
{
    const uint32_t n_prompt = seq->req->n_prompt;

    if (s->speculation && seq->draft.own && draft_key(s, seq))
        draft_memory_add(s->speculation->memory, draft_key(s, seq), seq->tokens + n_prompt,
                         seq->n_tokens - n_prompt);
}

/* Adds the newest tokens of the text to its automaton. An automaton that is full starts again with
 * the last part of the text. */
static void take_text(struct seq *seq)
{
    struct seq_draft *d = &seq->draft;
    const uint32_t end = MIN(seq->n_tokens, d->n_taken + TAKE_TOKENS);

    while (d->n_taken < end) {
        if (suffix_add(d->own, seq->tokens[d->n_taken])) {
            d->n_taken++;
            continue;
        }
        d->n_taken = seq->n_tokens - suffix_n_tokens(d->own) / 4;
        suffix_clear(d->own);
        return;
    }
}

/* Drafts the tokens that followed an earlier occurrence of the text's last tokens: in the text
 * itself, or in remembered answers if the match there is longer. */
static void draft_repeated(struct sched *s, struct seq *seq, uint32_t n, struct draft *ret_draft)
{
    struct seq_draft *d = &seq->draft;
    const uint8_t *key = draft_key(s, seq);
    struct suffix_place place = {0};
    uint32_t len = 0;
    float share = 0;

    if (d->n_taken == seq->n_tokens)
        place = suffix_repeated(d->own);
    if (key) {
        draft_memory_follow(s->speculation->memory, key, &d->place, seq->tokens, seq->n_tokens,
                            seq->n_tokens - d->n_followed);
        d->n_followed = seq->n_tokens;
        ret_draft->n = draft_memory_draft(s->speculation->memory, key, &d->place, n,
                                          ret_draft->tokens, &share, &len);
    }
    if (ret_draft->n == 0)
        len = 0;
    if (place.len >= len && place.len > 0) {
        ret_draft->n = suffix_draft(d->own, place, n, ret_draft->tokens, &share);
        len = place.len;
    }
    if (len < MIN_MATCH)
        ret_draft->n = 0;
    memset(ret_draft->classes, (int)draft_class(len, share), sizeof(ret_draft->classes));
}

static bool ends_draft(const struct sched *s, const struct request *req, int32_t token)
{
    if ((uint32_t)token >= s->n_vocab ||
        (inf_tokenizer_token_flags(s->tok, token) & INF_TOKEN_EOG) != 0)
        return true;
    for (uint32_t i = req->n_eog; i < req->n_ends; i++)
        if (req->ends[i] == token)
            return true;
    return false;
}

/* A draft that is put together. The drafted tokens also stand after the text of the sequence. */
struct fit {
    const struct sched *s;
    struct seq *seq;
    struct channel_state channel; /* after the draft so far */
    struct draft *draft;
};

/* Returns the mask of the row after the draft so far. */
static struct mask *fit_mask(const struct fit *f)
{
    return f->draft->n == 0 ? &f->seq->mask : &f->seq->draft.masks[f->draft->n - 1];
}

/* Adds a token to the draft. Returns false if the draft must end before it. */
static bool fit_put(struct fit *f, int32_t token, uint8_t class)
{
    struct seq *seq = f->seq;
    struct draft *draft = f->draft;

    if (seq->mask.matcher) {
        struct mask *fork = &seq->draft.masks[draft->n];

        if (mask_fork(fit_mask(f), token, fork) != 0 || grammar_matcher_must_end(fork->matcher))
            return false;
    }
    seq->tokens[seq->n_tokens + draft->n] = token;
    draft->tokens[draft->n] = token;
    draft->classes[draft->n++] = class;
    channel_take(&seq->req->channel, &f->channel, token);
    return true;
}

/* Adds a token that is guessed. */
static bool fit_guess(struct fit *f, int32_t token, uint8_t class)
{
    return channel_forced(&f->seq->req->channel, &f->channel) < 0 &&
           !ends_draft(f->s, f->seq->req, token) && fit_put(f, token, class);
}

/* Adds the tokens that the grammar forces, up to @n tokens in all. @found are the tokens that were
 * guessed before. They are preferred to forced tokens that are only likely. *agrees tells whether
 * the draft so far is the beginning of @found. Returns false if the draft must end. */
static bool fit_forced(struct fit *f, uint32_t n, const struct draft *found, bool *agrees)
{
    static const uint8_t classes[] = {
        [GRAMMAR_ONLY] = DRAFT_FORCED,
        [GRAMMAR_BYTES] = DRAFT_BYTES,
        [GRAMMAR_LIKELY] = DRAFT_LIKELY,
    };
    const struct seq *seq = f->seq;
    struct grammar_forced forced;

    if (grammar_matcher_forced(fit_mask(f)->matcher, seq->tokens, seq->n_tokens + f->draft->n,
                               n - f->draft->n, &forced) < 0)
        return false;
    for (uint32_t i = 0; i < forced.n; i++) {
        const bool has_guess = *agrees && f->draft->n < found->n;

        if (!has_guess || found->tokens[f->draft->n] != forced.tokens[i]) {
            if (has_guess && forced.certainty[i] == GRAMMAR_LIKELY)
                return true;
            *agrees = false;
        }
        if (!fit_guess(f, forced.tokens[i], classes[forced.certainty[i]]))
            return false;
    }
    return true;
}

void sched_fit_draft(const struct sched *s, struct seq *seq, uint32_t n, struct draft *draft)
{
    const struct channel *c = &seq->req->channel;
    const struct draft found = *draft;
    struct fit f = {s, seq, seq->channel, draft};
    int32_t written = channel_forced(c, &f.channel);
    bool agrees = true;

    draft->n = 0;
    if (written >= 0) {
        while (draft->n < n && written >= 0 && fit_put(&f, written, DRAFT_FORCED))
            written = channel_forced(c, &f.channel);
        return;
    }
    while (draft->n < n) {
        if (seq->mask.matcher && !fit_forced(&f, n, &found, &agrees))
            return;
        if (draft->n == n || !agrees || draft->n >= found.n ||
            !fit_guess(&f, found.tokens[draft->n], found.classes[draft->n]))
            return;
    }
}

uint32_t sched_draft_limit(const struct sched *s, const struct seq *seq)
{
    const uint32_t block_tokens = kv_pool_block_tokens(s->runner->pool);
    uint32_t room = seq->req->max_total - seq->n_tokens - 1;

    if (!seq->draft.wanted || seq->draft.n_replay > 0 || seq->state != SEQ_RUNNING)
        return 0;
    /* A snapshot (marks.c) needs a step that ends at the border. */
    if (s->marks.has_snapshots && seq->names)
        room = MIN(room, DIV_UP(seq->n_tokens, block_tokens) * block_tokens - seq->n_tokens);
    return MIN(MIN(s->speculation->max_draft, seq->req->max_draft), room);
}

void sched_init_drafts(struct sched *s, const struct runner *runner)
{
    struct speculation *x = s->speculation;
    const struct backend_ops *ops = runner->backend->ops;
    uint32_t n;

    if (!s->marks.has_snapshots)
        return;
    n = ops->accept ? ops->max_drafted(runner->plan, kv_pool_store(runner->pool)) : 0;
    x->accepts = n > 0;
    x->cost.replays = n == 0;
    if (n > 0)
        x->max_draft = MIN(x->max_draft, n);
}

/* Looks for a draft in texts. */
static void make_draft(struct sched *s, struct seq *seq, struct draft *ret_draft)
{
    const uint32_t n = sched_draft_limit(s, seq);

    *ret_draft = (struct draft){0};
    if (seq->draft.own)
        take_text(seq);
    if (n == 0)
        return;
    if (seq->draft.own)
        draft_repeated(s, seq, n, ret_draft);
    sched_fit_draft(s, seq, n, ret_draft);
}

/* Returns how many tokens at the beginning of a draft are certain. */
static uint32_t n_certain(const uint8_t *classes, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && classes[i] == DRAFT_FORCED)
        i++;
    return i;
}

void sched_make_offer(const struct sched *s, const struct seq *seq, const uint8_t *classes,
                      uint32_t n, struct draft_offer *ret_offer)
{
    const struct request *req = seq->req;
    float before = 1;

    ret_offer->n = n;
    ret_offer->by_model = n > 0 && classes[0] >= DRAFT_MODEL;
    draft_rates_chances(&s->speculation->rates, seq->draft.rates, classes, n, ret_offer->chances);
    /* Tokens that are certain to come are drafted whatever the request says about guesses. */
    for (uint32_t i = 0; i < ret_offer->n; i++) {
        if (ret_offer->chances[i] < req->min_chance * before)
            ret_offer->n = i;
        before = ret_offer->chances[i];
    }
    if (ret_offer->n < req->min_draft)
        ret_offer->n = n_certain(classes, ret_offer->n);
}

/* Shortens a draft to the tokens that the grammar permits, and makes the masks of their rows.
 * Returns the number of tokens. */
static uint32_t fork_masks(struct seq *seq, const int32_t *tokens, uint32_t n)
{
    const struct mask *mask = &seq->mask;

    for (uint32_t i = 0; mask->matcher && i < n; i++) {
        struct mask *fork = &seq->draft.masks[i];

        if (mask_fork(mask, tokens[i], fork) != 0 || grammar_matcher_must_end(fork->matcher))
            return i;
        mask = fork;
    }
    return n;
}

/* Makes room in the KV cache for drafted tokens. Returns the number of tokens for which there is
 * room. */
static uint32_t open_rows(struct seq *seq, uint32_t n)
{
    uint32_t n_open;

    if (n == 0 || kv_table_reserve(&seq->table, n) == KV_FULL)
        return 0;
    n_open = kv_table_open(&seq->table, seq->n_kv, 1 + n) - 1;
    kv_table_truncate(&seq->table, seq->n_tokens + n_open);
    return n_open;
}

/* Takes the blocks that a step with drafted tokens needs, so that the state of RECURRENT groups
 * never has to keep rejected tokens. Returns 0, or KV_FULL if there is no free block. */
static int spare_state(const struct sched *s, struct seq *seq)
{
    return s->speculation->accepts ? kv_table_spare(&seq->table) : kv_table_save(&seq->table);
}

/* Adds up to @n tokens of a draft to the step. Returns how many were added. */
static uint32_t add_draft(struct sched *s, struct seq *seq, const struct draft *draft, uint32_t n)
{
    struct seq_draft *d = &seq->draft;

    n = open_rows(seq, fork_masks(seq, draft->tokens, n));
    if (n > 0 && s->marks.has_snapshots && spare_state(s, seq) == KV_FULL) {
        kv_table_truncate(&seq->table, seq->n_tokens);
        n = 0;
    }
    d->verified = *draft;
    d->verified.n = n;
    for (uint32_t i = 0; i < n; i++)
        seq->tokens[seq->n_tokens + i] = draft->tokens[i];
    if (n > 0) {
        d->pending.n = 0;
    } else if (d->pending.n == 0) {
        d->pending = *draft;
        d->n_compared = 0;
    }
    return n;
}

/* Returns whether every sequence of the step computes only its last token. */
static bool step_only_decodes(const struct step *step)
{
    for (uint32_t i = 0; i < step->n_ready; i++)
        if (step->rows[i] != 1 + step->ready[i]->draft.n_replay ||
            seq_n_left(step->ready[i]) != step->rows[i] ||
            step->ready[i]->n_kv < step->ready[i]->req->n_prompt)
            return false;
    return true;
}

void sched_draft(struct sched *s)
{
    struct speculation *x = s->speculation;
    struct step *step = &s->step;
    const struct plan_limits *limits = &s->runner->limits;
    const uint32_t max_rows = MAX(runner_max_rows(s->runner), step->n_ready);
    uint32_t max_extra;
    double gain;

    step->n_draft_rows = 0;
    step->draft_usec = 0;
    if (!x || !step_only_decodes(step) || (!x->ignores_cost && step->n_ready > DRAFT_MAX_SEQS))
        return;
    for (uint32_t i = 0; i < step->n_ready; i++) {
        make_draft(s, step->ready[i], &x->drafts[i]);
        sched_make_offer(s, step->ready[i], x->drafts[i].classes, x->drafts[i].n, &x->offers[i]);
    }
    max_extra =
        MIN(max_rows - MIN(step->n_replay_rows, max_rows - step->n_ready), limits->max_logits) -
        step->n_ready;
    draft_cost_choose(x->ignores_cost ? NULL : &x->cost, x->offers, step->n_ready, max_extra,
                      x->n_taken, &gain);
    if (x->drafter)
        sched_draft_by_model(s, max_extra, gain);
    for (uint32_t i = 0; i < step->n_ready; i++) {
        const uint32_t n = add_draft(s, step->ready[i], &x->drafts[i], x->n_taken[i]);

        step->rows[i] += n;
        step->n_draft_rows += n;
    }
}

void sched_end_step_draft(struct sched *s, struct seq *seq)
{
    /* There may be more masks than verified tokens, because a draft is also cut where a grammar
     * ends. */
    for (uint32_t i = 0; seq->draft.masks && i < DRAFT_MAX; i++)
        seq->draft.masks[i].matcher = grammar_matcher_free(seq->draft.masks[i].matcher);
    if (!s->speculation || seq->draft.verified.n == 0)
        return;
    kv_table_drop_saved(&seq->table);
    kv_table_truncate(&seq->table, MAX(seq->n_kv, MIN(seq->n_tokens, seq->table.n_tokens)));
    seq->draft.verified.n = 0;
}

void sched_count_drafts(struct sched *s)
{
    struct inf_engine_stats *stats = &s->stats;

    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        const struct step_part *part = &s->step.parts[i];

        stats->n_drafts += part->n_draft > 0;
        stats->n_drafted += part->n_draft;
        stats->n_draft_accepted += part->n_accepted;
        for (uint32_t k = 0; k < MIN(part->n_accepted + 1, part->n_draft); k++) {
            stats->draft_tried[k]++;
            stats->draft_accepted[k] += k < part->n_accepted;
        }
    }
}

/* Compares a token that the step chose with the draft that was not verified. */
static void compare_pending(struct sched *s, struct seq *seq, int32_t token)
{
    struct seq_draft *d = &seq->draft;
    const bool hit = d->pending.tokens[d->n_compared] == token;

    draft_rates_note(&s->speculation->rates, d->rates, d->pending.classes[d->n_compared],
                     d->n_compared, hit);
    if (!hit || ++d->n_compared == d->pending.n)
        d->pending.n = 0;
}

uint32_t sched_n_right_rows(const struct step_part *part)
{
    return part->n_rows - part->n_draft + MAX(part->n_picked, 1u) - 1;
}

void sched_mark_drafted(struct sched *s)
{
    struct step *step = &s->step;

    for (uint32_t i = 0; s->speculation && s->speculation->accepts && i < step->n_parts; i++) {
        step->seqs[i].n_drafted = step->parts[i].n_draft;
        step->seqs[i].drafted = step->parts[i].seq->table.saved;
    }
}

void sched_accept(struct sched *s, const struct batch *batch)
{
    struct speculation *x = s->speculation;
    bool any = false;

    if (!x || !x->accepts)
        return;
    for (uint32_t i = 0; i < s->step.n_parts; i++) {
        const struct step_part *part = &s->step.parts[i];

        x->n_accepted[i] = part->n_draft > 0 ? part->n_picked - 1 : 0;
        any = any || x->n_accepted[i] > 0;
    }
    if (any)
        runner_accept(s->runner, batch, x->n_accepted);
}

void sched_keep_rows(const struct sched *s, const struct step_part *part)
{
    struct seq *seq = part->seq;
    const bool rejected = part->n_draft > 0 && part->n_picked <= part->n_draft;
    const uint32_t n_rows = sched_n_right_rows(part);

    if (!rejected || s->speculation->accepts || !kv_table_has_saved(&seq->table)) {
        seq->n_kv += n_rows;
        seq->draft.n_replay -= part->n_replay;
        return;
    }
    kv_table_restore(&seq->table);
    seq->draft.n_replay = n_rows;
}

void sched_note_draft(struct sched *s, struct step_part *part)
{
    struct seq *seq = part->seq;
    struct seq_draft *d = &seq->draft;
    const uint32_t n_accepted = part->n_picked - 1;

    if (!s->speculation || part->n_picked == 0)
        return;
    if (part->n_draft == 0 && d->pending.n > 0)
        compare_pending(s, seq, step_pick(&s->step, part, 0)->token);
    if (part->n_draft == 0)
        return;
    for (uint32_t i = 0; i < MIN(part->n_picked, part->n_draft); i++)
        draft_rates_note(&s->speculation->rates, d->rates, d->verified.classes[i], i,
                         i < n_accepted);
    d->n_accepted += n_accepted;
    d->n_rejected += part->n_draft - n_accepted;
    part->n_accepted = n_accepted;
}

void sched_drop_picks(struct step_part *part, uint32_t n_used)
{
    struct seq_draft *d = &part->seq->draft;
    const uint32_t n_dropped = part->n_picked - n_used;

    /* All chosen tokens but the last one were drafted. */
    d->n_accepted -= n_dropped - 1;
    d->n_rejected += n_dropped - 1;
    part->n_accepted = n_used;
    part->n_picked = n_used;
}

void sched_note_draft_time(struct sched *s)
{
    const struct step *step = &s->step;
    struct speculation *x = s->speculation;

    if (!x || step->n_prompt_rows > 0 || step->n_single != step->n_ready)
        return;
    draft_cost_note(&x->cost, step->n_ready, step->n_draft_rows + step->n_replay_rows,
                    step->usec - step->draft_usec);
    if (x->drafter)
        sched_earn_probes(s);
}
