/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples the text of one window, or finds it by beam search.
 */
#include "transcribe/attempt.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int attempt_space_init(struct attempt_space *space, const struct row_kernels *kernels, uint32_t n)
{
    const uint32_t n_runs = row_n_runs(n);

    space->kernels = kernels;
    space->masses = NEW(float, (size_t)n_runs *ROW_RUN);
    space->peaks = NEW(float, n_runs);
    space->sums = NEW(float, n_runs);
    return space->masses && space->peaks && space->sums ? 0 : -ENOMEM;
}

void attempt_space_done(struct attempt_space *space)
{
    free(space->masses);
    free(space->peaks);
    free(space->sums);
    *space = (struct attempt_space){0};
}

static uint32_t max_said(const struct attempt *a)
{
    return a->params.n_context / 2;
}

static int texts_new(struct decode *d, uint32_t n, struct attempt_text **ret_texts)
{
    const uint32_t n_context = whisper_decoder_shape(d->params.decoder)->n_ctx;
    struct attempt_text *texts = NEW(struct attempt_text, n);

    *ret_texts = texts;
    for (uint32_t i = 0; texts && i < n; i++) {
        texts[i].said = NEW(int32_t, n_context / 2 + 1);
        if (!texts[i].said || decode_text_init(d, &texts[i].table) < 0)
            return -ENOMEM;
    }
    return texts ? 0 : -ENOMEM;
}

static void texts_free(struct attempt_text *texts, uint32_t n)
{
    for (uint32_t i = 0; texts && i < n; i++) {
        if (texts[i].table.pool)
            kv_table_done(&texts[i].table);
        free(texts[i].said);
    }
    free(texts);
}

int attempt_init(struct attempt *a, struct decode *d, const struct speech_tokens *tokens,
                 uint32_t max_texts)
{
    assert(max_texts >= 1 && max_texts <= ATTEMPT_MAX_TEXTS);
    a->tokens = tokens;
    a->max_texts = max_texts;
    a->rules = (struct rules){
        .n_vocab = tokens->n_vocab,
        .end_of_text = tokens->end,
        .no_timestamps = tokens->no_timestamps,
        .timestamp_begin = tokens->timestamp_begin,
        .forbidden = tokens->forbidden,
        .n_forbidden = tokens->n_forbidden,
        .not_first = tokens->not_first,
        .n_not_first = tokens->n_not_first,
        .timestamps = true,
        .max_first_at = 50, /* one second */
    };
    if (texts_new(d, max_texts, &a->texts) < 0 || texts_new(d, max_texts, &a->next) < 0 ||
        texts_new(d, max_texts, &a->finished) < 0)
        return -ENOMEM;
    return 0;
}

void attempt_done(struct attempt *a)
{
    texts_free(a->texts, a->max_texts);
    texts_free(a->next, a->max_texts);
    texts_free(a->finished, a->max_texts);
    *a = (struct attempt){0};
}

static void text_clear(struct attempt_text *t)
{
    kv_table_truncate(&t->table, 0);
    t->n_said = 0;
    t->log_probability = 0;
    t->ended = false;
}

void attempt_clear(struct attempt *a)
{
    for (uint32_t i = 0; i < a->max_texts; i++) {
        text_clear(&a->texts[i]);
        text_clear(&a->next[i]);
        text_clear(&a->finished[i]);
    }
    a->n_finished = 0;
    a->begun = false;
    a->no_speech = NAN;
}

void attempt_begin(struct attempt *a, const struct attempt_params *params)
{
    assert(params->n_texts >= 1 && params->n_texts <= a->max_texts);
    attempt_clear(a);
    a->params = *params;
}

static bool is_beam(const struct attempt *a)
{
    return a->params.temperature <= 0 && a->params.n_texts > 1;
}

uint32_t attempt_items(struct attempt *a, const struct kv_table *memory, struct decode_item *items)
{
    const struct attempt_params *p = &a->params;
    const bool apart = a->tokens->no_speech >= 0 && p->i_start + 1 < p->n_prompt;
    uint32_t n = 0;

    if (!a->begun) {
        items[0] =
            (struct decode_item){&a->texts[0].table, memory, p->prompt,
                                 p->n_prompt,        1,      apart ? (int32_t)p->i_start : -1};
        return 1;
    }
    for (uint32_t i = 0; i < p->n_texts; i++) {
        struct attempt_text *t = &a->texts[i];

        if (!t->ended)
            items[n++] = (struct decode_item){&t->table, memory, t->said + t->n_said - 1, 1, 1, -1};
    }
    return n;
}

