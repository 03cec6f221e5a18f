/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the times of a window's words: lets the decoder read the text of the window again, and
 * aligns the attention scores.
 */
#include "transcribe/timing.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "transcribe/align.h"

/* Limit of the bytes of scores. If the scores of all heads need more, the text is read several
 * times. */
#define MAX_SCORES ((size_t)128 << 20)

struct reading {
    const struct timing_params *p;
    int32_t *tokens; /* the start, the token <|notimestamps|>, the text, its end */
    uint32_t n_tokens, n_said, n_frames;
    float *probabilities; /* [n_said] */
};

/* Returns the probability of token @id among the text tokens, whose ids are below @end. */
static float token_probability(const float *logits, int32_t end, int32_t id)
{
    float max = -INFINITY;
    double sum = 0;

    for (int32_t i = 0; i < end; i++)
        max = MAX(max, logits[i]);
    for (int32_t i = 0; i < end; i++)
        sum += (double)expf(logits[i] - max);
    return (float)((double)expf(logits[id] - max) / sum);
}

/* Takes the probabilities of tokens from @n rows of logits. Row r belongs to token @first + r, and
 * gives the probability of the token after it. */
static void take_probabilities(const struct reading *rd, uint32_t first, uint32_t n)
{
    const struct timing_params *p = rd->p;

    for (uint32_t r = 0; r < n; r++) {
        const uint32_t at = first + r;

        if (at < p->n_start || at - p->n_start >= rd->n_said)
            continue;
        rd->probabilities[at - p->n_start] = token_probability(
            p->logits + (size_t)r * p->tokens->n_vocab, p->tokens->end, rd->tokens[at + 1]);
    }
}

/* Reads all tokens and keeps the scores of @n_heads heads from @i_head on. */
static int read_heads(const struct reading *rd, uint32_t i_head, uint32_t n_heads, float *scores)
{
    const struct timing_params *p = rd->p;
    const struct decode_params *limits = &p->decode->params;
    const uint32_t step = MIN(MIN(limits->max_rows, limits->max_logits), p->n_logits);
    int r = 0;

    for (uint32_t first = 0; r == 0 && first < rd->n_tokens; first += step) {
        const uint32_t n = MIN(step, rd->n_tokens - first);
        const struct decode_item item = {p->text, p->memory,           rd->tokens + first,
                                         n,       i_head == 0 ? n : 0, -1};
        const struct decode_scores to = {
            .kept = scores + (size_t)first * rd->n_frames,
            .i_kept = i_head,
            .n_kept = n_heads,
            .kept_tokens = rd->n_frames,
            .kept_row = rd->n_frames,
            .kept_head = (size_t)rd->n_tokens * rd->n_frames,
        };

        r = decode_run(p->decode, &item, 1, p->logits, &to);
        if (r == 0 && i_head == 0)
            take_probabilities(rd, first, n);
    }
    kv_table_truncate(p->text, 0);
    return r;
}

/* Finds where each token of the text and the end token begin, in steps of 20 ms. */
static int find_frames(const struct reading *rd, uint32_t *frames)
{
    const size_t head = (size_t)rd->n_tokens * rd->n_frames;
    const uint32_t most = (uint32_t)MAX(MAX_SCORES / sizeof(float) / head, (size_t)1);
    const uint32_t n_heads = rd->p->n_heads, n_step = MIN(most, n_heads);
    _cleanup_free_ float *scores = NEW(float, n_step *head), *sum = NEW(float, head);
    struct align_params align = {
        .n_tokens = rd->n_tokens, .n_frames = rd->n_frames, .n_skip = rd->p->n_start};
    int r = scores && sum ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < n_heads; i += n_step) {
        align.n_heads = MIN(n_step, n_heads - i);
        r = read_heads(rd, i, align.n_heads, scores);
        if (r == 0)
            r = align_add(&align, scores, sum);
    }
    align.n_heads = n_heads;
    return r == 0 ? align_path(&align, sum, frames) : r;
}

static int join_text(const struct timing_params *p, const int32_t *said, uint32_t n,
                     struct timing *t)
{
    size_t len = 0;

    for (uint32_t i = 0; i < n; i++)
        len += inf_tokenizer_token_bytes(p->tok, said[i], NULL, 0);
    t->text = NEW(char, len + 1);
    t->ends = NEW(size_t, n);
    t->words = NEW(struct word, n);
    if (!t->text || !t->ends || !t->words)
        return -ENOMEM;
    for (uint32_t i = 0, at = 0; i < n; i++) {
        at += (uint32_t)inf_tokenizer_token_bytes(p->tok, said[i], (unsigned char *)t->text + at,
                                                  len - at);
        t->ends[i] = at;
    }
    return 0;
}

static int make_words(const struct reading *rd, struct timing *t)
{
    const struct words_text text = {t->text, t->ends, rd->n_said};
    _cleanup_free_ uint32_t *frames = NEW(uint32_t, rd->n_said + 1);
    _cleanup_free_ double *scratch = NEW(double, rd->n_said);
    int r;

    if (!frames || !scratch)
        return -ENOMEM;
    r = find_frames(rd, frames);
    if (r < 0)
        return r;
    t->n_words = words_split(&text, rd->p->has_blanks, t->words);
    words_set_times(t->words, t->n_words, frames, rd->probabilities);
    t->lengths = words_measure(t->words, t->n_words, scratch);
    words_join(&text, t->words, t->n_words, &t->lengths);
    return 0;
}

int timing_make(const struct timing_params *p, const int32_t *said, uint32_t n,
                struct timing *ret_timing)
{
    struct reading rd = {
        .p = p, .n_tokens = p->n_start + n + 2, .n_said = n, .n_frames = p->n_frames / 2};
    _cleanup_free_ int32_t *tokens = NEW(int32_t, rd.n_tokens);
    _cleanup_free_ float *probabilities = NEW(float, n + 1);
    int r;

    *ret_timing = (struct timing){0};
    if (n == 0 || rd.n_frames == 0 || p->n_heads == 0)
        return 0;
    if (!tokens || !probabilities)
        return -ENOMEM;
    memcpy(tokens, p->start, p->n_start * sizeof(*tokens));
    tokens[p->n_start] = p->tokens->no_timestamps;
    memcpy(tokens + p->n_start + 1, said, n * sizeof(*tokens));
    tokens[rd.n_tokens - 1] = p->tokens->end;
    rd.tokens = tokens;
    rd.probabilities = probabilities;
    r = join_text(p, said, n, ret_timing);
    return r == 0 ? make_words(&rd, ret_timing) : r;
}

void timing_done(struct timing *t)
{
    free(t->words);
    free(t->text);
    free(t->ends);
    *t = (struct timing){0};
}
