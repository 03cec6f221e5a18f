/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the binding of models: required tensors, their shapes and types, and what is rejected. */
#include "model/model.h"

#include <errno.h>

#include "core/str.h"
#include "lib/gguf_writer.h"
#include "lib/test.h"

enum { N_EMBD = 8, N_FF = 16, N_VOCAB = 12, N_LAYERS = 2 };

/* Struct change names the tensors that are left out, are added, get a wrong shape, or get the type
 * @type. */
struct change {
    const char *drop, *add, *misshape, *retype;
    uint32_t type;
};

static float zeros[N_EMBD * 256];

static void put(struct gguf_writer *w, const struct change *c, const char *name, uint64_t rows,
                uint64_t cols)
{
    uint64_t dims[2] = {cols, rows};
    uint32_t type = 0;
    size_t size;

    if (c->drop && strcmp(c->drop, name) == 0)
        return;
    if (c->misshape && strcmp(c->misshape, name) == 0)
        dims[0]++;
    size = dims[0] * dims[1] * 4;
    if (c->retype && strcmp(c->retype, name) == 0) {
        type = c->type;
        if (type == 15) {
            dims[0] = 256;
            size = dims[1] * 292;
        }
    }
    assert_true(size <= sizeof(zeros));
    gguf_put_tensor(w, name, type, dims, rows == 1 ? 1 : 2, zeros, size);
}

