/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits whole models between two devices, at every border between two layers. Logits must be those
 * of one device, bit for bit, and so must greedy texts.
 */
#include "backend/layer-fit.h"
#include "backend/layer-split.h"
#include "golden/subject.h"
#include "lib/test.h"

static struct backend *split_make(const struct subject *s, uint32_t i_layer)
{
    uint32_t n_low[STATE_GROUPS_MAX];
    struct backend *low = subject_cpu(), *high = subject_cpu(), *b;

    graph_layers_below(s->graph, i_layer, n_low);
    ASSERT_OK(layer_split_new(&low, &high, i_layer, n_low, &b));
    return b;
}

static void check_borders(const struct subject *s)
{
    const size_t size = (size_t)SUBJECT_TOKENS * subject_n_vocab(s) * sizeof(float);
    int32_t want[SUBJECT_TOKENS + 1], got[SUBJECT_TOKENS + 1];
    float *logits = malloc(size), *expected = malloc(size);

    assert_non_null(logits);
    assert_non_null(expected);
    subject_tell(s, subject_cpu(), want, expected);
    for (uint32_t i = 0; i < model_hparams(s->m)->n_layers; i++) {
        subject_tell(s, split_make(s, i), got, logits);
        assert_memory_equal(got, want, sizeof(got));
        assert_memory_equal(logits, expected, size);
    }
    free(logits);
    free(expected);
}

TEST(tiny_models_of_every_architecture_can_be_split)
{
    for (size_t i = 0; subject_names[i]; i++) {
        struct subject s;

        subject_open_golden(&s, subject_names[i]);
        check_borders(&s);
        subject_close(&s);
    }
}

TEST(real_models_can_be_split)
{
    static const char *const files[] = {"models/stories260K/stories260K.gguf",
                                        "models/TinyStories-656K"};

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        const char *path = test_data(files[i]);
        struct subject s;

        if (!path)
            skip();
        subject_open(&s, path);
        check_borders(&s);
        subject_close(&s);
    }
}

TEST(models_are_measured_by_layers)
{
    for (size_t i = 0; subject_names[i]; i++) {
        struct layer_sizes sizes;
        struct kv_layout layout;
        struct inf_err err = {0};
        struct subject s;
        uint64_t sum = 0, kv = 0, expected = 0;

        subject_open_golden(&s, subject_names[i]);
        layout = subject_layout(&s);
        for (uint32_t j = 0; j < layout.n_groups; j++) {
            layout.n_blocks[j] = 3;
            expected += 3 * kv_layout_block_bytes(&layout, j);
        }
        ASSERT_OK_ERR(layer_sizes_init(&sizes, s.graph, &layout, &err), err);
        for (uint32_t j = 0; j < sizes.n_layers; j++) {
            sum += sizes.weights[j];
            kv += sizes.kv[j];
        }
        sum += sizes.head;
        /* In the graph, vectors are floats, even if the file stores them with fewer bits. */
        assert_true(sum >= model_bytes_token(s.m) && sum < model_bytes_token(s.m) * 11 / 10);
        assert_int_equal(sizes.embd == 0, model_tied_head(s.m));
        assert_true(kv == expected);
        layer_sizes_done(&sizes);
        subject_close(&s);
    }
}

RUN_TESTS(cmocka_unit_test(tiny_models_of_every_architecture_can_be_split),
          cmocka_unit_test(real_models_can_be_split),
          cmocka_unit_test(models_are_measured_by_layers))
