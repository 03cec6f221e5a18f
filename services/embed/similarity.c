/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /similarity, as in text-embeddings-inference, and POST /v1/similarity, which can
 * also compare two lists.
 */
#include "common/config/config.h"
#include "common/wire/fields.h"
#include "common/wire/vectors.h"
#include "embed/embed-request.h"
#include "embed/embed.h"

static const char *const similarity_fields[] = {"model", "inputs", "parameters", NULL};
static const char *const inputs_fields[] = {"source_sentence", "sentences", NULL};
static const char *const parameters_fields[] = {"truncate", "truncation_direction", "prompt_name",
                                                NULL};
static const char *const v1_fields[] = {
    "model",       "inputs", "parameters",  "a",          "b",  "truncate", "truncation_direction",
    "prompt_name", "prompt", "instruction", "dimensions", NULL,
};

/* Reads the format of text-embeddings-inference, which compares one sentence with several
 * others. */
static int read_inputs(struct call *c, struct problem *problem)
{
    const size_t max = c->request.host->config->embed.max_texts;
    json_t *inputs = field_find(c->body, "inputs"), *parameters = field_find(c->body, "parameters");
    json_t *source;

    if (!inputs)
        return problem_set(problem, 400, "missing_field", "inputs",
                           "Missing required parameter: 'inputs'.");
    if (!json_is_object(inputs))
        return field_wrong_type("inputs", "an object", inputs, problem);
    if (parameters && !json_is_object(parameters))
        return field_wrong_type("parameters", "an object", parameters, problem);
    if (fields_known(inputs, "inputs.", inputs_fields, problem) < 0 ||
        (parameters && fields_known(parameters, "parameters.", parameters_fields, problem) < 0))
        return -1;
    source = field_find(inputs, "source_sentence");
    if (source && !json_is_string(source))
        return field_wrong_type("inputs.source_sentence", "a string", source, problem);
    if (inputs_read_texts(&c->inputs, source, "inputs.source_sentence", 1, false, problem) < 0 ||
        inputs_read_texts(&c->more, json_object_get(inputs, "sentences"), "inputs.sentences", max,
                          false, problem) < 0)
        return -1;
    return !parameters || (params_read_cut(&c->params, parameters, problem) == 0 &&
                           params_read_prompt(&c->params, parameters, problem) == 0)
               ? 0
               : -1;
}

static int similarity_read(struct call *c, struct problem *problem)
{
    c->params.normalize = INF_NORMALIZE_YES;
    return read_inputs(c, problem);
}

static int read_lists(struct call *c, struct problem *problem)
{
    const size_t max = c->request.host->config->embed.max_texts;

    if (json_object_get(c->body, "parameters"))
        return problem_set(problem, 400, "unknown_field", "parameters",
                           "Unrecognized request argument supplied: parameters, together with "
                           "'a'.");
    if (inputs_read_texts(&c->inputs, json_object_get(c->body, "a"), "a", max, false, problem) <
            0 ||
        inputs_read_texts(&c->more, json_object_get(c->body, "b"), "b", max, false, problem) < 0 ||
        params_read_cut(&c->params, c->body, problem) < 0 ||
        params_read_prompt(&c->params, c->body, problem) < 0)
        return -1;
    return params_read_dimensions(&c->params, c->body, problem);
}

static int v1_read(struct call *c, struct problem *problem)
{
    c->params.normalize = INF_NORMALIZE_YES;
    c->is_matrix = !json_object_get(c->body, "inputs");
    if (c->is_matrix)
        return read_lists(c, problem);
    for (const char *const *name = v1_fields + 3; *name; name++)
        if (json_object_get(c->body, *name))
            return problem_set(problem, 400, "unknown_field", *name,
                               "Unrecognized request argument supplied: %s, together with "
                               "'inputs'.",
                               *name);
    return read_inputs(c, problem);
}

/* Writes the cosines between text @a of the first list and all texts of the second list. */
static int put_row(struct call *c, size_t a)
{
    const struct inf_embed_result *result = c->result;
    const float *x = result->vectors + a * result->width;
    int r = str_putc(&c->out, '[');

    for (size_t i = 0; i < c->more.n && r == 0; i++) {
        const float *y = result->vectors + (c->inputs.n + i) * result->width;

        r = i ? str_putc(&c->out, ',') : 0;
        r = r < 0 ? r : vectors_put_float(&c->out, (float)inf_similarity(x, y, result->width));
    }
    return r < 0 ? r : str_putc(&c->out, ']');
}

static int similarity_answer(struct call *c)
{
    return put_row(c, 0);
}

static int v1_answer(struct call *c)
{
    int r = str_puts(&c->out, "{\"object\":\"list\",\"model\":");

    r = r < 0 ? r : json_put_text(&c->out, c->resident->base.name);
    r = r < 0 ? r : str_puts(&c->out, c->is_matrix ? ",\"scores\":[" : ",\"scores\":");
    for (size_t i = 0; i < c->inputs.n && r == 0; i++) {
        r = i ? str_putc(&c->out, ',') : 0;
        r = r < 0 ? r : put_row(c, i);
    }
    r = r < 0 ? r : str_puts(&c->out, c->is_matrix ? "],\"usage\":" : ",\"usage\":");
    r = r < 0 ? r : call_put_usage(c);
    return r < 0 ? r : str_putc(&c->out, '}');
}

const struct endpoint endpoint_similarity = {
    .fields = similarity_fields,
    .kind = INF_EMBED_VECTORS,
    .read = similarity_read,
    .prepare = tokens_of_inputs,
    .answer = similarity_answer,
};

const struct endpoint endpoint_v1_similarity = {
    .fields = v1_fields,
    .kind = INF_EMBED_VECTORS,
    .read = v1_read,
    .prepare = tokens_of_inputs,
    .answer = v1_answer,
};
