/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what snapshots of recurrent state cost, and what they save, for several distances
 * between them, in blocks.
 *
 * bench-marks MODEL [N_TOKENS [N_TEXTS [THREADS]]]
 *
 * A snapshot is a copy of the recurrent state at a border between blocks. The program prints the
 * cost of snapshots: the time of copying a state, as a share of the time of computing the tokens
 * between two snapshots, and the memory of the snapshots of a prompt of N_TOKENS, as a share of the
 * memory of its keys and values. It also prints the gain: how many of the tokens that a prompt
 * shares with an earlier prompt are computed again. The column "anywhere" has the mean over prompts
 * that share the beginning of an earlier prompt, each up to another random place. The columns "90
 * %, 2nd" and "90 %, 3rd" are about the second and the third prompt that share the first 90 % of an
 * earlier prompt. The earlier prompts have random lengths, from half of N_TOKENS to N_TOKENS. These
 * numbers do not depend on the model, so a small model suffices. If N_TEXTS is 0, the program does
 * not measure them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infer/infer.h>

#include "api/handle.h"
#include "core/clock.h"
#include "core/macros.h"
#include "core/rng.h"
#include "sched/sched.h"

#define N_COPIES    41
#define N_RETURNS   4   /* prompts that share a random part of one text */
#define TAIL        100 /* tokens of such a prompt after the shared part */
#define SPEED_BATCH 512

static const uint32_t spacings[] = {8, 16, 32, 64, 128};
static struct rng rng;

struct bench {
    struct inf_model *model;
    uint32_t n_tokens, n_texts, n_threads;
    double copy_usec, usec_a_token;
    uint64_t state_bytes, token_bytes;
};

/* Holds means over texts: how many known tokens were computed again. */
struct again {
    double anywhere, second, third;
};

static _Noreturn void fail(const char *text)
{
    fprintf(stderr, "bench-marks: %s\n", text);
    exit(1);
}

static struct inf_engine *engine_new(const struct bench *b, uint32_t every)
{
    const struct inf_engine_params params = {.model = b->model,
                                             .n_ctx = b->n_tokens + 2 * TAIL,
                                             .n_threads = b->n_threads,
                                             .max_seqs = 4};
    struct inf_engine *engine;
    struct inf_err err;

    if (inf_engine_new(&params, &engine, &err) < 0)
        fail(err.text);
    engine->sched->marks.every = every; /* no request runs yet */
    return engine;
}

/* Returns the tokens of the prompt that were in the cache. */
static uint32_t ask(struct inf_engine *engine, const int32_t *tokens, uint32_t n)
{
    const struct inf_request q = {
        .tokens = tokens, .n_tokens = n, .max_tokens = 1, .n_logprobs = -1, .ignore_eos = true};
    struct inf_event event;
    struct inf_err err;
    uint64_t id;

    if (inf_engine_submit(engine, &q, &id, &err) != 0)
        fail(err.text);
    do
        inf_engine_wait_event(engine, -1, &event);
    while (event.kind != INF_EVENT_FINISH);
    return event.n_cached;
}

static void random_tokens(const struct bench *b, int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(rng_u32(&rng) % inf_model_info(b->model)->n_vocab);
}

/* Sends a prompt that shares the first @n_shared tokens of @text. Returns how many of them were
 * computed again. */
static double ask_shared(const struct bench *b, struct inf_engine *engine, const int32_t *text,
                         uint32_t n_shared)
{
    int32_t *tokens = NEW(int32_t, n_shared + TAIL);
    uint32_t n_cached;

    if (!tokens)
        fail("out of memory");
    memcpy(tokens, text, n_shared * sizeof(*tokens));
    random_tokens(b, tokens + n_shared, TAIL);
    n_cached = ask(engine, tokens, n_shared + TAIL);
    free(tokens);
    return (double)(n_shared - MIN(n_cached, n_shared));
}

static struct again compute_again(const struct bench *b, uint32_t every)
{
    struct inf_engine *engine = engine_new(b, every);
    int32_t *text = NEW(int32_t, b->n_tokens);
    struct again sum = {0};

