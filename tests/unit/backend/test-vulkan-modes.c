/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests device properties that this machine's GPU may not have: separate memory, storage buffers
 * only, short submissions. A software device simulates them.
 */
#include <math.h>

#include <infer/bench.h>

#include "api/handle.h"
#include "backend/vulkan/quirks.h"
#include "lib/test.h"

#define N_TOKENS 100u

static struct inf_model *open_model(void)
{
    const char *path = test_data("models/stories260K/stories260K.gguf");
    const struct inf_model_params params = {.path = path};
    struct inf_model *model;
    struct inf_err err;

    if (!path)
        return NULL;
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}

/* Returns the logits of a fixed text, or NULL if there is no such device. */
static float *logits_on(struct inf_model *model, const char *device)
{
    const struct inf_logits_params params = {.model = model, .device = device, .n_threads = 1};
    int32_t tokens[N_TOKENS];
    struct inf_err err;
    float *logits;
    int r;

    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)(i * 37 % 400 + 3);
    r = inf_logits(&params, tokens, N_TOKENS, &logits, &err);
    if (r == -EOPNOTSUPP) {
        print_message("%s\n", err.text);
        return NULL;
    }
    ASSERT_OK_ERR(r, err);
    return logits;
}

TEST(each_mode_gives_the_same_answers)
{
    static const struct vkb_pretend modes[] = {
        {.discrete = false},
        {.discrete = true},
        {.plain = true},
        {.discrete = true, .plain = true},
        {.discrete = true, .submit_usec = 1},
    };
    struct inf_model *model = open_model();
    float *want, *got;

    if (!model)
        skip();
    want = logits_on(model, "cpu");
    for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
        const size_t n = (size_t)N_TOKENS * model->info.n_vocab;
        double err = 0, sum = 0;

        vkb_pretend = modes[m];
        got = logits_on(model, "vulkan");
        if (!got)
            break;
        for (size_t i = 0; i < n; i++) {
            err += pow((double)got[i] - (double)want[i], 2);
            sum += pow((double)want[i], 2);
        }
        if (!(err / sum < 1e-9))
            fail_msg("mode %zu: NMSE %g", m, err / sum);
        free(got);
    }
    vkb_pretend = (struct vkb_pretend){0};
    free(want);
    inf_model_unref(model);
}

/* Steps of many rows take longer than the limit, so later steps get fewer rows. */
TEST(slow_devices_get_steps_of_few_rows)
{
    const struct setup setup = {.device = "vulkan",
                                .n_threads = 1,
                                .n_ctx = 256,
                                .max_rows = 200,
                                .max_logits = 1,
                                .max_seqs = 1};
    struct inf_model *model = open_model();
    struct kv_table table;
    struct runner *runner;
    struct inf_err err;
    int32_t tokens[200];
    int r;

    if (!model)
        skip();
    vkb_pretend.submit_usec = 100;
    r = setup_runner(model, &setup, &runner, &err);
    vkb_pretend = (struct vkb_pretend){0};
    if (r < 0) {
        print_message("%s\n", err.text);
        inf_model_unref(model);
        skip();
    }
    assert_int_equal(runner_max_rows(runner), 64);
    for (uint32_t i = 0; i < ARRAY_SIZE(tokens); i++)
        tokens[i] = (int32_t)i + 5;
    ASSERT_OK(kv_table_init(&table, runner->pool, setup.n_ctx));
    ASSERT_OK(kv_table_extend(&table, ARRAY_SIZE(tokens)));
    for (unsigned i = 0; i < 2; i++) {
        const struct batch_seq seq = kv_table_part(&table, 0, 100 * i, 100);
        const struct batch batch = {.n_rows = 100, .tokens = tokens, .n_seqs = 1, .seqs = &seq};

        ASSERT_OK(runner_forward(runner, &batch));
    }
    assert_true(runner_max_rows(runner) >= 1 && runner_max_rows(runner) < 64);
    kv_table_done(&table);
    runner_free(runner);
    inf_model_unref(model);
}

RUN_TESTS(cmocka_unit_test(each_mode_gives_the_same_answers),
          cmocka_unit_test(slow_devices_get_steps_of_few_rows))
