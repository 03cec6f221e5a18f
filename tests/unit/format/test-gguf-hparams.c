/* SPDX-License-Identifier: Apache-2.0 */
#include "format/gguf/hparams.h"

#include <errno.h>
#include <math.h>

#include "lib/gguf_writer.h"
#include "lib/test.h"
#include "model/model.h"

static void write_base(struct gguf_writer *w, const char *arch)
{
    static const char *const tokens[] = {"a", "b", "c"};
    char key[96];
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {
        {"block_count", 4},          {"context_length", 2048},    {"embedding_length", 64},
        {"feed_forward_length", 96}, {"attention.head_count", 8},
    };

    gguf_put_string(w, "general.architecture", arch);
    gguf_put_string(w, "general.name", "Test");
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        snprintf(key, sizeof(key), "%s.%s", arch, counts[i].name);
        gguf_put_u32(w, key, counts[i].value);
    }
    snprintf(key, sizeof(key), "%s.attention.layer_norm_rms_epsilon", arch);
    gguf_put_f32(w, key, 1e-5f);
    gguf_put_strings(w, "tokenizer.ggml.tokens", tokens, 3);
}

static int finish(struct gguf_writer *w, struct hparams *hp, struct inf_err *err)
{
    const struct arch_desc *desc;
    struct gguf *g;
    size_t len;
    char *file = gguf_writer_finish(w, &len);
    int r;

    ASSERT_OK_ERR(gguf_parse(file, len, &g, err), *err);
    r = gguf_hparams(g, model_archs(), hp, &desc, err);
    gguf_close(g);
    free(file);
    return r;
}

TEST(llama_has_defaults)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "llama");
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    ASSERT_STREQ(hp.arch, "llama");
    ASSERT_STREQ(hp.name, "Test");
    assert_int_equal(hp.n_layers, 4);
    assert_int_equal(hp.n_kv_heads, 8);
    assert_int_equal(hp.head_dim, 8);
    assert_int_equal(hp.rope_dims, 8);
    assert_int_equal(hp.n_vocab, 3);
    assert_int_equal(hp.rope_style, ROPE_PAIRS);
    assert_int_equal(hp.rope_scaling, ROPE_SCALING_NONE);
    assert_true(hp.rope_theta == 10000.0f);
    assert_int_equal(hparams_window(&hp, 0), 0);
}

TEST(qwen_rotates_halves_and_windows_have_patterns)
{
    const uint8_t pattern[] = {1, 0, 1, 0};
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "qwen3");
    gguf_put_u32(&w, "qwen3.attention.key_length", 16);
    gguf_put_u32(&w, "qwen3.attention.value_length", 16);
    gguf_put_u32(&w, "qwen3.attention.sliding_window", 32);
    gguf_put_bools(&w, "qwen3.attention.sliding_window_pattern", pattern, 4);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.head_dim, 16);
    assert_int_equal(hp.rope_style, ROPE_HALF);
    assert_int_equal(hparams_window(&hp, 0), 32);
    assert_int_equal(hparams_window(&hp, 1), 0);
    assert_int_equal(hparams_window(&hp, 2), 32);

    write_base(&w, "qwen3");
    gguf_put_u32(&w, "qwen3.attention.sliding_window", 32);
    gguf_put_u32(&w, "qwen3.attention.sliding_window_pattern", 4);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hparams_window(&hp, 2), 32);
    assert_int_equal(hparams_window(&hp, 3), 0);
}

/* llama.cpp writes a scaling without effect into files of BitNet, and no activation. */
TEST(bitnet_has_the_activation_of_llama_cpp)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "bitnet");
    gguf_put_string(&w, "bitnet.rope.scaling.type", "linear");
    gguf_put_f32(&w, "bitnet.rope.scaling.factor", 1);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.act, GRAPH_ACT_SILU);
    assert_int_equal(hp.rope_style, ROPE_HALF);
    assert_int_equal(hp.ternary, TERNARY_NONE);
    assert_true(hp.rope_factor == 1);
}