    if (!text)
        fail("out of memory");
    rng_seed(&rng, 1); /* the same random numbers for each distance */
    for (uint32_t i = 0; i < b->n_texts; i++) {
        const uint32_t n = b->n_tokens / 2 + rng_u32(&rng) % (b->n_tokens / 2);

        random_tokens(b, text, n);
        ask(engine, text, n);
        sum.second += ask_shared(b, engine, text, n / 10 * 9) / b->n_texts;
        sum.third += ask_shared(b, engine, text, n / 10 * 9) / b->n_texts;
        random_tokens(b, text, n);
        ask(engine, text, n);
        for (uint32_t k = 0; k < N_RETURNS; k++)
            sum.anywhere +=
                ask_shared(b, engine, text, 1 + rng_u32(&rng) % (n - 1)) / (b->n_texts * N_RETURNS);
    }
    free(text);
    inf_engine_free(engine);
    return sum;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the lower quartile of the time of copying one state. Returns 0 if the model has none. */
static double copy_usec(struct kv_pool *pool, struct backend *backend, uint32_t i_group)
{
    const uint32_t first = kv_layout_first(kv_pool_layout(pool), i_group);
    double times[N_COPIES];

    for (uint32_t i = 0; i < N_COPIES; i++) {
        const uint64_t begin = clock_nsec();

        /* A step has just written the source, so as much of it as possible is in the caches of the
         * CPU. */
        backend->ops->kv_copy(backend, kv_pool_store(pool), first + 1 + i % 3, first);
        times[i] = (double)(clock_nsec() - begin) * 1e-3;
    }
    qsort(times, N_COPIES, sizeof(*times), compare);
    return times[N_COPIES / 4];
}

static void measure_costs(struct bench *b)
{
    struct inf_engine *engine = engine_new(b, spacings[0]);
    struct kv_pool *pool = engine->sched->runner->pool;
    const struct kv_layout *layout = kv_pool_layout(pool);
    const uint32_t n = MIN(SPEED_BATCH, b->n_tokens);
    int32_t *tokens = NEW(int32_t, n);
    uint64_t begin;

    if (!tokens)
        fail("out of memory");
    rng_seed(&rng, 2);
    for (unsigned i = 0; i < 2; i++) { /* the first run reads the weights */
        random_tokens(b, tokens, n);
        begin = clock_nsec();
        ask(engine, tokens, n);
        b->usec_a_token = (double)(clock_nsec() - begin) * 1e-3 / n;
    }
    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t bytes = kv_layout_block_bytes(layout, g);

        if (layout->groups[g].rule == STATE_RECURRENT) {
            b->state_bytes += bytes;
            b->copy_usec += copy_usec(pool, engine->sched->runner->backend, g);
        } else if (layout->groups[g].rule == STATE_FULL) {
            b->token_bytes += bytes / layout->block_tokens;
        }
    }
    free(tokens);
    inf_engine_free(engine);
}

static void print_row(const struct bench *b, uint32_t every)
{
    const double n_between = 64.0 * every, n_snapshots = b->n_tokens / n_between + 1;
    const double mib = 1.0 / (1 << 20);

    printf("%6u %10.3f %% %9.0f MiB %8.2f", every,
           100 * b->copy_usec / (n_between * b->usec_a_token),
           (double)b->state_bytes * n_snapshots * mib,
           (double)b->state_bytes * n_snapshots / ((double)b->token_bytes * b->n_tokens));
    if (b->n_texts > 0) {
        const struct again again = compute_again(b, every);

        printf(" %10.0f %10.0f %10.0f", again.anywhere, again.second, again.third);
    }
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct bench b = {.n_tokens = argc > 2 ? (uint32_t)atoi(argv[2]) : 16384,
                      .n_texts = argc > 3 ? (uint32_t)atoi(argv[3]) : 0,
                      .n_threads = argc > 4 ? (uint32_t)atoi(argv[4]) : 0};
    struct inf_err err;

    if (argc < 2 || b.n_tokens < 100) {
        fprintf(stderr, "usage: bench-marks MODEL [N_TOKENS [N_TEXTS [THREADS]]]\n");
        return 2;
    }
    if (inf_model_open(&(struct inf_model_params){.path = argv[1]}, &b.model, &err) < 0)
        fail(err.text);
    measure_costs(&b);
    if (b.state_bytes == 0)
        fail("the model has no recurrent state");
    printf("a state of %.1f MiB is copied in %.2f ms; a token takes %.2f ms and %.1f KiB\n",
           (double)b.state_bytes / (1 << 20), b.copy_usec * 1e-3, b.usec_a_token * 1e-3,
           (double)b.token_bytes / 1024);
    printf("%6s %12s %13s %8s%s\n", "blocks", "time", "memory", "of KV",
           b.n_texts > 0 ? "   anywhere  90 %, 2nd  90 %, 3rd" : "");
    for (size_t i = 0; i < ARRAY_SIZE(spacings); i++)
        print_row(&b, spacings[i]);
    inf_model_unref(b.model);
    return 0;
}
