/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits whole models between the CPU and a Vulkan device. In some cases the CPU computes the first
 * layers, in other cases the device does. The results must be those of the CPU alone.
 */
#include "backend/layer-split.h"
#include "golden/subject.h"
#include "lib/draw.h"
#include "lib/test.h"

/* Makes a split backend; returns NULL if there is no Vulkan device. */
static struct backend *split_make(const struct subject *s, uint32_t i_layer, bool upper)
{
    uint32_t n_low[STATE_GROUPS_MAX];
    struct backend *gpu = subject_device("vulkan"), *cpu, *b;

    if (!gpu)
        return NULL;
    cpu = subject_cpu();
    graph_layers_below(s->graph, i_layer, n_low);
    ASSERT_OK(layer_split_new(upper ? &cpu : &gpu, upper ? &gpu : &cpu, i_layer, n_low, &b));
    return b;
}

static double nmse(const float *x, const float *want, size_t n)
{
    double err = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        err += ((double)x[i] - (double)want[i]) * ((double)x[i] - (double)want[i]);
        sum += (double)want[i] * (double)want[i];
    }
    return err / sum;
}

struct answers {
    int32_t tokens[SUBJECT_TOKENS + 1];
    float *logits; /* [SUBJECT_TOKENS, n_vocab] */
};

static void answers_init(struct answers *a, const struct subject *s)
{
    a->logits = calloc((size_t)SUBJECT_TOKENS * subject_n_vocab(s), sizeof(float));
    assert_non_null(a->logits);
}

/* Computes the answers of the CPU alone, and of both devices. Returns false without a Vulkan
 * device. */
static bool ask(const struct subject *s, uint32_t i_layer, bool upper, struct answers *cpu,
                struct answers *both)
{
    struct backend *split = split_make(s, i_layer, upper);

    if (!split)
        return false;
    answers_init(cpu, s);
    answers_init(both, s);
    subject_tell(s, subject_cpu(), cpu->tokens, cpu->logits);
    subject_tell(s, split, both->tokens, both->logits);
    return true;
}

/* Compares the logits of the prompt. The generated text may differ where two tokens are almost
 * equally likely. */
static bool check_logits(const struct subject *s, const char *name, uint32_t i_layer, bool upper)
{
    /* CPUs that multiply bfloat16 round rows to the 8 bits of bfloat16. Devices may round to the 11
     * bits of F16. */
    const bool short_rows = graph_node(s->graph, 0)->w.dtype == INF_DTYPE_BF16;
    struct answers cpu, both;
    double e;

    if (!ask(s, i_layer, upper, &cpu, &both))
        return false;
    e = nmse(both.logits, cpu.logits, (size_t)SUBJECT_PROMPT * subject_n_vocab(s));
    print_message("%-18s layer %u, Vulkan %s: NMSE %.2g\n", name, i_layer,
                  upper ? "above" : "below", e);
    assert_true(e < (short_rows ? 1e-3 : 1e-5));
    free(cpu.logits);
    free(both.logits);
    return true;
}

TEST(tiny_models_of_every_architecture_give_the_same_logits)
{
    for (size_t i = 0; subject_names[i]; i++) {
        struct subject s;
        bool there;

        /* The first model always runs, because it shows whether there is a device. */
        if (i > 0 && !test_drawn(6))
            continue;
        subject_open_golden(&s, subject_names[i]);
        there = check_logits(&s, subject_names[i], 0, true);
        for (uint32_t j = 1; there && j < model_hparams(s.m)->n_layers; j++) {
            if (test_drawn(4))
                check_logits(&s, subject_names[i], j, true);
            if (test_drawn(4))
                check_logits(&s, subject_names[i], j, false);
        }
        subject_close(&s);
        if (!there)
            skip();
    }
}

static void check_text(const struct subject *s, uint32_t i_layer, bool upper)
{
    struct answers cpu, both;

    if (!ask(s, i_layer, upper, &cpu, &both))
        return;
    assert_memory_equal(both.tokens, cpu.tokens, sizeof(cpu.tokens));
    free(cpu.logits);
    free(both.logits);
}

TEST(real_models_write_the_same_text)
{
    static const char *const files[] = {"models/stories260K/stories260K.gguf",
                                        "models/TinyStories-656K"};

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        const char *path = test_data(files[i]);
        struct subject s;

        if (!path)
            skip();
        subject_open(&s, path);
        check_text(&s, 0, true);
        check_text(&s, 1, true);
        check_text(&s, 1, false);
        subject_close(&s);
    }
}

RUN_TESTS(cmocka_unit_test(tiny_models_of_every_architecture_give_the_same_logits),
          cmocka_unit_test(real_models_write_the_same_text))
