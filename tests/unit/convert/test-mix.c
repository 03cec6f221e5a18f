/* SPDX-License-Identifier: Apache-2.0 */

/* Compares the choices of formats with those of llama-quantize in tests/golden/mixes.txt. */

#include "lib/test.h"

#include "convert/mix.h"
#include "format/gguf/ggml-type.h"

struct model {
    char arch[16];
    unsigned layers, heads, kv_heads, experts, tied, cols, ff, joined;
};

static const char *const names[] = {
    "output.weight",        "output_norm.weight",  "token_embd.weight",    "attn_k.weight",
    "attn_norm.weight",     "attn_output.weight",  "attn_q.weight",        "attn_qkv.weight",
    "attn_v.weight",        "ffn_down.weight",     "ffn_down_exps.weight", "ffn_gate.weight",
    "ffn_gate_exps.weight", "ffn_gate_inp.weight", "ffn_up.weight",        "ffn_up_exps.weight",
};
#define N_NAMES    (sizeof(names) / sizeof(names[0]))
#define OUTSIDE    3 /* names of tensors outside the layers */
#define MAX_LAYERS 80

static uint32_t got[N_NAMES][MAX_LAYERS], want[N_NAMES][MAX_LAYERS];

static bool has(const struct model *m, const char *name)
{
    if (strcmp(name, "output.weight") == 0)
        return !m->tied;
    if (strncmp(name, "attn_qkv", 8) == 0)
        return m->joined;
    if (strcmp(name, "attn_q.weight") == 0 || strncmp(name, "attn_k", 6) == 0 ||
        strncmp(name, "attn_v", 6) == 0)
        return !m->joined;
    if (strstr(name, "_exps") || strstr(name, "_inp"))
        return m->experts > 0;
    return strncmp(name, "ffn_", 4) != 0 || m->experts == 0;
}

static struct mix_tensor tensor_of(const struct model *m, const char *name, const char *full,
                                   uint64_t dims[3])
{
    const bool down = strncmp(name, "ffn_down", 8) == 0, norm = strstr(name, "_norm");

    dims[0] = down ? m->ff : m->cols;
    dims[1] = 64;
    dims[2] = m->experts;
    return (struct mix_tensor){full, norm ? 1 : strstr(name, "_exps") ? 3 : 2, dims, GGML_TYPE_F32};
}

static void choose(const struct model *m, enum mix mix)
{
    struct mix_model mm = {.mix = mix,
                           .n_layers = m->layers,
                           .n_heads = m->heads,
                           .n_kv_heads = m->kv_heads,
                           .n_experts = m->experts,
                           .tied = m->tied,
                           .output_type = MIX_NO_TYPE,
                           .embedding_type = MIX_NO_TYPE,
                           .n_value_tensors = m->layers};
    char full[64];
    uint64_t dims[3];

    snprintf(mm.arch, sizeof(mm.arch), "%s", m->arch);
    for (size_t i = 0; i < OUTSIDE; i++) {
        const struct mix_tensor t = tensor_of(m, names[i], names[i], dims);

        if (has(m, names[i]))
            want[i][0] = got[i][0] = mix_choose(&mm, &t);
    }
    for (unsigned l = 0; l < m->layers; l++)
        for (size_t i = OUTSIDE; i < N_NAMES; i++) {
            snprintf(full, sizeof(full), "blk.%u.%s", l, names[i]);
            const struct mix_tensor t = tensor_of(m, names[i], full, dims);

            if (has(m, names[i]))
                got[i][l] = mix_choose(&mm, &t);
            want[i][l] = mix_may_change(&t) ? mix_info(mix)->type : GGML_TYPE_F32;
        }
    for (size_t i = 0; i < OUTSIDE; i++)
        if (!strstr(names[i], "_norm"))
            want[i][0] = mix_info(mix)->type;
}

/* Reads "TENSOR TYPE*N TYPE*N …". */
static void read_want(char *line)
{
    char *rest, *word = strtok_r(line, " \n", &rest);
    size_t i = 0;
    unsigned l = 0;

    while (i < N_NAMES && strcmp(names[i], word) != 0)
        i++;
    assert_true(i < N_NAMES);
    while ((word = strtok_r(NULL, " \n", &rest))) {
        char *star = strchr(word, '*');
        uint32_t type;

        assert_non_null(star);
        *star = 0;
        assert_true(ggml_type_find(word, &type));
        for (long n = atol(star + 1); n > 0; n--)
            want[i][l++] = type;
    }
}

static void compare(const struct model *m, enum mix mix)
{
    for (size_t i = 0; i < N_NAMES; i++)
        for (unsigned l = 0; has(m, names[i]) && l < (i < OUTSIDE ? 1 : m->layers); l++)
            if (got[i][l] != want[i][l])
                fail_msg("%s %s: layer %u of %s gets %s, expected %s", m->arch, mix_info(mix)->name,
                         l, names[i], ggml_type(got[i][l])->name, ggml_type(want[i][l])->name);
}

TEST(formats_are_those_that_llama_quantize_chooses)
{
    FILE *f = fopen(test_golden("mixes.txt"), "r");
    struct model m = {0};
    enum mix mix = MIX_N;
    unsigned n = 0;
    char line[4096];

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "model ", 6) == 0 || strncmp(line, "mix ", 4) == 0) {
            if (mix != MIX_N)
                compare(&m, mix);
            mix = MIX_N;
        }
        if (strncmp(line, "model ", 6) == 0) {
            assert_int_equal(sscanf(line + 6, "%15s %u %u %u %u %u %u %u %u", m.arch, &m.layers,
                                    &m.heads, &m.kv_heads, &m.experts, &m.tied, &m.cols, &m.ff,
                                    &m.joined),
                             9);
            assert_true(m.layers <= MAX_LAYERS);
        } else if (strncmp(line, "mix ", 4) == 0) {
            line[strcspn(line, "\n")] = 0;
            assert_true(mix_find(line + 4, &mix));
            choose(&m, mix);
            n++;
        } else {
            read_want(line);
        }
    }
    compare(&m, mix);
    fclose(f);
    assert_int_equal(n, 6 * 30);
}

TEST(patterns_match_parts_of_names)
{
    struct mix_override o;
    struct inf_err err;

    ASSERT_OK_ERR(mix_override_init(&o, "blk\\.[0-3]\\.ffn_down=q6_k", &err), err);
    assert_int_equal(o.type, GGML_TYPE_Q6_K);
    assert_true(mix_override_matches(&o, "blk.2.ffn_down.weight"));
    assert_false(mix_override_matches(&o, "blk.4.ffn_down.weight"));
    mix_override_done(&o);
    ASSERT_ERROR(mix_override_init(&o, "ffn_down", &err), EINVAL);
    ASSERT_ERROR(mix_override_init(&o, "=q6_k", &err), EINVAL);
    ASSERT_ERROR(mix_override_init(&o, "a=q9_k", &err), EINVAL);
    ASSERT_CONTAINS(err.text, "q9_k");
    ASSERT_ERROR(mix_override_init(&o, "(a=q6_k", &err), EINVAL);
}

TEST(names_of_mixes_have_either_case)
{
    enum mix mix;

    assert_true(mix_find("q4_k_m", &mix) && mix == MIX_Q4_K_M);
    assert_true(mix_find("Q4_K", &mix) && mix == MIX_Q4_K_M);
    assert_false(mix_find("Q4", &mix));
}

RUN_TESTS(cmocka_unit_test(formats_are_those_that_llama_quantize_chooses),
          cmocka_unit_test(patterns_match_parts_of_names),
          cmocka_unit_test(names_of_mixes_have_either_case))