TEST(scaling_has_old_and_new_keys)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "llama");
    gguf_put_f32(&w, "llama.rope.scale_linear", 2);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.rope_scaling, ROPE_SCALING_LINEAR);
    assert_true(hp.rope_factor == 2);

    write_base(&w, "llama");
    gguf_put_string(&w, "llama.rope.scaling.type", "none");
    gguf_put_f32(&w, "llama.rope.scaling.factor", 2);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.rope_scaling, ROPE_SCALING_NONE);

    write_base(&w, "llama");
    gguf_put_string(&w, "llama.rope.scaling.type", "yarn");
    gguf_put_f32(&w, "llama.rope.scaling.factor", 4);
    gguf_put_u32(&w, "llama.rope.scaling.original_context_length", 512);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.rope_scaling, ROPE_SCALING_YARN);
    assert_int_equal(hp.rope_ctx_orig, 512);
    assert_true(hp.yarn_beta_fast == 32 && hp.yarn_beta_slow == 1);
}

TEST(counts_per_layer_must_agree)
{
    const int32_t same[] = {4, 4, 4, 4}, mixed[] = {4, 4, 2, 4};
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "llama");
    gguf_put_i32s(&w, "llama.attention.head_count_kv", same, 4);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.n_kv_heads, 4);
    write_base(&w, "llama");
    gguf_put_i32s(&w, "llama.attention.head_count_kv", mixed, 4);
    ASSERT_ERROR(finish(&w, &hp, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "differs between layers");
}

TEST(unsupported_features_are_refused_by_name)
{
    static const struct {
        const char *key;
        enum { U32, F32, STRING } type;
        double value;
        const char *text, *message;
        int code;
    } table[] = {
        {"llama.expert_count", U32, 8, NULL, "0 of 8 experts are used", EBADMSG},
        {"llama.expert_shared_count", U32, 1, NULL, "expert_shared_count is 1", EOPNOTSUPP},
        {"llama.attn_logit_softcapping", F32, 50, NULL, "softcapping", EOPNOTSUPP},
        {"llama.attention.temperature_scale", F32, 0.5, NULL, "temperature_scale", EOPNOTSUPP},
        {"llama.rope.scaling.type", STRING, 0, "longrope", "longrope", EOPNOTSUPP},
        {"llama.attention.value_length", U32, 4, NULL, "value_length", EOPNOTSUPP},
        {"llama.attention.head_count_kv", U32, 3, NULL, "evenly", EBADMSG},
        {"llama.attention.head_count_kv", U32, 0, NULL, "key/value heads is 0", EBADMSG},
        {"llama.attention.head_count_kv", STRING, 0, "x", "not a count", EBADMSG},
        {"llama.attention.key_length", U32, 7, NULL, "value_length", 0},
        {"llama.rope.dimension_count", U32, 7, NULL, "odd", EBADMSG},
        {"llama.rope.dimension_count", U32, 10, NULL, "rotated dimensions is 10", EBADMSG},
        {"llama.rope.freq_base", F32, 0, NULL, "rotary base", EBADMSG},
        {"llama.rope.freq_base", STRING, 0, "x", "not a number", EBADMSG},
        {"llama.rope.scaling.factor", F32, -1, NULL, "scaling factor", EBADMSG},
        {"llama.vocab_size", U32, 2, NULL, "3 tokens, but the model has 2 rows", EBADMSG},
        {"llama.attention.sliding_window", U32, 3e9, NULL, "too large", EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct gguf_writer w = {0};
        struct inf_err err = {0};
        struct hparams hp;
        int r;

        write_base(&w, "llama");
        if (table[i].type == U32)
            gguf_put_u32(&w, table[i].key, (uint32_t)table[i].value);
        else if (table[i].type == F32)
            gguf_put_f32(&w, table[i].key, (float)table[i].value);
        else
            gguf_put_string(&w, table[i].key, table[i].text);
        if (table[i].code == 0)
            gguf_put_u32(&w, "llama.attention.value_length", 8);
        r = finish(&w, &hp, &err);
        if (r != -(table[i].code ? table[i].code : EOPNOTSUPP) ||
            !strstr(err.text, table[i].message))
            fail_msg("%s: %d, \"%s\"", table[i].key, r, err.text);
    }
}

/* The files of this test are decoders that were converted from models with bidirectional
 * attention. */
TEST(decoders_that_see_both_sides_are_refused)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "qwen2");
    gguf_put_bool(&w, "qwen2.attention.causal", false);
    assert_int_equal(finish(&w, &hp, &err), -EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "qwen2.attention.causal is false");
    write_base(&w, "qwen2");
    gguf_put_bool(&w, "qwen2.attention.causal", true);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
}

