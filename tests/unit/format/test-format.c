/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whole models on disk: their directories, shards, templates and metadata. */
#include "format/format.h"

#include <errno.h>
#include <sys/stat.h>

#include "core/file.h"
#include "format/hf/names.h"
#include "lib/gguf_writer.h"
#include "lib/test.h"
#include "model/model.h"

/* Struct dir is a directory whose files are removed at the end. */
struct dir {
    char path[64];
    char names[8][64];
    size_t n;
};

static void dir_open(struct dir *d)
{
    *d = (struct dir){.path = "/tmp/sconce-test-XXXXXX"};
    assert_non_null(mkdtemp(d->path));
}

static void dir_put(struct dir *d, const char *name, const void *data, size_t len)
{
    char *path = path_join(d->path, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
    free(path);
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->names[i], name) == 0)
            return;
    assert_true(d->n < 8);
    snprintf(d->names[d->n++], sizeof(d->names[0]), "%s", name);
}

static void dir_puts(struct dir *d, const char *name, const char *text)
{
    dir_put(d, name, text, strlen(text));
}

static void dir_done(struct dir *d)
{
    for (size_t i = 0; i < d->n; i++) {
        char *path = path_join(d->path, d->names[i]);

        unlink(path);
        free(path);
    }
    rmdir(d->path);
}

/* Writes a safetensors file with F32 tensors of two elements each. */
static void put_shard(struct dir *d, const char *file, const char *const *tensors, size_t n)
{
    char header[1024] = "{", buf[1024 + 8 + 64] = {0};
    uint64_t len;

    for (size_t i = 0; i < n; i++)
        snprintf(header + strlen(header), sizeof(header) - strlen(header),
                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%zu,%zu]}",
                 i ? "," : "", tensors[i], 8 * i, 8 * i + 8);
    strcat(header, "}");
    while (strlen(header) % 8)
        strcat(header, " ");
    len = strlen(header);
    memcpy(buf, &len, 8);
    memcpy(buf + 8, header, len);
    dir_put(d, file, buf, 8 + len + 8 * n);
}

#define CONFIG                                                                                     \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":8,\"hidden_size\":8,"                \
    "\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2"

static int open_dir(const struct dir *d, struct format **f, struct inf_err *err)
{
    *err = (struct inf_err){0};
    return format_open(d->path, 0, model_archs(), f, err);
}

static const struct arch_desc *arch_named(const char *name)
{
    const struct arch_list *list = model_archs();

    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->descs[i]->name, name) == 0)
            return list->descs[i];
    fail_msg("no architecture %s", name);
    return NULL;
}

TEST(names_become_canonical)
{
    static const char *const pairs[][2] = {
        {"model.embed_tokens.weight", "token_embd.weight"},
        {"model.norm.weight", "output_norm.weight"},
        {"lm_head.weight", "output.weight"},
        {"model.layers.17.self_attn.q_proj.weight", "blk.17.attn_q.weight"},
        {"layers.0.self_attn.o_proj.bias", "blk.0.attn_output.bias"},
        {"model.layers.3.self_attn.k_norm.weight", "blk.3.attn_k_norm.weight"},
        {"model.layers.3.post_attention_layernorm.weight", "blk.3.ffn_norm.weight"},
        {"model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight"},
        {"model.layers.3.self_attn.rotary_emb.inv_freq", ""},
        /* The names of unknown tensors are kept; binding the model rejects such tensors. */
        {"model.layers.03.mlp.down_proj.weight", "model.layers.03.mlp.down_proj.weight"},
        {"model.layers.x.mlp.down_proj.weight", "model.layers.x.mlp.down_proj.weight"},
        {"model.layers.3.mlp.gate.weight", "model.layers.3.mlp.gate.weight"},
        {"", ""},
    };
    const struct arch_desc *qwen3 = arch_named("qwen3");
    char name[HF_NAME_MAX], longest[200];

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        assert_true(hf_name(qwen3, pairs[i][0], name));
        ASSERT_STREQ(name, pairs[i][1]);
    }
    memset(longest, 'x', sizeof(longest));
    longest[199] = 0;
    assert_false(hf_name(qwen3, longest, name));
}

