/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles vectors of single tokens, and answers POST /embed_all, as in text-embeddings-inference.
 *
 * A text has one vector for each of its tokens and for each token that the tokenizer puts around
 * it. Models for late interaction are trained to make vectors of tokens; other models pool them
 * into the vector of the text.
 */
#include <string.h>

#include "common/config/config.h"
#include "common/wire/vectors.h"
#include "embed/embed-request.h"
#include "embed/embed.h"

static const char *const embed_all_fields[] = {
    "model",  "inputs",    "dimensions", "prompt_name", "truncate", "truncation_direction",
    "prompt", "normalize", "task",       NULL,
};

bool token_vectors_are_made(const struct call *c)
{
    return c->kind == INF_EMBED_ROWS || embed_resident_ranks_by_rows(c->resident);
}

static int check_size(const struct call *c, struct problem *problem)
{
    const uint64_t max = c->request.host->config->embed.max_token_vectors;
    const uint32_t width =
        c->params.dimensions ? c->params.dimensions : inf_embedder_width(c->resident->embedder);

    if (c->n_tokens <= max / (width * sizeof(float)))
        return 0;
    return problem_set(problem, 400, "too_many_vectors", c->inputs.param,
                       "The texts have %llu tokens. Their vectors, of %u numbers each, need more "
                       "than the %llu bytes that one request may take here. Please send fewer at "
                       "once.",
                       (unsigned long long)c->n_tokens, width, (unsigned long long)max);
}

/* Returns whether the vectors of all tokens of a text are kept, because the client sent the text as
 * token ids. */
static bool is_whole(const struct call *c, size_t i_text)
{
    return c->kind != INF_EMBED_SCORES && c->inputs.items[i_text].tokens;
}

/* Returns the role of a text. The first text of a ranking is the query. */
static enum interaction_role role_of(const struct call *c, size_t i_text)
{
    if (c->kind != INF_EMBED_SCORES)
        return c->role;
    return i_text == 0 ? INTERACTION_QUERY : INTERACTION_DOCUMENT;
}

int token_vectors_prepare(struct call *c, struct problem *problem)
{
    const struct interaction *it = c->resident->interaction;
    uint8_t *kept;
    int r;

    if (!token_vectors_are_made(c))
        return 0;
    r = check_size(c, problem);
    if (r < 0 || !it || it->n_skipped == 0)
        return r;
    kept = c->kept = NEW(uint8_t, c->n_tokens);
    if (!kept)
        return problem_no_memory(problem);
    for (size_t i = 0; i < c->n_texts; i++)
        for (size_t j = 0; j < c->texts[i].n_tokens; j++)
            *kept++ =
                is_whole(c, i) || interaction_counts(it, role_of(c, i), c->texts[i].tokens[j]);
    return 0;
}

/* The service owns the memory of the result, so it may move the vectors within it. */
void token_vectors_drop(struct call *c)
{
    struct inf_embed_result *result = c->result;
    float *vectors = (float *)result->vectors;
    size_t *first = (size_t *)result->first, n = 0;

    if (!c->kept)
        return;
    for (size_t i = 0; i < result->n_texts; i++) {
        const size_t begin = first[i];

        first[i] = n;
        for (size_t j = begin; j < first[i + 1]; j++)
            if (c->kept[j])
                memmove(vectors + n++ * result->width, vectors + j * result->width,
                        result->width * sizeof(float));
    }
    first[result->n_texts] = result->n_vectors = n;
}

int token_vectors_put(struct call *c, size_t i)
{
    const struct inf_embed_result *result = c->result;
    int r = str_putc(&c->out, '[');

    for (size_t j = result->first[i]; j < result->first[i + 1] && r == 0; j++) {
        const float *vector = result->vectors + j * result->width;

        r = j > result->first[i] ? str_putc(&c->out, ',') : 0;
        if (r == 0)
            r = c->base64 ? vectors_put_base64(&c->out, vector, result->width)
                          : vectors_put_array(&c->out, vector, result->width);
    }
    return r < 0 ? r : str_putc(&c->out, ']');
}

static int embed_all_read(struct call *c, struct problem *problem)
{
    return embeddings_read_common(c, "inputs", problem);
}

/* By default vectors are not normalized, as in text-embeddings-inference. Models that were trained
 * to compare vectors of tokens keep their own default. */
static int embed_all_prepare(struct call *c, struct problem *problem)
{
    if (c->params.normalize == INF_NORMALIZE_MODEL &&
        !inf_model_info(c->resident->base.model)->token_width)
        c->params.normalize = INF_NORMALIZE_NO;
    return tokens_of_inputs(c, problem);
}

static int embed_all_answer(struct call *c)
{
    int r = str_putc(&c->out, '[');

    for (size_t i = 0; i < c->result->n_texts && r == 0; i++) {
        r = i ? str_putc(&c->out, ',') : 0;
        r = r < 0 ? r : token_vectors_put(c, i);
    }
    return r < 0 ? r : str_putc(&c->out, ']');
}

const struct endpoint endpoint_embed_all = {
    .fields = embed_all_fields,
    .kind = INF_EMBED_ROWS,
    .read = embed_all_read,
    .prepare = embed_all_prepare,
    .answer = embed_all_answer,
};