TEST(unknown_architectures_and_missing_keys_are_named)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "mamba");
    ASSERT_ERROR(finish(&w, &hp, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "\"mamba\" is not supported; there are llama, ");
    ASSERT_CONTAINS(err.text, ", gemma-embedding");
    gguf_put_string(&w, "general.architecture", "llama");
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "llama.block_count is missing");
    gguf_put_u32(&w, "x", 1);
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "general.architecture is missing");
}

TEST(encoders_have_windows_on_both_sides)
{
    static const struct {
        const char *arch, *eps;
        uint32_t full; /* the only layer of four without a window */
    } table[] = {
        {"modern-bert", "modern-bert.attention.layer_norm_epsilon", 0},
        {"gemma-embedding", "gemma-embedding.attention.layer_norm_rms_epsilon", 2},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct gguf_writer w = {0};
        struct inf_err err = {0};
        struct hparams hp;
        char key[96];

        write_base(&w, table[i].arch);
        if (i == 0)
            gguf_put_f32(&w, table[i].eps, 1e-5f);
        snprintf(key, sizeof(key), "%s.attention.sliding_window", table[i].arch);
        gguf_put_u32(&w, key, 128);
        snprintf(key, sizeof(key), "%s.attention.sliding_window_pattern", table[i].arch);
        gguf_put_u32(&w, key, i == 0 ? 4 : 3);
        ASSERT_OK_ERR(finish(&w, &hp, &err), err);
        ASSERT_STREQ(hp.arch, table[i].arch);
        assert_true(hp.embed.encoder && hp.rope_theta_window == 10000);
        for (uint32_t j = 0; j < 4; j++)
            assert_int_equal(hparams_window(&hp, j), j == table[i].full ? 0 : 65);
    }
}

/* Writes what the converter of llama.cpp writes for Gemma 3n with 4 layers. */
static void write_gemma3n(struct gguf_writer *w, const float *cutoffs, uint32_t n_shared,
                          const uint8_t *pattern)
{
    static const float zeros[64 * 8];

    write_base(w, "gemma3n");
    gguf_put_u32(w, "gemma3n.attention.sliding_window", 32);
    gguf_put_bools(w, "gemma3n.attention.sliding_window_pattern", pattern, 4);
    gguf_put_u32(w, "gemma3n.attention.shared_kv_layers", n_shared);
    gguf_put_u32(w, "gemma3n.embedding_length_per_layer_input", 16);
    gguf_put_f32s(w, "gemma3n.activation_sparsity_scale", cutoffs, 4);
    gguf_put_tensor(w, "blk.0.laurel_l.weight", 0, (const uint64_t[]){64, 8}, 2, zeros,
                    sizeof(zeros));
    gguf_put_tensor(w, "per_layer_token_embd.weight", 0, (const uint64_t[]){64, 3}, 2, zeros,
                    64 * 3 * sizeof(*zeros));
}