TEST(names_of_gemma3n_become_those_of_gguf)
{
    static const char *const pairs[][2] = {
        {"model.language_model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
        {"model.language_model.altup_projections.2.weight", "altup_proj.2.weight"},
        {"model.altup_unembed_projections.0.weight", "altup_unembd_proj.0.weight"},
        {"model.language_model.layers.3.altup.correct_output_scale",
         "blk.3.altup_correct_scale.weight"},
        {"model.layers.3.altup.prediction_coefs.weight", "blk.3.altup_predict_coef.weight"},
        {"model.layers.3.laurel.post_laurel_norm.weight", "blk.3.laurel_post_norm.weight"},
        {"model.layers.3.per_layer_projection.weight", "blk.3.proj.weight"},
        {"model.vision_tower.timm_model.conv_stem.conv.weight", ""},
        {"model.audio_tower.conformer.0.norm.weight", ""},
        {"model.embed_audio.embedding.weight", ""},
    };
    const struct arch_desc *gemma3n = arch_named("gemma3n");
    char name[HF_NAME_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        assert_true(hf_name(gemma3n, pairs[i][0], name));
        ASSERT_STREQ(name, pairs[i][1]);
    }
}

TEST(adapters_are_named_after_the_tensors_that_they_change)
{
    static const char *const pairs[][2] = {
        {"model.language_model.layers.3.mlp.up_proj.weight", "blk.3.ffn_up.weight"},
        {"model.layers.3.self_attn.q_proj.bias", "blk.3.attn_q.bias"},
        {"base_model.model.model.language_model.layers.3.self_attn.q_proj.lora_A.code.weight",
         "blk.3.attn_q.lora_a.code"},
        {"base_model.model.model.layers.3.mlp.down_proj.lora_B.default.text-matching.weight",
         "blk.3.ffn_down.lora_b.text-matching"},
        {"base_model.model.multi_vector_projector.lora_A.code.weight", "multi_vector.lora_a.code"},
        {"multi_vector_projector.bias", "multi_vector.bias"},
        {"base_model.model.visual.blocks.1.mlp.up_proj.lora_A.code.weight", ""},
        {"model.visual.merger.ln_q.weight", ""},
        {"lm_head.weight", ""},
    };
    const struct arch_desc *jina = arch_named("jina-embeddings-v4");
    char name[HF_NAME_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        assert_true(hf_name(jina, pairs[i][0], name));
        ASSERT_STREQ(name, pairs[i][1]);
    }
    assert_false(hf_name(jina, "model.layers.3.mlp.down_proj.lora_B.code.bias", name));
    assert_false(hf_name(jina, "model.layers.3.mlp.gate.lora_B", name) && strstr(name, "lora_b"));
}

/* The digest depends on every number and every tensor. It does not depend on the directory. */
TEST(models_have_an_identity)
{
    static const char *const names[] = {"lm_head.weight", "model.norm.weight"};
    static const char *const configs[] = {CONFIG "}", CONFIG "}", CONFIG ",\"rope_theta\":7}"};
    uint8_t digests[4][SHA256_BYTES];
    struct inf_err err;
    struct format *f;
    struct dir d;

    for (unsigned i = 0; i < 4; i++) {
        dir_open(&d);
        dir_puts(&d, "config.json", configs[i % 3]);
        put_shard(&d, "model.safetensors", names, i < 3 ? 2 : 1);
        ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
        format_identity(f, digests[i]);
        format_close(f);
        dir_done(&d);
    }
    assert_memory_equal(digests[0], digests[1], SHA256_BYTES);
    assert_memory_not_equal(digests[0], digests[2], SHA256_BYTES);
    assert_memory_not_equal(digests[0], digests[3], SHA256_BYTES);
}

TEST(shards_are_found_by_their_index)
{
    static const char *const one[] = {"model.embed_tokens.weight"};
    static const char *const two[] = {"model.norm.weight", "lm_head.weight"};
    const struct format_tensor *t;
    struct inf_err err;
    struct format *f;
    struct dir d;

    dir_open(&d);
    dir_puts(&d, "config.json", CONFIG "}");
    put_shard(&d, "a.safetensors", one, 1);
    put_shard(&d, "b.safetensors", two, 2);
    dir_puts(&d, "model.safetensors.index.json",
             "{\"metadata\":{},\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\","
             "\"model.norm.weight\":\"b.safetensors\",\"lm_head.weight\":\"b.safetensors\"}}");
    ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
    ASSERT_STREQ(format_kind(f), "safetensors");
    ASSERT_STREQ(format_dir(f), d.path);
    assert_null(format_gguf(f));
    assert_int_equal(format_n_tensors(f), 3);
    t = format_find(f, "output.weight");
    assert_non_null(t);
    ASSERT_STREQ(t->file_name, "lm_head.weight");
    /* The directory's name becomes the model's name. */
    ASSERT_STREQ(format_hparams(f)->name, strrchr(d.path, '/') + 1);
    format_close(f);
    dir_done(&d);
}

TEST(bad_indices_are_refused_by_name)
{
    static const char *const one[] = {"model.embed_tokens.weight"};
    static const struct {
        const char *index, *message;
        int code;
    } table[] = {
        {"{}", "weight_map is missing", EBADMSG},
        {"{\"weight_map\":{}}", "weight_map is missing", EBADMSG},
        {"{\"weight_map\":[]}", "weight_map is missing", EBADMSG},
        {"{\"weight_map\":{\"x\":1}}", "not a string", EBADMSG},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", "not a name of a shard", EBADMSG},
        {"{\"weight_map\":{\"x\":\"/etc/a.safetensors\"}}", "not a name of a shard", EBADMSG},
        {"{\"weight_map\":{\"x\":\".safetensors\"}}", "not a name of a shard", EBADMSG},
        {"{\"weight_map\":{\"x\":\"..\"}}", "not a name of a shard", EBADMSG},
        {"{\"weight_map\":{\"x\":\"model.safetensors.index.json\"}}", "not a name of a shard",
         EBADMSG},
        {"{\"weight_map\":{\"x\":\"absent.safetensors\"}}", "absent.safetensors", ENOENT},
        {"{\"weight_map\":{\"x\":\"a.safetensors\"}}", "tensor x is not in", EBADMSG},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"a.safetensors\"}}", "duplicate",
         EBADMSG},
        {"{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\"}", "index.json",
         EBADMSG},
    };
    struct dir d;

    dir_open(&d);
    dir_puts(&d, "config.json", CONFIG "}");
    put_shard(&d, "a.safetensors", one, 1);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_err err;
        struct format *f;
        int r;

        dir_puts(&d, "model.safetensors.index.json", table[i].index);
        r = open_dir(&d, &f, &err);
        if (r != -table[i].code || !strstr(err.text, table[i].message))
            fail_msg("%s: %d, \"%s\"", table[i].index, r, err.text);
    }
    dir_done(&d);
}

