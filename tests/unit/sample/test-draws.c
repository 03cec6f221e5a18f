/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that choices with a seed are those of llama.cpp.
 *
 * A program in C++ printed the tokens below. It keeps a list of tokens, and applies the stages as
 * llama.cpp does (with the temperature last). It draws with std::mt19937 and
 * std::uniform_real_distribution, and for Mirostat with std::discrete_distribution.
 */
#include "lib/test.h"

#include "core/macros.h"
#include "sample/sampler.h"

enum {
    N_VOCAB = 50,
    N_PICKS = 12,
};

static void fill_row(float *row, uint32_t i_pick)
{
    for (uint32_t i = 0; i < N_VOCAB; i++)
        row[i] = (float)((i * 37 + i_pick * 11) % N_VOCAB) / 8;
}

/* Checks the tokens that a sequence picks, with @mask if it is not NULL. */
static void check_picks(const struct inf_sampling *in, const uint32_t *mask,
                        const int32_t expected[N_PICKS])
{
    static const uint8_t late[] = {INF_STAGE_TOP_N_SIGMA, INF_STAGE_TOP_K, INF_STAGE_TYPICAL_P,
                                   INF_STAGE_TOP_P,       INF_STAGE_MIN_P, INF_STAGE_XTC,
                                   INF_STAGE_TEMPERATURE};
    const struct sample_text text = {
        .tokens = (const int32_t[]){0}, .n_tokens = 1, .n_prompt = 1, .mask = mask};
    struct inf_sampling sampling = *in;
    struct sample_state state;
    struct sample_params p;
    struct sampler *s;

    sampling.order = late;
    sampling.n_order = ARRAY_SIZE(late);
    ASSERT_OK(sample_params_init(&p, &sampling));
    sample_state_init(&state, &p, 42);
    ASSERT_OK(sample_state_start(&state, &p, 1));
    ASSERT_OK(sampler_new(N_VOCAB, N_VOCAB, &s));
    for (uint32_t i = 0; i < N_PICKS; i++) {
        float row[N_VOCAB];
        int32_t token = -1;

        fill_row(row, i);
        assert_int_equal(sampler_pick(s, &p, &text, &state, row, &token), 0);
        assert_int_equal(token, expected[i]);
    }
    sampler_free(s);
    sample_state_stop(&state);
    sample_params_done(&p);
}

TEST(picks_are_those_of_llama_cpp)
{
    static const struct {
        struct inf_sampling sampling;
        int32_t expected[N_PICKS];
    } cases[] = {
        {{.temperature = 0.8f}, {35, 5, 37, 30, 19, 9, 21, 14, 3, 27, 1, 44}},
        {{.temperature = 0.8f, .top_k = 10}, {39, 1, 33, 26, 19, 12, 13, 33, 3, 8, 47, 29}},
        {{.temperature = 0.8f, .top_p = 0.9f}, {20, 1, 37, 3, 46, 12, 40, 10, 3, 12, 47, 33}},
        {{.temperature = 0.8f, .min_p = 0.1f}, {35, 5, 37, 27, 19, 9, 21, 14, 3, 27, 1, 44}},
        {{.temperature = 0.8f, .typical_p = 0.5f}, {1, 36, 2, 15, 35, 28, 29, 41, 19, 31, 36, 25}},
        {{.temperature = 0.8f,
          .top_k = 40,
          .top_p = 0.95f,
          .min_p = 0.05f,
          .xtc_probability = 0.5f,
          .xtc_threshold = 0.1f},
         {47, 1, 14, 30, 46, 12, 40, 10, 30, 39, 24, 10}},
        {{.temperature = 0.8f, .top_k = 1}, {27, 24, 21, 18, 15, 12, 9, 6, 3, 0, 47, 44}},
        {{.temperature = 0.8f, .mirostat = 2, .mirostat_tau = 3, .mirostat_eta = 0.1f},
         {43, 1, 10, 26, 46, 12, 40, 10, 3, 35, 47, 6}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_picks(&cases[i].sampling, NULL, cases[i].expected);
}

/* The mask excludes the third choice (37), so another random number is drawn for this choice. */
TEST(a_mask_takes_another_number_only_if_it_excludes_the_choice)
{
    static const int32_t expected[N_PICKS] = {35, 5, 25, 22, 4, 20, 13, 6, 30, 0, 36, 48};
    const struct inf_sampling s = {.temperature = 0.8f};
    const uint32_t mask[] = {UINT32_MAX, ~(1u << (37 - 32))};

    check_picks(&s, mask, expected);
}

RUN_TESTS(cmocka_unit_test(picks_are_those_of_llama_cpp),
          cmocka_unit_test(a_mask_takes_another_number_only_if_it_excludes_the_choice))