/* Returns log Σ exp(x × scale). If @keep is true, stores the masses (sample/row.h), which are
 * proportional to the probabilities, in @space. */
static double log_sum(struct attempt_space *space, const float *x, uint32_t n, float scale,
                      bool keep, float *ret_max)
{
    const uint32_t n_runs = row_n_runs(n);
    float max = -INFINITY;

    if (!space->kernels->peaks(x, n, space->peaks))
        return NAN;
    for (uint32_t i = 0; i < n_runs; i++)
        max = MAX(max, space->peaks[i]);
    *ret_max = max;
    if (!isfinite(max))
        return NAN;
    space->kernels->masses(x, n, max, scale, keep ? space->masses : NULL, space->sums);
    return log(row_total(space->sums, n_runs)) + (double)max * (double)scale;
}

/* Draws a token with a probability proportional to its mass in @space. */
static int32_t draw_token(const struct attempt_space *space, uint32_t n, struct rng *rng)
{
    const uint32_t n_runs = row_n_runs(n);
    double at = rng_double(rng) * row_total(space->sums, n_runs);
    int32_t last = -1;
    uint32_t run = 0;

    for (; run + 1 < n_runs && at >= (double)space->sums[run]; run++)
        at -= (double)space->sums[run];
    for (uint32_t i = run * ROW_RUN; i < MIN((run + 1) * ROW_RUN, n); i++) {
        if (!(space->masses[i] > 0))
            continue;
        last = (int32_t)i;
        at -= (double)space->masses[i];
        if (at < 0)
            break;
    }
    return last;
}

/* Chooses a token by the logits of the text's last token, and appends it to the text. */
static void append_token(struct attempt *a, struct attempt_text *t, struct attempt_space *space,
                         struct rng *rng, float *logits)
{
    const uint32_t n = a->tokens->n_vocab;
    int32_t id = -1;
    float max = 0;
    double all;

    rules_apply(&a->rules, t->said, t->n_said, logits);
    all = log_sum(space, logits, n, 1, false, &max);
    if (all == all && a->params.temperature > 0) {
        log_sum(space, logits, n, (float)(1 / a->params.temperature), true, &max);
        id = draw_token(space, n, rng);
    } else if (all == all) {
        id = row_argmax(logits, n, space->peaks);
    }
    /* The id is negative if no token is allowed, or if the logits are invalid because the weights
     * are broken. */
    if (id < 0 || id == a->tokens->end) {
        t->log_probability += id < 0 ? 0 : (double)logits[id] - all;
        t->ended = true;
        return;
    }
    t->log_probability += (double)logits[id] - all;
    t->said[t->n_said++] = id;
    if (t->n_said == max_said(a) || a->params.n_prompt + t->n_said > a->params.n_context)
        t->ended = true;
}

/* A token that may continue a beam. */
struct branch {
    uint32_t parent;
    int32_t id;
    double log_probability;
};

/* Finds the @k most likely tokens of a row in @k passes over the row, because @k is small. */
static uint32_t top_of(struct attempt_space *space, float *logits, uint32_t n, uint32_t k,
                       const struct attempt_text *text, uint32_t parent, struct branch *out)
{
    float max = 0;
    const double all = log_sum(space, logits, n, 1, false, &max);
    uint32_t m = 0;

    for (; all == all && m < k; m++) {
        int32_t id;

        if (!space->kernels->peaks(logits, n, space->peaks))
            break;
        id = row_argmax(logits, n, space->peaks);
        if (id < 0 || logits[id] == -INFINITY)
            break;
        out[m] = (struct branch){parent, id, text->log_probability + (double)logits[id] - all};
        logits[id] = -INFINITY;
    }
    return m;
}

static int compare_branches(const void *a, const void *b)
{
    const double x = ((const struct branch *)a)->log_probability;
    const double y = ((const struct branch *)b)->log_probability;

    return (x < y) - (x > y);
}

/* Makes @to a copy of @from with the probability of @branch. With @keep, @to also gets the token of
 * @branch and shares the KV blocks of @from. */
static void copy_text(struct attempt_text *to, const struct attempt_text *from,
                      const struct branch *branch, bool keep)
{
    text_clear(to);
    memcpy(to->said, from->said, from->n_said * sizeof(*to->said));
    to->n_said = from->n_said;
    to->log_probability = branch->log_probability;
    if (keep) {
        kv_table_share(&to->table, &from->table, from->table.n_tokens);
        to->said[to->n_said++] = branch->id;
    }
}