TEST(a_tensor_in_two_shards_is_refused)
{
    static const char *const one[] = {"model.norm.weight", "lm_head.weight"};
    static const char *const two[] = {"norm.weight"};
    struct inf_err err;
    struct format *f;
    struct dir d;

    dir_open(&d);
    dir_puts(&d, "config.json", CONFIG "}");
    put_shard(&d, "a.safetensors", one, 2);
    put_shard(&d, "b.safetensors", two, 1);
    dir_puts(&d, "model.safetensors.index.json",
             "{\"weight_map\":{\"model.norm.weight\":\"a.safetensors\","
             "\"norm.weight\":\"b.safetensors\"}}");
    ASSERT_ERROR(open_dir(&d, &f, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "occurs twice");
    dir_done(&d);
}

TEST(config_and_tensors_must_agree)
{
    static const char *const head[] = {"lm_head.weight"};
    static const char *const both[] = {"model.embed_tokens.weight", "lm_head.weight"};
    static const char *const bias[] = {"model.layers.0.self_attn.q_proj.bias", "lm_head.weight"};
    struct inf_err err;
    struct format *f;
    struct dir d;

    dir_open(&d);
    put_shard(&d, "model.safetensors", head, 1);
    dir_puts(&d, "config.json", CONFIG ",\"tie_word_embeddings\":true}");
    ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
    assert_null(format_find(f, "output.weight"));
    ASSERT_STREQ(format_find(f, "token_embd.weight")->file_name, "lm_head.weight");
    format_close(f);
    put_shard(&d, "model.safetensors", both, 2);
    ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
    ASSERT_STREQ(format_find(f, "output.weight")->file_name, both[1]);
    ASSERT_STREQ(format_find(f, "token_embd.weight")->file_name, both[0]);
    format_close(f);
    put_shard(&d, "model.safetensors", head, 1);
    dir_puts(&d, "config.json", CONFIG ",\"attention_bias\":true}");
    ASSERT_ERROR(open_dir(&d, &f, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "there is a blk.0.attn_q.bias");
    put_shard(&d, "model.safetensors", bias, 2);
    dir_puts(&d, "config.json", CONFIG "}");
    ASSERT_ERROR(open_dir(&d, &f, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "there is no blk.0.attn_q.bias");
    put_shard(&d, "model.safetensors", bias, 1);
    ASSERT_ERROR(open_dir(&d, &f, &err), EBADMSG);
    dir_done(&d);
}

TEST(a_tied_head_may_be_several_tensors)
{
    static const char *const planes[] = {"lm_head.weight", "lm_head.scales", "lm_head.biases"};
    struct inf_err err;
    struct format *f;
    struct dir d;

    dir_open(&d);
    put_shard(&d, "model.safetensors", planes, ARRAY_SIZE(planes));
    dir_puts(&d, "config.json", CONFIG ",\"tie_word_embeddings\":true}");
    ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
    assert_null(format_find(f, "output.scales"));
    ASSERT_STREQ(format_find(f, "token_embd.weight")->file_name, planes[0]);
    ASSERT_STREQ(format_find(f, "token_embd.scales")->file_name, planes[1]);
    ASSERT_STREQ(format_find(f, "token_embd.biases")->file_name, planes[2]);
    format_close(f);
    dir_done(&d);
}

/* A file with very many tensors must not take long. */
TEST(many_tensors_with_the_name_of_a_tied_head_are_read_once)
{
    enum { N = 30000, ENTRY = 80 };
    char *file = calloc(1, 8 + 2 + N * ENTRY);
    struct inf_err err;
    struct format *f;
    uint64_t len = 1;
    struct dir d;

    assert_non_null(file);
    file[8] = '{';
    for (unsigned i = 0; i < N; i++)
        len += (uint64_t)snprintf(
            file + 8 + len, ENTRY,
            "%s\"output.%u\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
            i ? "," : "", i);
    file[8 + len++] = '}';
    memcpy(file, &len, 8);
    dir_open(&d);
    dir_put(&d, "model.safetensors", file, 8 + len);
    dir_puts(&d, "config.json", CONFIG ",\"tie_word_embeddings\":true}");
    ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
    format_close(f);
    dir_done(&d);
    free(file);
}

TEST(directories_without_weights_say_so)
{
    static const char *const head[] = {"lm_head.weight"};
    struct inf_err err;
    struct format *f;
    struct dir d;

    dir_open(&d);
    ASSERT_ERROR(open_dir(&d, &f, &err), ENOENT);
    ASSERT_CONTAINS(err.text, "config.json");
    dir_puts(&d, "config.json", CONFIG "}");
    ASSERT_ERROR(open_dir(&d, &f, &err), ENOENT);
    ASSERT_CONTAINS(err.text, "no *.safetensors");
    dir_puts(&d, "pytorch_model.bin", "PK");
    ASSERT_ERROR(open_dir(&d, &f, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "pytorch_model.bin: pickled weights");
    put_shard(&d, "any.safetensors", head, 1);
    ASSERT_OK_ERR(open_dir(&d, &f, &err), err);
    format_close(f);
    put_shard(&d, "other.safetensors", head, 1);
    ASSERT_ERROR(open_dir(&d, &f, &err), ENOENT);
    ASSERT_CONTAINS(err.text, "index.json");
    dir_done(&d);
}

static void expect_template(const struct dir *d, const char *want)
{
    struct inf_err err = {0};
    const char *text;
    struct format *f;
    size_t len = 0;

    ASSERT_OK_ERR(format_open(d->path, FORMAT_VOCAB_ONLY, model_archs(), &f, &err), err);
    text = format_chat_template(f, &len);
    if (want) {
        assert_non_null(text);
        ASSERT_STREQ(text, want);
        assert_int_equal(len, strlen(want));
    } else {
        assert_null(text);
    }
    format_close(f);
}

TEST(chat_templates_are_found_newest_form_first)
{
    struct dir d;

    dir_open(&d);
    expect_template(&d, NULL);
    /* Python can write integers that fit no C type. */
    dir_puts(&d, "tokenizer_config.json",
             "{\"model_max_length\":1000000000000000019884624838656,\"chat_template\":\"one\"}");
    expect_template(&d, "one");
    dir_puts(&d, "tokenizer_config.json",
             "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
             "{\"name\":\"default\",\"template\":\"two\"}]}");
    expect_template(&d, "two");
    dir_puts(&d, "chat_template.json", "{\"chat_template\":\"three\"}");
    expect_template(&d, "three");
    dir_puts(&d, "chat_template.jinja", "four");
    expect_template(&d, "four");
    dir_done(&d);
}

TEST(a_vocabulary_needs_no_weights_and_no_known_architecture)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    const char *text;
    struct format *f;
    char *path;
    size_t len;

    gguf_put_string(&w, "general.architecture", "falcon");
    gguf_put_string(&w, "tokenizer.chat_template", "five");
    path = gguf_writer_save(&w);
    ASSERT_ERROR(format_open(path, 0, model_archs(), &f, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "\"falcon\"");
    ASSERT_OK_ERR(format_open(path, FORMAT_VOCAB_ONLY, model_archs(), &f, &err), err);
    ASSERT_STREQ(format_hparams(f)->arch, "falcon");
    assert_int_equal(format_hparams(f)->n_layers, 0);
    text = format_chat_template(f, &len);
    assert_memory_equal(text, "five", 4);
    assert_int_equal(len, 4);
    format_close(f);
    unlink(path);
    free(path);
}

TEST(metadata_is_shown_as_text)
{
    static const char *const words[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    static const char *const want[][2] = {
        {"general.architecture", "llama"},
        {"f", "0.100000001"},
        {"yes", "true"},
        {"words", "[a, b, c, d, e, f, g, h, … (9)]"},
        {"u", "18446744073709551615"},
        {"bad", "ok…"},
    };
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    const char *key, *value;
    struct format *f;
    char *path;

    gguf_put_string(&w, "general.architecture", "llama");
    gguf_put_f32(&w, "f", 0.1f);
    gguf_put_bool(&w, "yes", true);
    gguf_put_strings(&w, "words", words, 9);
    gguf_put_raw(&w, "u", 10, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gguf_put_string(&w, "bad", "ok\xff");
    path = gguf_writer_save(&w);
    ASSERT_OK_ERR(format_open(path, FORMAT_VOCAB_ONLY, model_archs(), &f, &err), err);
    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        assert_true(format_meta(f, i, &key, &value));
        ASSERT_STREQ(key, want[i][0]);
        ASSERT_STREQ(value, want[i][1]);
    }
    assert_false(format_meta(f, ARRAY_SIZE(want), &key, &value));
    format_close(f);
    unlink(path);
    free(path);
}

TEST(paths_that_are_no_model_say_what_to_do)
{
    static const char *const head[] = {"lm_head.weight"};
    struct inf_err err = {0};
    struct format *f;
    struct dir d;
    char *path;

    ASSERT_ERROR(format_open("/nonexistent", 0, model_archs(), &f, &err), ENOENT);
    dir_open(&d);
    put_shard(&d, "model.safetensors", head, 1);
    path = path_join(d.path, "model.safetensors");
    ASSERT_ERROR(format_open(path, 0, model_archs(), &f, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "directory");
    free(path);
    dir_puts(&d, "model.pth", "PK");
    path = path_join(d.path, "model.pth");
    ASSERT_ERROR(format_open(path, 0, model_archs(), &f, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "safetensors files or a GGUF file");
    free(path);
    dir_done(&d);
}

RUN_TESTS(cmocka_unit_test(names_become_canonical),
          cmocka_unit_test(names_of_gemma3n_become_those_of_gguf),
          cmocka_unit_test(adapters_are_named_after_the_tensors_that_they_change),
          cmocka_unit_test(models_have_an_identity),
          cmocka_unit_test(shards_are_found_by_their_index),
          cmocka_unit_test(bad_indices_are_refused_by_name),
          cmocka_unit_test(a_tensor_in_two_shards_is_refused),
          cmocka_unit_test(config_and_tensors_must_agree),
          cmocka_unit_test(a_tied_head_may_be_several_tensors),
          cmocka_unit_test(many_tensors_with_the_name_of_a_tied_head_are_read_once),
          cmocka_unit_test(directories_without_weights_say_so),
          cmocka_unit_test(chat_templates_are_found_newest_form_first),
          cmocka_unit_test(a_vocabulary_needs_no_weights_and_no_known_architecture),
          cmocka_unit_test(metadata_is_shown_as_text),
          cmocka_unit_test(paths_that_are_no_model_say_what_to_do))
