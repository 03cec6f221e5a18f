/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and copies a request, and collects its vectors.
 */
#include "embed/job.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/err.h"

/* Limits of a request. With them, no product that this file computes can overflow. */
#define MAX_TEXTS  (1u << 24)
#define MAX_TOKENS ((size_t)1 << 32)

static int check_text(const struct inf_embed_text *t, size_t i, const struct job_shape *shape,
                      struct inf_err *reterr)
{
    if (!t->tokens || t->n_tokens == 0)
        return err_set(reterr, EINVAL, "text %zu is empty", i);
    if (t->n_tokens > shape->max_tokens)
        return err_set(reterr, E2BIG, "text %zu has %zu tokens, but the model takes %u", i,
                       t->n_tokens, shape->max_tokens);
    if (t->n_seen > 0 &&
        (t->n_seen > t->n_tokens || shape->pick != JOB_PICK_ALL || !shape->encoder ||
         (shape->window > 0 && t->n_tokens - t->n_seen >= shape->window)))
        return err_set(
            reterr, EINVAL,
            "text %zu: n_seen is too large, or the model cannot leave the other tokens unseen", i);
    for (size_t j = 0; j < t->n_tokens; j++) {
        if (t->tokens[j] < 0 || (uint32_t)t->tokens[j] >= shape->n_vocab)
            return err_set(reterr, EINVAL, "text %zu: token %d is not in the vocabulary", i,
                           t->tokens[j]);
        if (t->types && shape->n_types > 1 && t->types[j] >= shape->n_types)
            return err_set(reterr, EINVAL, "text %zu: the model has no tokens of type %u", i,
                           t->types[j]);
    }
    return 0;
}

static int find_task(const struct inf_embed_request *q, const struct job_shape *shape,
                     uint32_t *ret_task, struct inf_err *reterr)
{
    *ret_task = 0;
    if (!q->task)
        return 0;
    for (uint32_t i = 0; i < shape->n_tasks; i++)
        if (strcmp(shape->tasks[i], q->task) == 0) {
            *ret_task = i;
            return 0;
        }
    return shape->n_tasks > 0
               ? err_set(reterr, EINVAL, "the model has no task \"%.64s\"", q->task)
               : err_set(reterr, EINVAL, "the model has no tasks, but \"%.64s\" was requested",
                         q->task);
}

static int check_request(const struct inf_embed_request *q, const struct job_shape *shape,
                         size_t *ret_tokens, bool *ret_types, struct inf_err *reterr)
{
    int r = 0;

    if (!q || !q->texts || q->n_texts == 0)
        return err_set(reterr, EINVAL, "there are no texts");
    if (q->n_texts > MAX_TEXTS)
        return err_set(reterr, EINVAL, "more than %u texts", MAX_TEXTS);
    if (q->dimensions > shape->width)
        return err_set(reterr, EINVAL, "%u dimensions were requested, but the model gives %u",
                       q->dimensions, shape->width);
    *ret_tokens = 0;
    *ret_types = false;
    for (size_t i = 0; r == 0 && i < q->n_texts; i++) {
        r = check_text(&q->texts[i], i, shape, reterr);
        *ret_tokens += q->texts[i].n_tokens;
        /* A model without token types accepts texts with token types, and ignores the types. */
        *ret_types |= q->texts[i].types != NULL && shape->n_types > 1;
        if (*ret_tokens > MAX_TOKENS)
            return err_set(reterr, E2BIG, "the request has more than %zu tokens", MAX_TOKENS);
    }
    return r;
}

