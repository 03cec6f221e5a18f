/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /v1/rerank, /rerank, /v2/rerank and /v1/score (routes.h has further paths): ranks
 * documents by a query, or gives them scores.
 *
 * /v1/rerank and /rerank take two formats. Requests with the field `documents` have the format of
 * Jina and Cohere, and requests with the field `texts` have that of text-embeddings-inference.
 *
 * Models for late interaction can rank too. For each token of the query, the similarity to the most
 * similar token of the document is found (ColBERT, Khattab and Zaharia 2020). The score is the mean
 * of these similarities, or their sum with raw_scores.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "common/config/config.h"
#include "common/wire/fields.h"
#include "common/wire/vectors.h"
#include "embed/embed-request.h"
#include "embed/embed.h"

static const char *const rerank_fields[] = {
    "model",       "query",
    "documents",   "texts",
    "top_n",       "return_documents",
    "truncate",    "truncation_direction",
    "instruction", "raw_scores",
    "return_text", "task",
    NULL,
};

static int read_query(struct call *c, struct problem *problem)
{
    const int r = field_string(c->body, "query", &c->query.text, &c->query.len, problem);

    if (r < 0)
        return r;
    if (r == 0)
        return problem_set(problem, 400, "missing_field", "query",
                           "Missing required parameter: 'query'.");
    if (!c->query.len)
        return problem_set(problem, 400, "empty_input", "query", "'query' is empty.");
    return inputs_check_text("query", c->query.len, problem);
}

/* Refuses the fields @names, which belong to the other format. */
static int refuse_fields(struct call *c, const char *const *names, struct problem *problem)
{
    for (; *names; names++)
        if (json_object_get(c->body, *names))
            return problem_set(problem, 400, "unknown_field", *names,
                               "Unrecognized request argument supplied: %s, together with '%s'.",
                               *names, c->tei ? "texts" : "documents");
    return 0;
}

static int read_documents(struct call *c, struct problem *problem)
{
    static const char *const others[] = {"raw_scores", "return_text", NULL};
    int64_t top_n = 0;

    /* Documents are often longer than the model's context, so they are truncated. */
    c->params.cut = INF_CUT_END;
    if (refuse_fields(c, others, problem) < 0 ||
        field_int(c->body, "top_n", 1, INT32_MAX, &top_n, problem) < 0 ||
        field_bool(c->body, "return_documents", &c->with_texts, problem) < 0)
        return -1;
    c->top_n = (uint32_t)top_n;
    return inputs_read_documents(&c->inputs, json_object_get(c->body, "documents"), "documents",
                                 c->request.host->config->embed.max_texts, problem);
}

static int read_texts(struct call *c, struct problem *problem)
{
    static const char *const others[] = {"documents", "return_documents", NULL};
    int64_t top_n = 0;

    /* llama-server also takes top_n here. */
    if (refuse_fields(c, others, problem) < 0 ||
        field_int(c->body, "top_n", 1, INT32_MAX, &top_n, problem) < 0 ||
        field_bool(c->body, "raw_scores", &c->raw_scores, problem) < 0 ||
        field_bool(c->body, "return_text", &c->with_texts, problem) < 0)
        return -1;
    c->top_n = (uint32_t)top_n;
    return inputs_read_texts(&c->inputs, json_object_get(c->body, "texts"), "texts",
                             c->request.host->config->embed.max_texts, true, problem);
}

static int rerank_read(struct call *c, struct problem *problem)
{
    c->tei = json_object_get(c->body, "texts") != NULL;
    if (read_query(c, problem) < 0 ||
        (c->tei ? read_texts(c, problem) : read_documents(c, problem)) < 0)
        return -1;
    if (params_read_prompt(&c->params, c->body, problem) < 0 ||
        params_read_task(&c->params, c->body, problem) < 0)
        return -1;
    c->params.normalize = INF_NORMALIZE_YES;
    return params_read_cut(&c->params, c->body, problem);
}

struct rank {
    float score;
    size_t index;
};

