/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the sampler: bench-sample [N_VOCAB [ROUNDS]]
 *
 * Times the choice of one token from a row of logits by each kind of sampling, on one thread. Eight
 * rows take turns. With the default vocabulary they have 4.6 MiB together, which is more than the
 * first-level and second-level caches of most cores hold.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/rng.h"
#include "sample/sampler.h"

enum {
    N_ROWS = 8,
    N_TOKENS = 512,
};

static const struct {
    const char *name;
    struct inf_sampling sampling;
    int n_top;     /* alternatives with log-probabilities; -1: none are requested */
    uint32_t mask; /* one word of a mask, repeated; 0: there is no mask */
} kinds[] = {
    {"greedy", {0}, -1},
    {"greedy, penalties",
     {.repetition_penalty = 1.1f, .penalty_last_n = 64, .presence_penalty = 0.5f},
     -1},
    {"greedy, 20 log-probabilities", {0}, 20},
    {"temperature", {.temperature = 0.8f}, -1},
    {"temperature, mask of all", {.temperature = 0.8f}, -1, UINT32_MAX},
    {"temperature, mask of a half", {.temperature = 0.8f}, -1, 0x5a5a5a5a},
    {"top-k 40", {.temperature = 0.8f, .top_k = 40}, -1},
    {"top-k 40, top-p, min-p",
     {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
     -1},
    {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f}, -1},
    {"top-p 0.1", {.temperature = 0.8f, .top_p = 0.1f}, -1},
    {"min-p 0.05", {.temperature = 0.8f, .min_p = 0.05f}, -1},
    {"typical-p 0.9", {.temperature = 0.8f, .typical_p = 0.9f}, -1},
    {"DRY, 512 tokens",
     {.temperature = 0.8f, .top_k = 40, .dry_multiplier = 0.8f, .dry_base = 1.75f},
     -1},
    {"XTC", {.temperature = 0.8f, .xtc_probability = 0.5f, .xtc_threshold = 0.1f}, -1},
    {"top-n-sigma 1", {.temperature = 0.8f, .top_n_sigma = 1}, -1},
    {"mirostat 2",
     {.temperature = 0.8f, .mirostat = 2, .mirostat_tau = 5, .mirostat_eta = 0.1f},
     -1},
    {"top-k 10000", {.temperature = 0.8f, .top_k = 10000}, -1},
};

static void bench(struct sampler *s, float *rows, uint32_t n_vocab, size_t i, uint32_t n_rounds)
{
    struct inf_top_logprob top[SAMPLE_MAX_TOP];
    int32_t tokens[N_TOKENS], token = 0;
    uint64_t best = UINT64_MAX, sum = 0;
    struct sample_params params;
    struct sample_text text = {.tokens = tokens, .n_tokens = N_TOKENS, .n_prompt = N_TOKENS / 2};
    uint32_t *mask = NEW(uint32_t, DIV_UP(n_vocab, 32));
    struct sample_state state;
    struct rng rng;
    float logprob;

    if (!mask || sample_params_init(&params, &kinds[i].sampling) < 0)
        return free(mask);
    for (uint32_t k = 0; k < DIV_UP(n_vocab, 32); k++)
        mask[k] = kinds[i].mask;
    text.mask = kinds[i].mask != 0 ? mask : NULL;
    sample_state_init(&state, &params, i);
    if (sample_state_start(&state, &params, N_TOKENS) < 0)
        abort();
    rng_seed(&rng, i);
    for (uint32_t k = 0; k < N_TOKENS; k++)
        tokens[k] = (int32_t)(rng_u32(&rng) % n_vocab);
    for (uint32_t k = 0; k < n_rounds; k++) {
        float *row = rows + (size_t)(k % N_ROWS) * n_vocab;
        const uint64_t begin = clock_nsec();
        uint64_t took;

        sampler_pick(s, &params, &text, &state, row, &token);
        if (kinds[i].n_top >= 0)
            sampler_logprob(s, row, n_vocab, token, (uint32_t)kinds[i].n_top, &logprob, top);
        took = clock_nsec() - begin;
        sum += took;
        best = MIN(best, took);
    }
    printf("  %-30s %8.1f us a pick, best %.1f\n", kinds[i].name, (double)sum * 1e-3 / n_rounds,
           (double)best * 1e-3);
    sample_state_stop(&state);
    sample_params_done(&params);
    free(mask);
}

int main(int argc, char **argv)
{
    const uint32_t n_vocab = argc > 1 ? (uint32_t)atoi(argv[1]) : 151936;
    const uint32_t n_rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : 200;
    const size_t n = (size_t)N_ROWS * n_vocab;
    float *rows = NEW(float, n);
    struct sampler *s;
    struct rng rng;

    if (n_vocab == 0 || n_rounds == 0 || !rows || sampler_new(n_vocab, n_vocab, &s) < 0) {
        fprintf(stderr, "bench-sample [N_VOCAB [ROUNDS]]\n");
        return 2;
    }
    rng_seed(&rng, 1);
    for (unsigned flat = 0; flat < 2; flat++) {
        printf("%s rows of %" PRIu32 " logits\n", flat ? "flat" : "peaked", n_vocab);
        for (size_t i = 0; i < n; i++) {
            const float u = (float)rng_double(&rng), v = (float)rng_double(&rng);

            rows[i] = flat ? u : 2.5f * sqrtf(-2 * logf(u + 1e-7f)) * cosf(6.2831853f * v);
        }
        for (uint32_t k = 0; !flat && k < N_ROWS; k++)
            rows[(size_t)k * n_vocab + k * 977 % n_vocab] = 16;
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
            bench(s, rows, n_vocab, i, n_rounds);
    }
    sampler_free(s);
    free(rows);
    return 0;
}
