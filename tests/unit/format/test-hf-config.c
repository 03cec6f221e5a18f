/* SPDX-License-Identifier: Apache-2.0 */
#include "format/hf/config.h"

#include <errno.h>
#include <math.h>

#include "lib/test.h"
#include "model/model.h"

#define BASE(class)                                                                                \
    "\"architectures\":[\"" class "\"],\"vocab_size\":96,\"hidden_size\":64,"                      \
                                  "\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_"        \
                                  "attention_heads\":8"
#define LLAMA   BASE("LlamaForCausalLM")
#define MISTRAL BASE("MistralForCausalLM")
#define QWEN2   BASE("Qwen2ForCausalLM")
#define QWEN3   BASE("Qwen3ForCausalLM")

static int parse(const char *text, struct hf_config *c, struct inf_err *err)
{
    _cleanup_json_ json_t *j = NULL;
    int r;

    r = json_text_parse(text, strlen(text), 0, "config.json", &j, err);
    return r < 0 ? r : hf_config_parse(j, model_archs(), c, err);
}

static struct hf_config parse_ok(const char *text)
{
    struct inf_err err = {0};
    struct hf_config c = {0};

    ASSERT_OK_ERR(parse(text, &c, &err), err);
    return c;
}

TEST(missing_keys_have_the_defaults_of_their_class)
{
    struct hf_config c = parse_ok("{" LLAMA "}");

    ASSERT_STREQ(c.hp.arch, "llama");
    assert_int_equal(c.hp.n_kv_heads, 8);
    assert_int_equal(c.hp.head_dim, 8);
    assert_int_equal(c.hp.n_ctx_train, 2048);
    assert_int_equal(c.hp.rope_style, ROPE_HALF);
    assert_int_equal(c.hp.window, 0);
    assert_true(c.hp.rope_theta == 10000.0f && c.hp.norm_eps == 1e-6f);
    assert_false(c.tied || c.bias_qkv || c.bias_out || c.bias_mlp);

    c = parse_ok("{" MISTRAL "}");
    ASSERT_STREQ(c.hp.arch, "llama");
    assert_int_equal(c.hp.n_kv_heads, 8);
    assert_int_equal(c.hp.window, 4096);
    c = parse_ok("{" MISTRAL ",\"sliding_window\":null,\"num_key_value_heads\":null}");
    assert_int_equal(c.hp.window, 0);
    assert_int_equal(c.hp.n_kv_heads, 8);

    c = parse_ok("{" QWEN2 ",\"num_key_value_heads\":2}");
    assert_true(c.bias_qkv && !c.bias_out);
    assert_int_equal(c.hp.window, 0);
    c = parse_ok("{" QWEN3 ",\"num_key_value_heads\":2}");
    ASSERT_STREQ(c.hp.arch, "qwen3");
    assert_int_equal(c.hp.head_dim, 128);
}

TEST(windows_count_from_a_layer_or_by_a_list)
{
    struct hf_config c = parse_ok("{" QWEN2 ",\"num_key_value_heads\":2,\"sliding_window\":16,"
                                  "\"use_sliding_window\":true,\"max_window_layers\":3}");

    assert_int_equal(hparams_window(&c.hp, 2), 0);
    assert_int_equal(hparams_window(&c.hp, 3), 16);
    c = parse_ok("{" QWEN2 ",\"num_key_value_heads\":2,\"sliding_window\":16,"
                 "\"use_sliding_window\":true,\"layer_types\":[\"sliding_attention\","
                 "\"full_attention\",\"full_attention\",\"sliding_attention\"]}");
    assert_int_equal(hparams_window(&c.hp, 0), 16);
    assert_int_equal(hparams_window(&c.hp, 1), 0);
    c = parse_ok("{" QWEN2 ",\"num_key_value_heads\":2,\"sliding_window\":16,"
                 "\"use_sliding_window\":false,\"max_window_layers\":0}");
    assert_int_equal(hparams_window(&c.hp, 3), 0);
}

#define LAYERS(class, more)                                                                        \
    "{\"architectures\":[\"" class "\"],\"vocab_size\":96,\"hidden_size\":64,"                     \
                                   "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_"       \
                                   "attention_heads\":8" more "}"

