/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the configuration of assistants of Gemma 4. */
#include "format/hf/config.h"

#include "lib/test.h"
#include "model/model.h"

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

/* @rest: keys of text_config; @more: further keys. */
#define ASSISTANT(rest, more)                                                                      \
    "{\"architectures\":[\"Gemma4AssistantForCausalLM\"],\"model_type\":\"gemma4_assistant\","     \
    "\"backbone_hidden_size\":96,\"text_config\":{\"hidden_size\":64,\"vocab_size\":80,"           \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                 \
    "\"num_global_key_value_heads\":1,\"attention_k_eq_v\":true,\"head_dim\":16,"                  \
    "\"global_head_dim\":32,\"intermediate_size\":128,\"sliding_window\":9,"                       \
    "\"num_kv_shared_layers\":2,\"layer_types\":[\"sliding_attention\",\"full_attention\"]" rest   \
    "}" more "}"

TEST(assistants_have_clusters_of_equal_size)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {ASSISTANT(",\"hidden_size_per_layer_input\":8", ""), "per-layer embeddings"},
        {ASSISTANT(",\"use_double_wide_mlp\":true", ""), "use_double_wide_mlp"},
        {ASSISTANT(",\"enable_moe_block\":true", ""), "enable_moe_block"},
        {ASSISTANT("", ",\"use_ordered_embeddings\":true,\"num_centroids\":12"), "clusters"},
        {ASSISTANT("", ",\"use_ordered_embeddings\":true,\"num_centroids\":16"), "32 of 16"},
        {ASSISTANT("", ",\"use_ordered_embeddings\":3"), "use_ordered_embeddings"},
    };
    struct hf_config c = parse_ok(ASSISTANT("", ""));

    ASSERT_STREQ(c.hp.arch, "gemma4-assistant");
    assert_true(c.hp.head.is_head && c.tied);
    assert_int_equal(c.hp.head.n_target, 96);
    assert_int_equal(c.hp.head.n_clusters, 0);
    assert_int_equal(hparams_window(&c.hp, 0), 9);
    assert_int_equal(hparams_window(&c.hp, 1), 0);
    assert_int_equal(hparams_head_dim(&c.hp, 0), 16);
    assert_int_equal(hparams_head_dim(&c.hp, 1), 32);
    assert_int_equal(hparams_n_kv_heads(&c.hp, 0), 2);
    assert_int_equal(hparams_n_kv_heads(&c.hp, 1), 1);
    c = parse_ok(ASSISTANT("", ",\"use_ordered_embeddings\":true,\"num_centroids\":40,"
                               "\"centroid_intermediate_top_k\":5"));
    assert_int_equal(c.hp.head.n_clusters, 40);
    assert_int_equal(c.hp.head.n_clusters_used, 5);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct inf_err err = {0};

        assert_true(parse(bad[i].text, &c, &err) < 0);
        if (!strstr(err.text, bad[i].error))
            fail_msg("\"%s\" does not contain \"%s\"", err.text, bad[i].error);
    }
}

RUN_TESTS(cmocka_unit_test(assistants_have_clusters_of_equal_size))
