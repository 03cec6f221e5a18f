/* SPDX-License-Identifier: Apache-2.0 */
/* Answers POST /api/embed and POST /api/embeddings, as in Ollama's API. */
#include <string.h>

#include "common/config/config.h"
#include "common/wire/fields.h"
#include "common/wire/ollama.h"
#include "common/wire/vectors.h"
#include "core/clock.h"
#include "embed/embed-request.h"
#include "embed/embed.h"

static const char *const embed_fields[] = {
    "model", "input", "truncate", "dimensions", "keep_alive", "options", NULL,
};
static const char *const embeddings_fields[] = {
    "model", "prompt", "keep_alive", "options", NULL,
};

/* Reads the fields that /api/embed and /api/embeddings have in common. Ollama truncates texts that
 * are too long. */
static int read_common(struct call *c, struct problem *problem)
{
    _cleanup_json_ json_t *options = NULL;
    int r;

    c->params.cut = INF_CUT_END;
    r = ollama_open_options(c->body, &options, problem);
    if (r < 0)
        return r;
    r = ollama_read_keep_alive(c->body, &c->keep_usec, problem);
    c->has_keep = r > 0;
    return MIN(r, 0);
}

/* Returns whether @value, the field with the texts, has no text. Such a request computes nothing,
 * and only loads the model. */
static bool is_empty(const json_t *value)
{
    return value && (json_is_string(value)  ? json_string_length(value) == 0
                     : json_is_array(value) ? json_array_size(value) == 0
                                            : false);
}

static int embed_read(struct call *c, struct problem *problem)
{
    json_t *input = field_find(c->body, "input");
    bool truncate = true;
    int r;

    if ((r = read_common(c, problem)) < 0 ||
        (r = field_bool(c->body, "truncate", &truncate, problem)) < 0 ||
        (r = params_read_dimensions(&c->params, c->body, problem)) < 0)
        return r;
    c->params.normalize = INF_NORMALIZE_YES;
    c->params.cut = truncate ? INF_CUT_END : INF_CUT_NONE;
    if (is_empty(input))
        return 0;
    return inputs_read_texts(&c->inputs, input, "input", c->request.host->config->embed.max_texts,
                             false, problem);
}

static int embeddings_read(struct call *c, struct problem *problem)
{
    json_t *prompt = field_find(c->body, "prompt");
    int r = read_common(c, problem);

    if (r < 0 || !prompt || is_empty(prompt))
        return r;
    if (!json_is_string(prompt))
        return field_wrong_type("prompt", "a string", prompt, problem);
    return inputs_read_texts(&c->inputs, prompt, "prompt", 1, false, problem);
}

/* Writes the vectors, separated by commas. */
static int put_vectors(struct call *c)
{
    const struct inf_embed_result *result = c->result;
    int r = 0;

    for (size_t i = 0; result && i < result->n_vectors && r == 0; i++) {
        r = i ? str_putc(&c->out, ',') : 0;
        r = r < 0 ? r
                  : vectors_put_array(&c->out, result->vectors + i * result->width, result->width);
    }
    return r;
}

static int embed_answer(struct call *c)
{
    const uint64_t start = c->request.start_usec;
    int r = str_puts(&c->out, "{\"model\":");

    r = r < 0 ? r : json_put_text(&c->out, c->resident->base.name);
    r = r < 0 ? r : str_puts(&c->out, ",\"embeddings\":[");
    r = r < 0 ? r : put_vectors(c);
    return r < 0 ? r
                 : str_printf(&c->out,
                              "],\"total_duration\":%llu,\"load_duration\":%llu,"
                              "\"prompt_eval_count\":%llu}",
                              (unsigned long long)(clock_usec() - start) * 1000u,
                              (unsigned long long)(c->ready_usec - start) * 1000u,
                              (unsigned long long)c->n_tokens);
}

static int embeddings_answer(struct call *c)
{
    int r = str_puts(&c->out, "{\"embedding\":");

    r = r < 0 || c->result ? r : str_puts(&c->out, "[]");
    r = r < 0 ? r : put_vectors(c);
    return r < 0 ? r : str_putc(&c->out, '}');
}

const struct endpoint endpoint_ollama_embed = {
    .fields = embed_fields,
    .kind = INF_EMBED_VECTORS,
    .read = embed_read,
    .prepare = tokens_of_inputs,
    .answer = embed_answer,
};

const struct endpoint endpoint_ollama_embeddings = {
    .fields = embeddings_fields,
    .kind = INF_EMBED_VECTORS,
    .read = embeddings_read,
    .prepare = tokens_of_inputs,
    .answer = embeddings_answer,
};