#define MIX ",\"layer_types\":[\"linear_attention\",\"full_attention\"]"

/* Returns whether the weights of experts are normalized if norm_topk_prob has this value; NULL: if
 * the key is missing. */
static bool normalizes(const char *class, const char *more, const char *value)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "{\"architectures\":[\"%s\"],\"vocab_size\":96,\"hidden_size\":64,"
                     "\"intermediate_size\":96,\"num_hidden_layers\":2,\"num_attention_heads\":8,"
                     "\"num_key_value_heads\":2%s",
                     class, more);

    if (value)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"norm_topk_prob\":%s", value);
    snprintf(text + n, sizeof(text) - (size_t)n, "}");
    return parse_ok(text).hp.experts.norm_topk;
}

/* The defaults are those of transformers, which ignores the key in classes that do not have it. */
TEST(weights_of_experts_are_normalized_if_the_class_or_its_key_says_so)
{
    static const struct {
        const char *class, *more;
        bool absent, with_true, with_false;
    } cases[] = {
        {"Qwen2MoeForCausalLM", "", false, true, false},
        {"Qwen3MoeForCausalLM", "", false, true, false},
        {"Qwen3NextForCausalLM", MIX, true, true, false},
        {"Qwen3_5MoeForCausalLM", MIX, true, true, true},
        {"MixtralForCausalLM", "", true, true, true},
        {"Gemma4ForCausalLM", "", true, true, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *class = cases[i].class, *more = cases[i].more;

        print_message("%s\n", class);
        assert_int_equal(normalizes(class, more, NULL), cases[i].absent);
        assert_int_equal(normalizes(class, more, "true"), cases[i].with_true);
        assert_int_equal(normalizes(class, more, "false"), cases[i].with_false);
    }
}

/* transformers loads a Mistral configuration with layer_types as a Ministral. */
TEST(layers_of_mistral_may_differ)
{
    struct hf_config c = parse_ok(LAYERS("MistralForCausalLM", ",\"sliding_window\":16"));

    assert_int_equal(hparams_window(&c.hp, 0), 16);
    assert_int_equal(hparams_window(&c.hp, 1), 16);
    c = parse_ok(LAYERS("MistralForCausalLM",
                        ",\"sliding_window\":16,\"layer_types\":[\"sliding_attention\","
                        "\"full_attention\"]"));
    assert_int_equal(hparams_window(&c.hp, 0), 16);
    assert_int_equal(hparams_window(&c.hp, 1), 0);
    c = parse_ok(LAYERS("MinistralForCausalLM",
                        ",\"sliding_window\":8,\"layer_types\":[\"full_attention\","
                        "\"sliding_attention\"]"));
    ASSERT_STREQ(c.hp.arch, "llama");
    assert_int_equal(hparams_window(&c.hp, 0), 0);
    assert_int_equal(hparams_window(&c.hp, 1), 8);
}

TEST(classes_without_a_head_are_read_like_those_with_one)
{
    struct hf_config c = parse_ok(LAYERS("LlamaModel", ""));

    ASSERT_STREQ(c.hp.arch, "llama");
    assert_true(c.base && !c.tied);
    c = parse_ok(LAYERS("Qwen3Model", ",\"num_key_value_heads\":8,\"tie_word_embeddings\":true"));
    ASSERT_STREQ(c.hp.arch, "qwen3");
    assert_true(c.base && c.tied);
    assert_false(parse_ok(LAYERS("LlamaForCausalLM", "")).base);
}

TEST(rotary_scaling_is_read_in_both_spellings)
{
    struct hf_config c;

    c = parse_ok("{" LLAMA ",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\","
                 "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                 "\"original_max_position_embeddings\":512}}");
    assert_int_equal(c.hp.rope_scaling, ROPE_SCALING_LLAMA3);
    assert_true(c.hp.rope_theta == 500000.0f && c.hp.rope_factor == 8);
    assert_int_equal(c.hp.rope_ctx_orig, 512);

    c = parse_ok("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e6,"
                 "\"factor\":4,\"truncate\":false}}");
    assert_int_equal(c.hp.rope_scaling, ROPE_SCALING_YARN);
    assert_true(c.hp.rope_theta == 1e6f && c.hp.yarn_no_truncate);
    assert_int_equal(c.hp.rope_ctx_orig, 2048);
    assert_true(c.hp.yarn_beta_fast == 32 && c.hp.yarn_beta_slow == 1);

    c = parse_ok("{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}");
    assert_int_equal(c.hp.rope_scaling, ROPE_SCALING_LINEAR);
    assert_true(c.hp.rope_factor == 2.5f);
    c = parse_ok("{" LLAMA ",\"rope_scaling\":null,\"rope_parameters\":null}");
    assert_int_equal(c.hp.rope_scaling, ROPE_SCALING_NONE);
}

#define CODED(method, more) ",\"quantization_config\":{\"quant_method\":\"" method "\"," more "}"
#define BITNET(more)        ",\"quantization_config\":{\"quant_method\":\"bitnet\"," more "}"

TEST(ternary_weights_are_multiplied_or_divided_or_rounded)
{
    static const struct {
        const char *text;
        enum hparams_ternary want;
    } table[] = {
        {"{" LLAMA "}", TERNARY_NONE},
        {"{" LLAMA BITNET("\"modules_to_not_convert\":null") "}", TERNARY_DIVIDED},
        {"{" LLAMA BITNET("\"linear_class\":\"autobitlinear\"") "}", TERNARY_MULTIPLIED},
        {"{" LLAMA BITNET(
             "\"linear_class\":\"autobitlinear\",\"quantization_mode\":\"online\"") "}",
         TERNARY_ONLINE},
        {"{" LLAMA BITNET("\"quantization_mode\":\"online\"") "}", TERNARY_DIVIDED},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        assert_int_equal(parse_ok(table[i].text).hp.ternary, table[i].want);
}

TEST(unsupported_features_are_refused_by_name)
{
    static const struct {
        const char *text, *message;
        int code;
    } table[] = {
        {"{\"model_type\":\"mamba\"}", "\"mamba\" is not supported", EOPNOTSUPP},
        {"{}",
         "not supported; there are whisper, encoders, llama, mistral, ministral, mixtral, qwen2, "
         "qwen3, qwen2_moe, qwen3_moe",
         EOPNOTSUPP},
        {"{\"architectures\":[\"Olmo3ForCausalLM\"],\"model_type\":\"llama\"}", "Olmo3",
         EOPNOTSUPP},
        {"{\"model_type\":\"llama\"}", "vocab_size is missing", EBADMSG},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}", "\"dynamic\"",
         EOPNOTSUPP},
        {"{" LLAMA ",\"rope_scaling\":{\"rope_type\":\"longrope\"}}", "\"longrope\"", EOPNOTSUPP},
        {"{" LLAMA ",\"rope_scaling\":3}", "not an object", EBADMSG},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", "scaling factor",
         EBADMSG},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}}", "frequency factors",
         EBADMSG},
        {"{" LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}",
         "per kind of layer", EOPNOTSUPP},
        {"{" LLAMA ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor", EOPNOTSUPP},
        {"{" LLAMA ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}", "partial_rotary_factor",
         EOPNOTSUPP},
        {"{" LLAMA ",\"attn_logit_softcapping\":50.0}", "attn_logit_softcapping", EOPNOTSUPP},
        {"{" LLAMA ",\"num_local_experts\":8}", "num_local_experts", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"quip\"}}", "quip", EOPNOTSUPP},
        {"{" LLAMA CODED("gptq", "\"checkpoint_format\":\"gptq_p\"") "}", "gptq_p", EOPNOTSUPP},
        {"{" LLAMA CODED("gptq", "\"group_size\":0") "}", "group_size", EBADMSG},
        {"{" LLAMA CODED("awq", "\"version\":\"gemv\"") "}", "\"gemv\" of AWQ", EOPNOTSUPP},
        {"{" LLAMA CODED("awq", "\"bits\":8") "}", "AWQ with 8 bits", EOPNOTSUPP},
        {"{" LLAMA CODED("compressed-tensors", "\"sparsity_config\":{\"format\":\"sparse\"}") "}",
         "sparsity_config", EOPNOTSUPP},
        {"{" LLAMA CODED("compressed-tensors",
                         "\"transform_config\":{\"config_groups\":{\"u\":1}}") "}",
         "transform_config", EOPNOTSUPP},
        {"{" LLAMA CODED("fp8", "\"weight_block_size\":[64,64]") "}", "128 x 128", EOPNOTSUPP},
        {"{" LLAMA CODED("fp8", "\"fmt\":\"e5m2\"") "}", "e5m2", EOPNOTSUPP},
        {"{" LLAMA CODED("bitsandbytes", "\"load_in_8bit\":true") "}", "load_in_8bit", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization_config\":{\"bits\":2}}", "unknown method", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", "mxfp4", EOPNOTSUPP},
        {"{" LLAMA BITNET("\"linear_class\":\"linear\"") "}", "linear_class \"linear\"",
         EOPNOTSUPP},
        {"{" LLAMA BITNET("\"quantization_mode\":3") "}", "quantization_mode", EOPNOTSUPP},
        {"{" LLAMA BITNET("\"use_rms_norm\":true") "}", "use_rms_norm", EOPNOTSUPP},
        {"{" LLAMA BITNET("\"modules_to_not_convert\":[\"lm_head\",\"q_proj\"]") "}", "q_proj",
         EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{},\"quantization_config\":{\"quant_method\":\"awq\","
         "\"bits\":3}}",
         "AWQ with 3 bits", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{\"bits\":1}}", "bits 1 of mode affine", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{\"bits\":4,\"group_size\":16}}", "group_size 16",
         EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{\"mode\":\"mxfp4\",\"bits\":8}}", "bits 8 of mode mxfp4",
         EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{\"bits\":4,\"lm_head\":false,\"q\":{\"bits\":7}}}",
         "quantization of q: bits 7", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{\"mode\":\"fp2\"}}", "\"fp2\"", EOPNOTSUPP},
        {"{" LLAMA ",\"quantization\":{},\"hadamard_config\":{}}", "hadamard_config", EOPNOTSUPP},
        {"{" LLAMA ",\"hidden_act\":\"tanh\"}", "\"tanh\"", EOPNOTSUPP},
        {"{" LLAMA ",\"is_causal\":false}", "is_causal", EOPNOTSUPP},
        {"{" LLAMA ",\"hidden_size\":64}", "duplicate", EBADMSG},
        {"{" LLAMA ",\"num_key_value_heads\":3}", "evenly", EBADMSG},
        {"{" LLAMA ",\"num_key_value_heads\":-1}", "not a count", EBADMSG},
        {"{" LLAMA ",\"head_dim\":7}", "odd", EBADMSG},
        {"{" LLAMA ",\"head_dim\":1e3}", "not a count", EBADMSG},
        {"{" LLAMA ",\"rms_norm_eps\":\"x\"}", "not a number", EBADMSG},
        {"{" LLAMA ",\"attention_bias\":1}", "neither true nor false", EBADMSG},
        {"{" QWEN2 ",\"num_key_value_heads\":8,\"use_sliding_window\":true,\"layer_types\":[]}",
         "does not fit", EBADMSG},
        {"{" QWEN2 ",\"num_key_value_heads\":8,\"use_sliding_window\":true,\"layer_types\":"
         "[\"chunked_attention\",\"\",\"\",\"\"]}",
         "chunked_attention", EOPNOTSUPP},
        {"{\"model_type\":\"llama\",\"vocab_size\":96,\"hidden_size\":64,\"intermediate_size\":96,"
         "\"num_hidden_layers\":2000000000,\"num_attention_heads\":8}",
         "number of layers", EBADMSG},
        {"{\"model_type\":\"llama\",\"vocab_size\":96,\"hidden_size\":64,\"intermediate_size\":96,"
         "\"num_hidden_layers\":4,\"num_attention_heads\":0}",
         "num_attention_heads is 0", EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_err err = {0};
        struct hf_config c;
        const int r = parse(table[i].text, &c, &err);

        if (r != -table[i].code || !strstr(err.text, table[i].message))
            fail_msg("%s: %d, \"%s\"", table[i].text, r, err.text);
    }
}

#define BERT(class, more) "{" BASE(class) ",\"max_position_embeddings\":40" more "}"

#define EAGLE3                                                                                     \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":96,\"draft_vocab_size\":40,"         \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":8,\"num_hidden_layers\":"

TEST(draft_heads_are_known_by_their_vocabulary)
{
    static const char ids[] = "eagle_aux_hidden_state_layer_ids";
    static const struct {
        const char *rest, *error;
    } bad[] = {
        {"2}", "2 layers"},
        {"1,\"norm_before_fc\":true}", "norm_before_fc"},
        {"1,\"eagle_aux_hidden_state_layer_ids\":[1,2]}", ids},
        {"1,\"eagle_aux_hidden_state_layer_ids\":[1,2,-3]}", ids},
        {"1,\"eagle_aux_hidden_state_layer_ids\":[1,2,\"3\"]}", ids},
        {"1,\"eagle_config\":{\"eagle_aux_hidden_state_layer_ids\":3}}", ids},
    };
    struct hf_config c = parse_ok(EAGLE3 "1}");

    ASSERT_STREQ(c.hp.arch, "eagle3");
    assert_true(c.hp.head.is_head && c.hp.head.offsets && !c.hp.head.norm_residual);
    assert_int_equal(c.hp.head.n_vocab, 40);
    assert_int_equal(c.hp.head.n_target, 64);
    assert_int_equal(c.hp.head.taps[0] + c.hp.head.taps[1] + c.hp.head.taps[2], 0);
    ASSERT_STREQ(parse_ok("{" LLAMA ",\"draft_vocab_size\":null}").hp.arch, "llama");
    c = parse_ok(EAGLE3 "1,\"target_hidden_size\":80,\"norm_before_residual\":true,"
                        "\"eagle_config\":{\"eagle_aux_hidden_state_layer_ids\":[3,9,15]}}");
    assert_true(c.hp.head.norm_residual);
    assert_int_equal(c.hp.head.n_target, 80);
    assert_int_equal(c.hp.head.taps[2], 15);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct inf_err err = {0};
        char text[512];

        snprintf(text, sizeof(text), "%s%s", EAGLE3, bad[i].rest);
        assert_true(parse(text, &c, &err) < 0);
        assert_non_null(strstr(err.text, bad[i].error));
    }
}

#define DFLASH                                                                                     \
    "{\"architectures\":[\"DFlashDraftModel\"],\"vocab_size\":96,\"hidden_size\":64,"              \
    "\"intermediate_size\":96,\"num_attention_heads\":8,\"num_key_value_heads\":8,"                \
    "\"head_dim\":8,\"num_hidden_layers\":2,\"dflash_config\":"

TEST(draft_heads_with_blocks_name_their_mask)
{
    static const struct {
        const char *rest, *error;
    } bad[] = {
        {"{\"target_layer_ids\":[1,2]}}", "mask_token_id"},
        {"{\"target_layer_ids\":[1,2],\"mask_token_id\":-1}}", "mask_token_id"},
        {"{\"mask_token_id\":95}}", "target_layer_ids"},
        {"{\"target_layer_ids\":[],\"mask_token_id\":95}}", "target_layer_ids"},
        {"{\"target_layer_ids\":[1,-2],\"mask_token_id\":95}}", "target_layer_ids"},
        {"{\"target_layer_ids\":[1],\"mask_token_id\":95},\"block_size\":1}", "blocks of 1"},
        {"{\"target_layer_ids\":[1],\"mask_token_id\":95},\"block_size\":0}", "blocks of 0"},
        {"{\"target_layer_ids\":[1],\"mask_token_id\":95},\"block_size\":5000}", "blocks of 5000"},
        {"{\"target_layer_ids\":[1],\"mask_token_id\":95},\"is_causal\":true}", "is_causal"},
        {"{\"target_layer_ids\":[1],\"mask_token_id\":95},\"draft_vocab_size\":40}",
         "draft_vocab_size"},
        {"{\"target_layer_ids\":[1],\"mask_token_id\":95},\"use_sliding_window\":true,"
         "\"sliding_window\":9,\"max_window_layers\":0}",
         "window of 9"},
    };
    struct hf_config c =
        parse_ok(DFLASH "{\"target_layer_ids\":[0,4,2],\"mask_token_id\":95},\"is_causal\":false}");

    ASSERT_STREQ(c.hp.arch, "dflash");
    assert_true(c.hp.head.is_head);
    assert_int_equal(c.hp.head.n_taps, 3);
    assert_int_equal(c.hp.head.taps[1], 5);
    assert_int_equal(c.hp.head.block, 16);
    assert_int_equal(c.hp.head.mask, 95);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct inf_err err = {0};
        char text[512];

        snprintf(text, sizeof(text), "%s%s", DFLASH, bad[i].rest);
        assert_true(parse(text, &c, &err) < 0);
        if (!strstr(err.text, bad[i].error))
            fail_msg("%s: %s", bad[i].rest, err.text);
    }
    /* The name of a class that is not known is in the message. */
    {
        struct inf_err err = {0};

        assert_int_equal(parse("{\"architectures\":[\"DFlash2DraftModel\"]}", &c, &err),
                         -EOPNOTSUPP);
        assert_non_null(strstr(err.text, "DFlash2DraftModel"));
    }
}

#define QWEN3_NEXT                                                                                 \
    "{" BASE(                                                                                      \
        "Qwen3NextForCausalLM") ",\"linear_num_key_heads\":4,\"linear_key_head_dim\":2048,"        \
                                "\"linear_conv_kernel_dim\":4,\"linear_value_head_dim\":1024,"     \
                                "\"linear_num_value_heads\":"

TEST(recurrent_state_has_a_size_of_32_bits)
{
    struct inf_err err = {0};
    struct hf_config c = parse_ok(QWEN3_NEXT "512}");

    assert_int_equal(c.hp.delta.n_v_heads, 512);
    assert_int_equal(parse(QWEN3_NEXT "2048}", &c, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "too large"));
}

TEST(encoders_are_read_as_transformers_reads_them)
{
    struct hf_config c = parse_ok(BERT("BertModel", ""));

    ASSERT_STREQ(c.hp.arch, "bert");
    assert_true(c.hp.embed.encoder && !c.hp.embed.gated);
    assert_int_equal(c.hp.embed.n_types, 2);
    assert_int_equal(c.hp.embed.n_pos, 40);
    assert_int_equal(c.hp.embed.n_labels, 0);
    assert_int_equal(c.hp.n_ctx_train, 40);
    assert_int_equal(c.hp.act, GRAPH_ACT_GELU_ERF);

    c = parse_ok(BERT("XLMRobertaForSequenceClassification",
                      ",\"id2label\":{\"0\":\"A\",\"1\":\"B\",\"2\":\"C\"},\"pad_token_id\":1"));
    assert_int_equal(c.hp.embed.pos_first, 2);
    assert_int_equal(c.hp.n_ctx_train, 38);
    assert_int_equal(c.hp.embed.n_labels, 3);
    assert_true(c.hp.embed.has_head && c.hp.embed.head_act == GRAPH_ACT_TANH);

    c = parse_ok("{\"architectures\":[\"NomicBertModel\"],\"vocab_size\":96,\"n_embd\":64,"
                 "\"n_inner\":96,\"n_layer\":2,\"n_head\":4,\"n_positions\":128,"
                 "\"activation_function\":\"swiglu\",\"rotary_emb_base\":500,"
                 "\"rotary_emb_fraction\":1.0,\"prenorm\":false}");
    assert_true(c.hp.embed.gated && c.hp.embed.n_pos == 0);
    assert_true(c.hp.rope_theta == 500.0f);
}

TEST(encoders_with_windows_have_two_bases)
{
    struct hf_config c = parse_ok(BERT("ModernBertModel", ",\"local_attention\":20"));

    ASSERT_STREQ(c.hp.arch, "modern-bert");
    assert_true(c.hp.rope_theta == 160000.0f && c.hp.rope_theta_window == 10000.0f);
    assert_int_equal(hparams_window(&c.hp, 0), 0);
    assert_int_equal(hparams_window(&c.hp, 1), 11);
    assert_int_equal(hparams_window(&c.hp, 3), 0);

    c = parse_ok(BERT("ModernBertForSequenceClassification", ",\"classifier_pooling\":\"mean\""));
    assert_int_equal(c.hp.embed.score_pooling, POOLING_MEAN);
    assert_int_equal(c.hp.embed.n_labels, 2);

    c = parse_ok(BERT("Gemma3TextModel",
                      ",\"use_bidirectional_attention\":true,\"head_dim\":16,"
                      "\"_sliding_window_pattern\":2,\"sliding_window\":512,\"rope_theta\":5e5"));
    ASSERT_STREQ(c.hp.arch, "gemma-embedding");
    assert_true(c.hp.norms_add_one && c.hp.embd_scale == 8 && c.hp.attn_scale == 1.0f / 16);
    assert_true(c.hp.rope_theta == 5e5f);
    assert_int_equal(hparams_window(&c.hp, 0), 257);
    assert_int_equal(hparams_window(&c.hp, 1), 0);
}

TEST(a_base_may_be_stretched)
{
    struct hf_config c = parse_ok(BERT("NewModel", ",\"rope_theta\":500000,\"rope_scaling\":"
                                                   "{\"type\":\"ntk\",\"factor\":2.0}"));

    assert_int_equal(c.hp.rope_scaling, ROPE_SCALING_NTK);
    assert_true(c.hp.rope_theta == 500000.0f && c.hp.rope_factor == 2.0f);
    assert_int_equal(c.hp.embed.n_types, 1);
    assert_true(c.hp.embed.gated && c.hp.embed.n_pos == 0);
    c = parse_ok(BERT("GteModel", ""));
    assert_true(c.hp.rope_theta == 160000.0f && c.hp.rope_scaling == ROPE_SCALING_NONE);
}

TEST(encoders_with_other_computations_are_refused)
{
    static const char *const bad[] = {
        BERT("BertModel", ",\"position_embedding_type\":\"relative_key\""),
        BERT("BertModel", ",\"hidden_act\":\"relu\""),
        BERT("BertModel", ",\"is_decoder\":true"),
        BERT("Gemma3TextModel", ""),
        BERT("Gemma3TextModel", ",\"use_bidirectional_attention\":true,\"attention_bias\":true"),
        BERT("ModernBertModel", ",\"layer_types\":[\"chunked_attention\",\"\",\"\",\"\"]"),
        BERT("ModernBertModel",
             ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"dynamic\"}}"),
        BERT("NewModel", ",\"position_embedding_type\":\"absolute\""),
        BERT("NewModel", ",\"layer_norm_type\":\"rms_norm\""),
        BERT("NewModel", ",\"logn_attention_scale\":true"),
        BERT("NewModel", ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2,\"mixed_b\":0.6}"),
        BERT("BertModel", ",\"quantization_config\":{}"),
        BERT("NomicBertModel", ",\"prenorm\":true"),
        BERT("NomicBertModel", ",\"rotary_emb_fraction\":0.5"),
        BERT("NomicBertModel", ",\"moe_every_n_layers\":2"),
        BERT("NomicBertModel", ",\"rope_parameters\":{\"rope_type\":\"yarn\"}"),
    };
    static const char *const broken[] = {
        BERT("RobertaModel", ",\"pad_token_id\":39"),
        BERT("BertModel", ",\"type_vocab_size\":-1"),
        BERT("BertForSequenceClassification", ",\"num_labels\":0"),
    };
    struct hf_config c;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct inf_err err = {0};

        assert_int_equal(parse(bad[i], &c, &err), -EOPNOTSUPP);
        assert_non_null(strstr(err.text, "config.json: "));
    }
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct inf_err err = {0};

        assert_int_equal(parse(broken[i], &c, &err), -EBADMSG);
    }
}

#define GEMMA3N_OF(layers, shared, more)                                                           \
    "{\"architectures\":[\"Gemma3nForCausalLM\"],\"vocab_size\":96,\"hidden_size\":64,"            \
    "\"intermediate_size\":96,\"num_attention_heads\":8,\"num_key_value_heads\":2,"                \
    "\"num_hidden_layers\":" layers ",\"num_kv_shared_layers\":" shared more "}"
#define GEMMA3N(more) GEMMA3N_OF("4", "0", more)

/* transformers computes the cutoffs in F32: the normal distribution has 95 % below 1.6448536. */
TEST(gemma3n_has_cutoffs_of_gates)
{
    struct hf_config c =
        parse_ok(GEMMA3N(",\"activation_sparsity_pattern\":[0.95,0,0.5,0.3],\"laurel_rank\":8"));

    ASSERT_STREQ(c.hp.arch, "gemma3n");
    assert_true(c.hp.layers[0].cutoff == 1.64485359f);
    assert_true(isinf(c.hp.layers[1].cutoff));
    assert_true(c.hp.layers[2].cutoff == 0);
    assert_float_equal(c.hp.layers[3].cutoff, -0.5244005f, 1e-6f);
    assert_int_equal(c.hp.gemma.laurel_rank, 8);
    assert_int_equal(c.hp.gemma.n_vocab, 262144);
    assert_true(c.tied && c.hp.gemma.correct_scale);
    c = parse_ok(GEMMA3N(",\"activation_sparsity_pattern\":[0,0,0,0],"
                         "\"altup_correct_scale\":false"));
    assert_true(isinf(c.hp.layers[0].cutoff) && !c.hp.gemma.correct_scale);
    /* Without a list, the first 10 layers of more than 10 have cutoffs. */
    for (int null = 0; null < 2; null++) {
        c = parse_ok(null ? GEMMA3N_OF("12", "0", ",\"activation_sparsity_pattern\":null")
                          : GEMMA3N_OF("12", "0", ""));
        assert_true(c.hp.layers[9].cutoff == 1.64485359f && isinf(c.hp.layers[10].cutoff));
        c = parse_ok(GEMMA3N(""));
        assert_true(isinf(c.hp.layers[0].cutoff));
    }
}

TEST(gemma3n_with_other_streams_or_bad_lists_is_refused)
{
    static const struct {
        const char *text, *message;
        int error;
    } bad[] = {
        {GEMMA3N(",\"altup_num_inputs\":2"), "altup_num_inputs is not supported", EOPNOTSUPP},
        {GEMMA3N(",\"altup_active_idx\":1"), "altup_active_idx is not supported", EOPNOTSUPP},
        {GEMMA3N(",\"activation_sparsity_pattern\":0.95"), "is not a list", EBADMSG},
        {GEMMA3N(",\"activation_sparsity_pattern\":[0]"), "does not fit 4 layers", EBADMSG},
        {GEMMA3N(",\"activation_sparsity_pattern\":[0,0,0,1]"), "layer 3: the activation sparsity",
         EBADMSG},
        {GEMMA3N(",\"activation_sparsity_pattern\":[0,\"x\",0,0]"), "[1] is not a number", EBADMSG},
        {GEMMA3N_OF("4", "4", ""), "4 of 4 layers share keys and values", EBADMSG},
        {GEMMA3N_OF("4", "1",
                    ",\"layer_types\":[\"full_attention\","
                    "\"full_attention\",\"full_attention\",\"sliding_attention\"]"),
         "layer 3 shares keys and values, but no earlier layer with a window", EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct inf_err err = {0};
        struct hf_config c;

        ASSERT_ERROR(parse(bad[i].text, &c, &err), bad[i].error);
        ASSERT_CONTAINS(err.text, bad[i].message);
    }
}

RUN_TESTS(cmocka_unit_test(gemma3n_has_cutoffs_of_gates),
          cmocka_unit_test(gemma3n_with_other_streams_or_bad_lists_is_refused),
          cmocka_unit_test(draft_heads_are_known_by_their_vocabulary),
          cmocka_unit_test(draft_heads_with_blocks_name_their_mask),
          cmocka_unit_test(recurrent_state_has_a_size_of_32_bits),
          cmocka_unit_test(encoders_are_read_as_transformers_reads_them),
          cmocka_unit_test(encoders_with_windows_have_two_bases),
          cmocka_unit_test(a_base_may_be_stretched),
          cmocka_unit_test(encoders_with_other_computations_are_refused),
          cmocka_unit_test(missing_keys_have_the_defaults_of_their_class),
          cmocka_unit_test(windows_count_from_a_layer_or_by_a_list),
          cmocka_unit_test(weights_of_experts_are_normalized_if_the_class_or_its_key_says_so),
          cmocka_unit_test(layers_of_mistral_may_differ),
          cmocka_unit_test(classes_without_a_head_are_read_like_those_with_one),
          cmocka_unit_test(rotary_scaling_is_read_in_both_spellings),
          cmocka_unit_test(ternary_weights_are_multiplied_or_divided_or_rounded),
          cmocka_unit_test(unsupported_features_are_refused_by_name))