static char *write_model(const char *arch, const struct change *c)
{
    static const struct {
        const char *name;
        uint32_t rows, cols;
        const char *arch; /* NULL: all have it */
    } tensors[] = {
        {"attn_norm.weight", 1, N_EMBD, NULL},
        {"attn_q.weight", 8, N_EMBD, NULL},
        {"attn_k.weight", 4, N_EMBD, NULL},
        {"attn_v.weight", 4, N_EMBD, NULL},
        {"attn_output.weight", N_EMBD, 8, NULL},
        {"ffn_norm.weight", 1, N_EMBD, NULL},
        {"ffn_gate.weight", N_FF, N_EMBD, NULL},
        {"ffn_up.weight", N_FF, N_EMBD, NULL},
        {"ffn_down.weight", N_EMBD, N_FF, NULL},
        {"attn_q.bias", 1, 8, "qwen2"},
        {"attn_k.bias", 1, 4, "qwen2"},
        {"attn_v.bias", 1, 4, "qwen2"},
        {"attn_q_norm.weight", 1, 4, "qwen3"},
        {"attn_k_norm.weight", 1, 4, "qwen3"},
        {"attn_sub_norm.weight", 1, N_EMBD, "bitnet"},
        {"ffn_sub_norm.weight", 1, N_FF, "bitnet"},
        {"attn_v.scale", 1, 1, "bitnet"},
        {"ffn_down.scale", 1, 1, "bitnet"},
    };
    struct gguf_writer w = {0};
    char name[128];

#define KEY(text) (snprintf(name, sizeof(name), "%s.%s", arch, text), name)
    gguf_put_string(&w, "general.architecture", arch);
    gguf_put_u32(&w, KEY("block_count"), N_LAYERS);
    gguf_put_u32(&w, KEY("context_length"), 64);
    gguf_put_u32(&w, KEY("embedding_length"), N_EMBD);
    gguf_put_u32(&w, KEY("feed_forward_length"), N_FF);
    gguf_put_u32(&w, KEY("attention.head_count"), 2);
    gguf_put_u32(&w, KEY("attention.head_count_kv"), 1);
    gguf_put_f32(&w, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
#undef KEY
    put(&w, c, "token_embd.weight", N_VOCAB, N_EMBD);
    put(&w, c, "output_norm.weight", 1, N_EMBD);
    put(&w, c, "output.weight", N_VOCAB, N_EMBD);
    if (c->add)
        put(&w, c, c->add, 1, 4);
    for (unsigned i = 0; i < N_LAYERS; i++)
        for (size_t j = 0; j < ARRAY_SIZE(tensors); j++) {
            if (tensors[j].arch && strcmp(arch, tensors[j].arch) != 0)
                continue;
            snprintf(name, sizeof(name), "blk.%u.%s", i, tensors[j].name);
            put(&w, c, name, tensors[j].rows, tensors[j].cols);
        }
    return gguf_writer_save(&w);
}

/* Opens, binds and builds the model; returns the dump of the graph on success. */
static int try_model(const char *arch, const struct change *c, char **ret_dump, struct inf_err *err)
{
    char *path = write_model(arch, c);
    struct format *f = NULL;
    struct model *m = NULL;
    struct graph *g = NULL;
    struct str s = {0};
    int r;

    r = format_open(path, 0, model_archs(), &f, err);
    if (r == 0)
        r = model_open(f, &m, err);
    if (r == 0)
        r = model_build(m, &g, err);
    if (r == 0 && ret_dump) {
        ASSERT_OK(graph_dump(g, &s));
        *ret_dump = str_take(&s, NULL);
    }
    graph_free(g);
    model_close(m);
    format_close(f);
    unlink(path);
    free(path);
    return r;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

TEST(each_architecture_builds_its_graph)
{
    static const struct {
        const char *arch;
        size_t n_norms, n_scales; /* of a layer */
    } rows[] = {{"llama", 2, 0}, {"qwen2", 2, 0}, {"qwen3", 4, 0}, {"bitnet", 4, 2}};
    const struct change none = {0};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct inf_err err = {0};
        char *dump;

        ASSERT_OK_ERR(try_model(rows[i].arch, &none, &dump, &err), err);
        assert_int_equal(count(dump, "attention"), N_LAYERS);
        assert_int_equal(count(dump, "glu"), N_LAYERS);
        assert_int_equal(count(dump, "rms_norm"), rows[i].n_norms * N_LAYERS + 1);
        assert_int_equal(count(dump, "= scale "), rows[i].n_scales * N_LAYERS);
        free(dump);
    }
}

TEST(a_missing_head_is_the_embedding)
{
    const struct change tied = {.drop = "output.weight"};
    struct inf_err err = {0};
    char *path = write_model("llama", &tied);
    struct format *f;
    struct model *m;
    uint64_t layer;

    ASSERT_OK_ERR(format_open(path, 0, model_archs(), &f, &err), err);
    ASSERT_OK_ERR(model_open(f, &m, &err), err);
    assert_true(model_tied_head(m));
    layer = 2 * N_EMBD + 16 * N_EMBD + 8 * N_EMBD + 3 * N_FF * N_EMBD;
    assert_int_equal(model_bytes_token(m), 4 * (N_LAYERS * layer + N_EMBD + N_VOCAB * N_EMBD));
    assert_int_equal(model_madds_layers(m), N_LAYERS * (layer - 2 * N_EMBD));
    assert_int_equal(model_madds_head(m), N_VOCAB * N_EMBD);
    model_close(m);
    format_close(f);
    unlink(path);
    free(path);
}

TEST(wrong_weights_are_refused_by_name)
{
    static const struct {
        const char *arch;
        struct change change;
        const char *message;
        int code;
    } table[] = {
        {"llama", {.drop = "token_embd.weight"}, "vocabulary size is 0", EBADMSG},
        {"llama", {.drop = "output_norm.weight"}, "output_norm.weight is missing", EBADMSG},
        {"llama", {.drop = "blk.1.ffn_up.weight"}, "blk.1.ffn_up.weight is missing", EBADMSG},
        {"llama", {.misshape = "blk.1.ffn_up.weight"}, "is 16 x 9, expected 16 x 8", EBADMSG},
        {"llama", {.misshape = "blk.0.attn_norm.weight"}, "is 9, expected 1 x 8", EBADMSG},
        {"llama", {.misshape = "token_embd.weight"}, "is 12 x 9, expected 12 x 8", EBADMSG},
        {"llama", {.add = "blk.0.attn_sinks.weight"}, "attn_sinks.weight is not part", EOPNOTSUPP},
        {"llama",
         {.add = "blk.2.attn_norm.weight"},
         "blk.2.attn_norm.weight is not part",
         EOPNOTSUPP},
        {"llama",
         {.add = "blk.0.attn_q_norm.weight"},
         "attn_q_norm.weight is not part",
         EOPNOTSUPP},
        {"llama", {.add = "rope_freqs.weight"}, "rope_freqs.weight", EBADMSG},
        {"llama", {.retype = "blk.0.attn_q.weight", .type = 15}, "stored as Q8_K", EOPNOTSUPP},
        {"llama", {.retype = "blk.0.attn_q.weight", .type = 200}, "ggml type 200", EOPNOTSUPP},
        {"qwen2", {.drop = "blk.0.attn_k.bias"}, "blk.0.attn_k.bias is missing", EBADMSG},
        {"qwen3", {.drop = "blk.1.attn_k_norm.weight"}, "attn_k_norm.weight is missing", EBADMSG},
        {"bitnet",
         {.drop = "blk.1.ffn_sub_norm.weight"},
         "ffn_sub_norm.weight is missing",
         EBADMSG},
        {"bitnet", {.misshape = "blk.0.attn_v.scale"}, "is 2, expected 1 x 1", EBADMSG},
        {"bitnet", {.add = "blk.0.attn_v.bias"}, "attn_v.bias together", EOPNOTSUPP},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_err err = {0};
        const int r = try_model(table[i].arch, &table[i].change, NULL, &err);

        if (r != -table[i].code || !strstr(err.text, table[i].message))
            fail_msg("row %zu: %d, \"%s\"; expected \"%s\"", i, r, err.text, table[i].message);
    }
}

TEST(a_vocabulary_is_no_model)
{
    struct inf_err err = {0};
    struct gguf_writer w = {0};
    struct format *f;
    struct model *m;
    char *path;

    gguf_put_string(&w, "general.architecture", "llama");
    path = gguf_writer_save(&w);
    ASSERT_OK_ERR(format_open(path, FORMAT_VOCAB_ONLY, model_archs(), &f, &err), err);
    ASSERT_ERROR(model_open(f, &m, &err), EINVAL);
    format_close(f);
    unlink(path);
    free(path);
}

RUN_TESTS(cmocka_unit_test(each_architecture_builds_its_graph),
          cmocka_unit_test(a_missing_head_is_the_embedding),
          cmocka_unit_test(wrong_weights_are_refused_by_name),
          cmocka_unit_test(a_vocabulary_is_no_model))
