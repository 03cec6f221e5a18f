/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the prefix cache of an engine.
 *
 * bench-prefix MODEL [N_TOKENS [N_ROUNDS [THREADS [DEVICE]]]]
 *
 * First the program measures the gain: the time to the first token of a new prompt of N_TOKENS and
 * of a prompt that is in the cache. Then it measures the cost: it sends prompts that never repeat,
 * alternately with and without the cache; the ratio of the times is the cost. Times are lower
 * quartiles, because other load on the machine only makes them longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infer/infer.h>

#include "core/clock.h"
#include "core/macros.h"
#include "core/rng.h"

static struct rng rng;

static void new_prompt(int32_t *tokens, uint32_t n, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(rng_u32(&rng) % n_vocab);
}

/* Returns the seconds to the first token. Also sets the seconds to the end, and the number of
 * tokens from the cache. */
static double ask(struct inf_engine *engine, const int32_t *tokens, uint32_t n, bool no_cache,
                  double *ret_total, uint32_t *ret_cached)
{
    const struct inf_request q = {.tokens = tokens,
                                  .n_tokens = n,
                                  .max_tokens = 8,
                                  .n_logprobs = -1,
                                  .ignore_eos = true,
                                  .no_cache = no_cache};
    const uint64_t begin = clock_nsec();
    struct inf_event event;
    struct inf_err err;
    double first = 0;
    uint64_t id;

    if (inf_engine_submit(engine, &q, &id, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    do {
        inf_engine_wait_event(engine, -1, &event);
        if (first == 0)
            first = (double)(clock_nsec() - begin) * 1e-9;
    } while (event.kind != INF_EVENT_FINISH);
    *ret_total = (double)(clock_nsec() - begin) * 1e-9;
    *ret_cached = event.n_cached;
    return first;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quartile(double *values, uint32_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 4];
}

static void print_results(uint32_t n, uint32_t n_cached, double cold, double warm, double with,
                          double without)
{
    printf("a prompt of %u tokens: the first token comes after %.1f ms\n", n, cold * 1e3);
    printf("%u of them known: after %.2f ms, %.1f times sooner\n", n_cached, warm * 1e3,
           cold / warm);
    printf("prompts that never repeat: %.3f ms with the cache, %.3f ms without, %+.2f %%\n",
           with * 1e3, without * 1e3, 100 * (with / without - 1));
}

static void measure(struct inf_engine *engine, int32_t *tokens, uint32_t n, uint32_t n_rounds,
                    uint32_t n_vocab)
{
    double *cold = NEW(double, n_rounds), *warm = NEW(double, n_rounds);
    double *with = NEW(double, n_rounds), *without = NEW(double, n_rounds), total;
    uint32_t n_cached = 0, none;

    if (!cold || !warm || !with || !without)
        exit(1);
    for (uint32_t i = 0; i < n_rounds; i++) {
        /* Threads that have waited for a long time are asleep, and take longer to start. The order
         * of the two prompts is random, so that this does not always slow down the same one. */
        const bool swap = rng_u32(&rng) % 2;

        for (uint32_t k = 0; k < 2; k++) {
            new_prompt(tokens, n, n_vocab);
            if (swap == (k == 0))
                ask(engine, tokens, n, true, &without[i], &none);
            else
                cold[i] = ask(engine, tokens, n, false, &with[i], &none);
        }
    }
    ask(engine, tokens, n, false, &total, &none);
    for (uint32_t i = 0; i < n_rounds; i++) {
        warm[i] = ask(engine, tokens, n, false, &total, &n_cached);
    }
    print_results(n, n_cached, quartile(cold, n_rounds), quartile(warm, n_rounds),
                  quartile(with, n_rounds), quartile(without, n_rounds));
    free(cold);
    free(warm);
    free(with);
    free(without);
}

int main(int argc, char **argv)
{
    const uint32_t n = argc > 2 ? (uint32_t)atoi(argv[2]) : 4096;
    const uint32_t n_rounds = argc > 3 ? (uint32_t)atoi(argv[3]) : 3;
    struct inf_engine_params params = {.n_ctx = n + 8,
                                       .n_threads = argc > 4 ? (uint32_t)atoi(argv[4]) : 0,
                                       .device = argc > 5 ? argv[5] : NULL};
    struct inf_model *model;
    struct inf_engine *engine;
    struct inf_err err;
    int32_t *tokens;

    if (argc < 2 || n == 0 || n_rounds == 0) {
        fprintf(stderr, "usage: bench-prefix MODEL [N_TOKENS [N_ROUNDS [THREADS [DEVICE]]]]\n");
        return 2;
    }
    if (inf_model_open(&(struct inf_model_params){.path = argv[1]}, &model, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    params.model = model;
    if (inf_engine_new(&params, &engine, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    tokens = NEW(int32_t, n);
    if (!tokens)
        return 1;
    rng_seed(&rng, 1);
    measure(engine, tokens, n, n_rounds, inf_model_info(model)->n_vocab);
    free(tokens);
    inf_engine_free(engine);
    inf_model_unref(model);
    return 0;
}