/* Allocates the result, its index and its floats as one piece of memory. */
static int result_new(struct job *job, uint32_t width, const struct job_shape *shape)
{
    const bool rows = shape->pick == JOB_PICK_ALL;
    const size_t n = rows ? job->n_tokens : job->n_texts;
    const size_t first = ALIGN_UP(sizeof(struct inf_embed_result), 16u);
    const size_t floats = first + ALIGN_UP(rows ? (job->n_texts + 1) * sizeof(size_t) : 0, 64u);
    unsigned char *p = malloc(floats + n * width * sizeof(float));
    size_t *begins = (size_t *)(p + first);

    if (!p)
        return -ENOMEM;
    job->result = (struct inf_embed_result *)p;
    job->vectors = (float *)(p + floats);
    *job->result = (struct inf_embed_result){
        .user = job->user,
        .n_texts = job->n_texts,
        .width = width,
        .vectors = job->vectors,
        .first = rows ? begins : NULL,
        .n_vectors = n,
        .n_tokens = job->n_tokens,
    };
    for (size_t i = 0; i < job->n_texts; i++) {
        job->texts[i].i_vector = rows ? job->texts[i].first : i;
        if (rows)
            begins[i] = job->texts[i].first;
    }
    if (rows)
        begins[job->n_texts] = n;
    return 0;
}

static void copy_texts(struct job *job, const struct inf_embed_request *q)
{
    size_t at = 0;

    for (size_t i = 0; i < q->n_texts; i++) {
        const struct inf_embed_text *t = &q->texts[i];

        job->texts[i] = (struct job_text){.first = at, .n = t->n_tokens, .n_seen = t->n_seen};
        memcpy(job->tokens + at, t->tokens, t->n_tokens * sizeof(*t->tokens));
        if (job->types && t->types)
            memcpy(job->types + at, t->types, t->n_tokens);
        else if (job->types)
            memset(job->types + at, 0, t->n_tokens);
        at += t->n_tokens;
    }
}

int job_new(const struct inf_embed_request *q, const struct job_shape *shape, struct job **ret_job,
            struct inf_err *reterr)
{
    _cleanup_(job_freep) struct job *job = NULL;
    bool types = false;
    uint32_t i_task = 0;
    size_t n = 0;
    int r;

    r = check_request(q, shape, &n, &types, reterr);
    if (r == 0)
        r = find_task(q, shape, &i_task, reterr);
    if (r < 0)
        return r;
    job = NEW(struct job, 1);
    if (!job)
        return err_set(reterr, ENOMEM, "out of memory");
    job->user = q->user;
    job->n_texts = q->n_texts;
    job->n_tokens = n;
    job->full_width = shape->width;
    job->i_task = i_task;
    job->normalize =
        q->normalize == INF_NORMALIZE_MODEL ? shape->normalize : q->normalize == INF_NORMALIZE_YES;
    job->tokens = NEW(int32_t, n);
    job->texts = NEW(struct job_text, q->n_texts);
    job->types = types ? NEW(uint8_t, n) : NULL;
    if (!job->tokens || !job->texts || (types && !job->types))
        return err_set(reterr, ENOMEM, "out of memory");
    copy_texts(job, q);
    if (result_new(job, q->dimensions > 0 ? q->dimensions : shape->width, shape) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    *ret_job = STEAL(job);
    return 0;
}

struct job *job_free(struct job *job)
{
    if (!job)
        return NULL;
    free(job->tokens);
    free(job->types);
    free(job->texts);
    free(job->result);
    free(job);
    return NULL;
}

void job_put(struct job *job, size_t i, const float *row)
{
    const uint32_t n = job->result->width;
    float *y = job->vectors + i * n;
    double sum = 0;

    for (uint32_t j = 0; job->normalize && j < n; j++)
        sum += (double)row[j] * (double)row[j];
    /* A vector of zeros has no direction and is left unchanged. */
    const float scale = sum > 0 ? (float)(1 / sqrt(sum)) : 1;

    for (uint32_t j = 0; j < n; j++)
        y[j] = row[j] * scale;
}

struct inf_embed_result *job_finish(struct job *job)
{
    struct inf_embed_result *result = STEAL(job->result);

    result->request = job->id;
    result->error = job->error;
    if (job->error < 0) {
        result->vectors = NULL;
        result->n_vectors = 0;
    }
    return result;
}