/* Continues the most likely branches of all beams. Branches that end become finished texts. */
static bool take_beams(struct attempt *a, struct attempt_space *space, float *logits)
{
    const uint32_t n = a->params.n_texts, n_vocab = a->tokens->n_vocab;
    const uint32_t n_parents = a->begun ? n : 1;
    struct branch branches[ATTEMPT_MAX_TEXTS * (ATTEMPT_MAX_TEXTS + 1)];
    uint32_t n_branches = 0, n_kept = 0;
    struct attempt_text *swap;

    for (uint32_t i = 0; i < n_parents; i++) {
        float *row = logits + (size_t)i * n_vocab;

        rules_apply(&a->rules, a->texts[i].said, a->texts[i].n_said, row);
        n_branches += top_of(space, row, n_vocab, n + 1, &a->texts[i], i, branches + n_branches);
    }
    qsort(branches, n_branches, sizeof(*branches), compare_branches);
    for (uint32_t i = 0; i < n_branches && n_kept < n; i++) {
        const struct attempt_text *from = &a->texts[branches[i].parent];

        if (branches[i].id != a->tokens->end)
            copy_text(&a->next[n_kept++], from, &branches[i], true);
        else if (a->n_finished < n)
            copy_text(&a->finished[a->n_finished++], from, &branches[i], false);
    }
    for (uint32_t i = 0; i < a->max_texts; i++)
        kv_table_truncate(&a->texts[i].table, 0);
    swap = a->texts;
    a->texts = a->next;
    a->next = swap;
    for (uint32_t i = n_kept; i < n; i++)
        a->texts[i].ended = true; /* the weights are broken */
    return a->n_finished == n || n_kept < n || a->texts[0].n_said == max_said(a) ||
           a->params.n_prompt + a->texts[0].n_said > a->params.n_context;
}

/* Counts beams as finished texts, too, if too few texts have ended. */
static void finish_beams(struct attempt *a)
{
    for (uint32_t i = 0; i < a->params.n_texts && a->n_finished < a->params.n_texts; i++)
        if (!a->texts[i].ended)
            copy_text(&a->finished[a->n_finished++], &a->texts[i],
                      &(struct branch){0, 0, a->texts[i].log_probability}, false);
}

static void take_no_speech(struct attempt *a, struct attempt_space *space, const float *logits)
{
    float max = 0;
    const double all = log_sum(space, logits, a->tokens->n_vocab, 1, false, &max);

    a->no_speech = exp((double)logits[a->tokens->no_speech] - all);
}

/* Takes the results of the prompt, with which all texts begin. */
static float *take_prompt(struct attempt *a, struct attempt_space *space, float *logits)
{
    const struct attempt_params *p = &a->params;

    if (a->tokens->no_speech >= 0) {
        take_no_speech(a, space, logits);
        if (p->i_start + 1 < p->n_prompt)
            logits += a->tokens->n_vocab;
    }
    return logits;
}

bool attempt_take(struct attempt *a, struct attempt_space *space, struct rng *rng, float *logits)
{
    const uint32_t n = a->params.n_texts, n_vocab = a->tokens->n_vocab;
    bool over = true;

    if (!a->begun)
        logits = take_prompt(a, space, logits);
    if (is_beam(a)) {
        over = take_beams(a, space, logits);
        a->begun = true;
        if (over)
            finish_beams(a);
        return over;
    }
    /* All texts begin with the blocks of the prompt, and choose their first tokens from one row of
     * logits. The rules write the same values into this row for each text. */
    for (uint32_t i = 1; !a->begun && i < n; i++)
        kv_table_share(&a->texts[i].table, &a->texts[0].table, a->texts[0].table.n_tokens);
    for (uint32_t i = 0; i < n; i++) {
        struct attempt_text *t = &a->texts[i];

        if (t->ended)
            continue;
        append_token(a, t, space, rng, logits);
        if (a->begun)
            logits += n_vocab;
        over &= t->ended;
    }
    a->begun = true;
    return over;
}

const struct attempt_text *attempt_best(const struct attempt *a)
{
    const bool beams = is_beam(a) && a->n_finished > 0;
    const struct attempt_text *texts = beams ? a->finished : a->texts;
    const uint32_t n = beams ? a->n_finished : a->params.n_texts;
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (texts[i].log_probability / MAX(texts[i].n_said, 1u) >
            texts[best].log_probability / MAX(texts[best].n_said, 1u))
            best = i;
    return &texts[best];
}