TEST(gemma3n_has_cutoffs_and_shares_keys)
{
    static const float cutoffs[] = {1.6448536f, -INFINITY, 0, -0.5f};
    static const uint8_t pattern[] = {1, 0, 1, 0};
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_gemma3n(&w, cutoffs, 2, pattern);
    ASSERT_OK_ERR(finish(&w, &hp, &err), err);
    assert_int_equal(hp.gemma.laurel_rank, 8);
    assert_int_equal(hp.gemma.n_vocab, 3);
    assert_true(hp.gemma.correct_scale && hp.final_softcap == 30);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(hp.layers[i].cutoff == cutoffs[i]);
    assert_int_equal(hp.layers[1].shared, 0);
    assert_int_equal(hp.layers[2].shared, 1);
    assert_int_equal(hp.layers[3].shared, 2);
}

TEST(gemma3n_with_other_streams_or_bad_lists_is_refused)
{
    static const float good[4] = {0}, nan[] = {0, 0, NAN, 0}, infinite[] = {INFINITY, 0, 0, 0};
    static const uint8_t pattern[] = {1, 0, 1, 0}, late[] = {1, 1, 1, 0};
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_gemma3n(&w, good, 0, pattern);
    gguf_put_u32(&w, "gemma3n.altup.num_inputs", 3);
    ASSERT_ERROR(finish(&w, &hp, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "gemma3n.altup.num_inputs is 3");
    write_gemma3n(&w, good, 0, pattern);
    gguf_put_u32(&w, "gemma3n.altup.active_idx", 1);
    ASSERT_ERROR(finish(&w, &hp, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "gemma3n.altup.active_idx is 1");
    write_gemma3n(&w, nan, 0, pattern);
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "layer 2: the activation sparsity is ");
    write_gemma3n(&w, infinite, 0, pattern);
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    write_gemma3n(&w, good, 1, late);
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "layer 3 shares keys and values, but no earlier layer without");
    write_base(&w, "gemma3n");
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "gemma3n.attention.shared_kv_layers is missing");
}

TEST(gemma4_without_an_owner_of_keys_is_refused)
{
    static const uint8_t pattern[] = {0, 0, 1, 1};
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    struct hparams hp;

    write_base(&w, "gemma4");
    gguf_put_u32(&w, "gemma4.attention.head_count_kv", 1);
    gguf_put_u32(&w, "gemma4.attention.key_length", 16);
    gguf_put_u32(&w, "gemma4.attention.value_length", 16);
    gguf_put_u32(&w, "gemma4.attention.key_length_swa", 8);
    gguf_put_u32(&w, "gemma4.attention.sliding_window", 32);
    gguf_put_bools(&w, "gemma4.attention.sliding_window_pattern", pattern, 4);
    gguf_put_u32(&w, "gemma4.attention.shared_kv_layers", 2);
    ASSERT_ERROR(finish(&w, &hp, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "layer 2 shares keys and values, but no earlier layer with a window");
}

RUN_TESTS(cmocka_unit_test(llama_has_defaults),
          cmocka_unit_test(gemma3n_has_cutoffs_and_shares_keys),
          cmocka_unit_test(gemma3n_with_other_streams_or_bad_lists_is_refused),
          cmocka_unit_test(gemma4_without_an_owner_of_keys_is_refused),
          cmocka_unit_test(encoders_have_windows_on_both_sides),
          cmocka_unit_test(qwen_rotates_halves_and_windows_have_patterns),
          cmocka_unit_test(bitnet_has_the_activation_of_llama_cpp),
          cmocka_unit_test(scaling_has_old_and_new_keys),
          cmocka_unit_test(counts_per_layer_must_agree),
          cmocka_unit_test(unsupported_features_are_refused_by_name),
          cmocka_unit_test(decoders_that_see_both_sides_are_refused),
          cmocka_unit_test(unknown_architectures_and_missing_keys_are_named))
