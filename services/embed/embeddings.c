/* SPDX-License-Identifier: Apache-2.0 */
/* Answers POST /v1/embeddings, as in OpenAI's API, and POST /embed, as in
 * text-embeddings-inference. */
#include <string.h>

#include "common/config/config.h"
#include "common/wire/fields.h"
#include "common/wire/vectors.h"
#include "embed/embed-request.h"
#include "embed/embed.h"

static const char *const embeddings_fields[] = {
    "task",       "model",       "input",       "encoding_format", "embedding_type",
    "dimensions", "user",        "prompt_name", "truncate",        "truncation_direction",
    "prompt",     "instruction", "normalize",   "normalized",      "return_multivector",
    NULL,
};
static const char *const embed_fields[] = {
    "model",  "inputs",    "dimensions", "prompt_name", "truncate", "truncation_direction",
    "prompt", "normalize", "task",       NULL,
};

static int check_prompt(const struct call *c, struct problem *problem)
{
    const struct inputs_prompt *p = &c->params.prompt;

    for (size_t i = 0; i < c->inputs.n; i++)
        if (c->inputs.items[i].tokens && (p->name || p->text || p->instruction))
            return problem_set(problem, 400, "invalid_value",
                               p->name   ? "prompt_name"
                               : p->text ? "prompt"
                                         : "instruction",
                               "Token ids are taken as they are: no prompt can be put before "
                               "them.");
    return 0;
}

int embeddings_read_common(struct call *c, const char *param, struct problem *problem)
{
    if (params_read_cut(&c->params, c->body, problem) < 0 ||
        params_read_prompt(&c->params, c->body, problem) < 0 ||
        params_read_task(&c->params, c->body, problem) < 0 ||
        params_read_normalize(&c->params, c->body, problem) < 0 ||
        params_read_dimensions(&c->params, c->body, problem) < 0)
        return -1;
    if (inputs_read(&c->inputs, json_object_get(c->body, param), param,
                    c->request.host->config->embed.max_texts, problem) < 0)
        return -1;
    return check_prompt(c, problem);
}

/* Reads the encoding, which Jina's API calls the type. */
static int read_format(struct call *c, struct problem *problem)
{
    static const char *const names[] = {"encoding_format", "embedding_type"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *format = NULL;

        if (field_text(c->body, names[i], &format, problem) < 0)
            return -1;
        if (!format)
            continue;
        c->base64 = strcmp(format, "base64") == 0;
        if (!c->base64 && strcmp(format, "float") != 0)
            return problem_set(problem, 400, "invalid_value", names[i],
                               "Invalid value for '%s': it must be \"float\" or \"base64\".",
                               names[i]);
    }
    return 0;
}

static int embeddings_read(struct call *c, struct problem *problem)
{
    bool rows = false;
    const char *user;
    size_t len;

    if (read_format(c, problem) < 0 || field_string(c->body, "user", &user, &len, problem) < 0 ||
        field_bool(c->body, "return_multivector", &rows, problem) < 0)
        return -1;
    if (rows)
        c->kind = INF_EMBED_ROWS;
    return embeddings_read_common(c, "input", problem);
}

static int put_vector(struct call *c, size_t i)
{
    const struct inf_embed_result *result = c->result;
    const float *vector = result->vectors + i * result->width;

    return c->base64 ? vectors_put_base64(&c->out, vector, result->width)
                     : vectors_put_array(&c->out, vector, result->width);
}

/* Vectors of single tokens are put into a field with the name that Jina's API uses. */
static int put_item(struct call *c, size_t i)
{
    const char *name = c->kind == INF_EMBED_ROWS ? "embeddings" : "embedding";
    int r = str_printf(&c->out, "%s{\"object\":\"%s\",\"index\":%zu,\"%s\":", i ? "," : "", name, i,
                       name);

    if (r == 0)
        r = c->kind == INF_EMBED_ROWS ? token_vectors_put(c, i) : put_vector(c, i);
    return r < 0 ? r : str_putc(&c->out, '}');
}

static int embeddings_answer(struct call *c)
{
    int r = str_puts(&c->out, "{\"object\":\"list\",\"data\":[");

    for (size_t i = 0; i < c->result->n_texts && r == 0; i++)
        r = put_item(c, i);
    r = r < 0 ? r : str_puts(&c->out, "],\"model\":");
    r = r < 0 ? r : json_put_text(&c->out, c->resident->base.name);
    r = r < 0 ? r : str_puts(&c->out, ",\"usage\":");
    r = r < 0 ? r : call_put_usage(c);
    return r < 0 ? r : str_putc(&c->out, '}');
}

static int embed_read(struct call *c, struct problem *problem)
{
    c->params.normalize = INF_NORMALIZE_YES;
    return embeddings_read_common(c, "inputs", problem);
}

static int embed_answer(struct call *c)
{
    const struct inf_embed_result *result = c->result;
    int r = str_putc(&c->out, '[');

    for (size_t i = 0; i < result->n_vectors && r == 0; i++) {
        r = i ? str_putc(&c->out, ',') : 0;
        r = r < 0 ? r
                  : vectors_put_array(&c->out, result->vectors + i * result->width, result->width);
    }
    return r < 0 ? r : str_putc(&c->out, ']');
}

static const char *const llama_fields[] = {"model", "input", "content", "embd_normalize", NULL};

/* Reads a request to llama-server's endpoint, whose answers are arrays of vectors. */
static int llama_read(struct call *c, struct problem *problem)
{
    const char *param = json_object_get(c->body, "content") ? "content" : "input";
    int64_t norm = 2;

    if (field_int(c->body, "embd_normalize", -1, 2, &norm, problem) < 0)
        return -1;
    if (norm != -1 && norm != 2)
        return problem_set(problem, 400, "unsupported_value", "embd_normalize",
                           "Unsupported value: 'embd_normalize' must be 2 or -1.");
    c->params.normalize = norm == 2 ? INF_NORMALIZE_YES : INF_NORMALIZE_NO;
    return inputs_read(&c->inputs, json_object_get(c->body, param), param,
                       c->request.host->config->embed.max_texts, problem);
}

static int llama_answer(struct call *c)
{
    int r = str_putc(&c->out, '[');

    for (size_t i = 0; i < c->result->n_texts && r == 0; i++) {
        r = str_printf(&c->out, "%s{\"index\":%zu,\"embedding\":[", i ? "," : "", i);
        r = r < 0 ? r : put_vector(c, i);
        r = r < 0 ? r : str_puts(&c->out, "]}");
    }
    return r < 0 ? r : str_putc(&c->out, ']');
}

const struct endpoint endpoint_llama_embeddings = {
    .fields = llama_fields,
    .kind = INF_EMBED_VECTORS,
    .read = llama_read,
    .prepare = tokens_of_inputs,
    .answer = llama_answer,
};

const struct endpoint endpoint_embeddings = {
    .fields = embeddings_fields,
    .kind = INF_EMBED_VECTORS,
    .read = embeddings_read,
    .prepare = tokens_of_inputs,
    .answer = embeddings_answer,
};

const struct endpoint endpoint_embed = {
    .fields = embed_fields,
    .kind = INF_EMBED_VECTORS,
    .read = embed_read,
    .prepare = tokens_of_inputs,
    .answer = embed_answer,
};