/* Puts the best documents first, and documents with equal scores in their order in the request. */
static int rank_compare(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Returns the score that a classifier gives to document @i. */
static float score_of(const struct call *c, size_t i)
{
    const struct inf_embed_result *result = c->result;
    const float *s = result->vectors + i * result->width;
    /* The difference between the logits of the classes "yes" and "no" corresponds to the logit of a
     * classifier with a single class. */
    const float logit = result->width == 2 ? s[1] - s[0] : s[0];

    return c->raw_scores ? logit : (float)(1 / (1 + exp(-(double)logit)));
}

/* Returns the score that late interaction gives to document @i. The query is the first text of the
 * result. With raw_scores the score is the sum over the query's tokens, otherwise the mean. */
static float score_of_rows(const struct call *c, size_t i)
{
    const struct inf_embed_result *r = c->result;
    const size_t *first = r->first, n = first[1];
    const double sum = inf_similarity_rows(r->vectors, n, r->vectors + first[i + 1] * r->width,
                                           first[i + 2] - first[i + 1], r->width);

    return (float)(c->raw_scores ? sum : sum / (double)n);
}

static struct rank *make_ranks(const struct call *c)
{
    const bool by_rows = token_vectors_are_made(c);
    struct rank *ranks = NEW(struct rank, c->inputs.n);

    for (size_t i = 0; ranks && i < c->inputs.n; i++)
        ranks[i] = (struct rank){by_rows ? score_of_rows(c, i) : score_of(c, i), i};
    if (ranks)
        qsort(ranks, c->inputs.n, sizeof(*ranks), rank_compare);
    return ranks;
}

static int put_rank(struct call *c, const struct rank *rank)
{
    const struct input *document = &c->inputs.items[rank->index];
    int r = str_printf(&c->out, "{\"index\":%zu,\"%s\":", rank->index,
                       c->tei ? "score" : "relevance_score");

    r = r < 0 ? r : vectors_put_float(&c->out, rank->score);
    if (r == 0 && c->with_texts) {
        r = str_puts(&c->out, c->tei ? ",\"text\":" : ",\"document\":{\"text\":");
        r = r < 0 ? r : json_put_string(&c->out, document->text, document->len);
        r = r < 0 || c->tei ? r : str_putc(&c->out, '}');
    }
    return r < 0 ? r : str_putc(&c->out, '}');
}

static int put_ranks(struct call *c, const struct rank *ranks)
{
    const size_t n = c->top_n ? MIN(c->top_n, c->inputs.n) : c->inputs.n;
    int r = str_putc(&c->out, '[');

    for (size_t i = 0; i < n && r == 0; i++) {
        r = i ? str_putc(&c->out, ',') : 0;
        r = r < 0 ? r : put_rank(c, &ranks[i]);
    }
    return r < 0 ? r : str_putc(&c->out, ']');
}

static int rerank_answer(struct call *c)
{
    _cleanup_free_ struct rank *ranks = make_ranks(c);
    int r;

    if (!ranks)
        return -ENOMEM;
    if (c->tei)
        return put_ranks(c, ranks);
    r = str_printf(&c->out, "{\"id\":\"%s\",\"object\":\"list\",\"model\":", c->request.id);
    r = r < 0 ? r : json_put_text(&c->out, c->resident->base.name);
    r = r < 0 ? r : str_puts(&c->out, ",\"results\":");
    r = r < 0 ? r : put_ranks(c, ranks);
    r = r < 0 ? r : str_puts(&c->out, ",\"usage\":");
    r = r < 0 ? r : call_put_usage(c);
    return r < 0 ? r : str_putc(&c->out, '}');
}

static const char *const cohere_fields[] = {
    "model", "query", "documents", "top_n", "return_documents", NULL};

/* Writes an answer of version 2 of Cohere's API. */
static int cohere_answer(struct call *c)
{
    _cleanup_free_ struct rank *ranks = make_ranks(c);
    int r = ranks ? str_printf(&c->out, "{\"id\":\"%s\",\"results\":", c->request.id) : -ENOMEM;

    r = r < 0 ? r : put_ranks(c, ranks);
    return r < 0 ? r
                 : str_printf(&c->out,
                              ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":"
                              "{\"search_units\":1},\"tokens\":{\"input_tokens\":%llu}}}",
                              (unsigned long long)c->n_tokens);
}

static const char *const score_fields[] = {"model", "text_1", "text_2", "user", NULL};

/* Reads a request to vLLM's endpoint, which compares one text with others. */
static int score_read(struct call *c, struct problem *problem)
{
    json_t *first = field_find(c->body, "text_1");

    if (json_is_array(first) && json_array_size(first) == 1)
        first = json_array_get(first, 0);
    if (json_is_array(first))
        return problem_set(problem, 400, "unsupported_value", "text_1",
                           "Unsupported value: 'text_1' must be one text.");
    if (!first)
        return problem_set(problem, 400, "missing_field", "text_1",
                           "Missing required parameter: 'text_1'.");
    if (!json_is_string(first))
        return field_wrong_type("text_1", "a string", first, problem);
    c->query = (struct input){.text = json_string_value(first), .len = json_string_length(first)};
    if (!c->query.len)
        return problem_set(problem, 400, "empty_input", "text_1", "'text_1' is empty.");
    if (inputs_check_text("text_1", c->query.len, problem) < 0)
        return -1;
    c->params.cut = INF_CUT_END;
    c->params.normalize = INF_NORMALIZE_YES;
    return inputs_read_texts(&c->inputs, json_object_get(c->body, "text_2"), "text_2",
                             c->request.host->config->embed.max_texts, false, problem);
}

static int score_answer(struct call *c)
{
    const bool by_rows = token_vectors_are_made(c);
    int r = str_printf(&c->out, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%lld,\"model\":",
                       c->request.id, (long long)time(NULL));

    r = r < 0 ? r : json_put_text(&c->out, c->resident->base.name);
    r = r < 0 ? r : str_puts(&c->out, ",\"data\":[");
    for (size_t i = 0; i < c->inputs.n && r == 0; i++) {
        r = str_printf(&c->out, "%s{\"index\":%zu,\"object\":\"score\",\"score\":", i ? "," : "",
                       i);
        r = r < 0 ? r : vectors_put_float(&c->out, by_rows ? score_of_rows(c, i) : score_of(c, i));
        r = r < 0 ? r : str_putc(&c->out, '}');
    }
    r = r < 0 ? r : str_puts(&c->out, "],\"usage\":");
    r = r < 0 ? r : call_put_usage(c);
    return r < 0 ? r : str_putc(&c->out, '}');
}

const struct endpoint endpoint_cohere_rerank = {
    .fields = cohere_fields,
    .kind = INF_EMBED_SCORES,
    .read = rerank_read,
    .prepare = tokens_of_ranking,
    .answer = cohere_answer,
};

const struct endpoint endpoint_score = {
    .fields = score_fields,
    .kind = INF_EMBED_SCORES,
    .read = score_read,
    .prepare = tokens_of_ranking,
    .answer = score_answer,
};

const struct endpoint endpoint_rerank = {
    .fields = rerank_fields,
    .kind = INF_EMBED_SCORES,
    .read = rerank_read,
    .prepare = tokens_of_ranking,
    .answer = rerank_answer,
};
