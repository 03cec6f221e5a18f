/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the weights of experts are bound: as one tensor, as one tensor for each expert, and
 * what is rejected. */
#include "model/model.h"

#include <errno.h>

#include "core/str.h"
#include "lib/gguf_writer.h"
#include "lib/test.h"

enum { N_EMBD = 8, N_FF = 6, N_VOCAB = 12, N_LAYERS = 2, N_EXPERTS = 3, N_USED = 2 };

/* Says how a model differs from the usual one. */
struct change {
    bool split;         /* each expert has tensors of its own */
    const char *drop;   /* the tensor that is missing */
    const char *narrow; /* the tensor that has a column too few */
    const char *half;   /* the tensor that is stored as F16 */
};

static float zeros[N_EMBD * 64];

static void put(struct gguf_writer *w, const struct change *c, const char *name, uint32_t n_dims,
                const uint64_t *dims)
{
    const bool half = c->half && strcmp(c->half, name) == 0;
    uint64_t shape[3] = {dims[0], n_dims > 1 ? dims[1] : 1, n_dims > 2 ? dims[2] : 1};
    size_t size;

    if (c->drop && strcmp(c->drop, name) == 0)
        return;
    if (c->narrow && strcmp(c->narrow, name) == 0)
        shape[0]--;
    size = shape[0] * shape[1] * shape[2] * (half ? 2 : 4);
    assert_true(size <= sizeof(zeros));
    gguf_put_tensor(w, name, half ? 1 : 0, shape, n_dims, zeros, size);
}

static void put_experts(struct gguf_writer *w, const struct change *c, unsigned i_layer,
                        const char *name, uint64_t rows, uint64_t cols)
{
    const uint64_t dims[] = {cols, rows, N_EXPERTS};
    char full[64];

    if (!c->split) {
        snprintf(full, sizeof(full), "blk.%u.%s_exps.weight", i_layer, name);
        put(w, c, full, 3, dims);
        return;
    }
    for (unsigned i = 0; i < N_EXPERTS; i++) {
        snprintf(full, sizeof(full), "blk.%u.%s.%u.weight", i_layer, name, i);
        put(w, c, full, 2, dims);
    }
}

static void put_layer(struct gguf_writer *w, const struct change *c, unsigned i_layer)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } tensors[] = {
        {"attn_norm", 1, N_EMBD}, {"attn_q", 8, N_EMBD},      {"attn_k", 4, N_EMBD},
        {"attn_v", 4, N_EMBD},    {"attn_output", N_EMBD, 8}, {"attn_q_norm", 1, 4},
        {"attn_k_norm", 1, 4},    {"ffn_norm", 1, N_EMBD},    {"ffn_gate_inp", N_EXPERTS, N_EMBD},
    };
    char name[64];

    for (size_t i = 0; i < ARRAY_SIZE(tensors); i++) {
        const uint64_t dims[] = {tensors[i].cols, tensors[i].rows};

        snprintf(name, sizeof(name), "blk.%u.%s.weight", i_layer, tensors[i].name);
        put(w, c, name, dims[1] == 1 ? 1 : 2, dims);
    }
    put_experts(w, c, i_layer, "ffn_gate", N_FF, N_EMBD);
    put_experts(w, c, i_layer, "ffn_up", N_FF, N_EMBD);
    put_experts(w, c, i_layer, "ffn_down", N_EMBD, N_FF);
}

static char *write_model(const struct change *c)
{
    static const struct {
        const char *key;
        uint32_t value;
    } counts[] = {
        {"block_count", N_LAYERS},
        {"context_length", 64},
        {"embedding_length", N_EMBD},
        {"feed_forward_length", 16},
        {"attention.head_count", 2},
        {"attention.head_count_kv", 1},
        {"expert_count", N_EXPERTS},
        {"expert_used_count", N_USED},
        {"expert_feed_forward_length", N_FF},
    };
    const uint64_t table[] = {N_EMBD, N_VOCAB};
    struct gguf_writer w = {0};
    char key[64];

    gguf_put_string(&w, "general.architecture", "qwen3moe");
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        snprintf(key, sizeof(key), "qwen3moe.%s", counts[i].key);
        gguf_put_u32(&w, key, counts[i].value);
    }
    gguf_put_f32(&w, "qwen3moe.attention.layer_norm_rms_epsilon", 1e-5f);
    put(&w, c, "token_embd.weight", 2, table);
    put(&w, c, "output_norm.weight", 1, table);
    put(&w, c, "output.weight", 2, table);
    for (unsigned i = 0; i < N_LAYERS; i++)
        put_layer(&w, c, i);
    return gguf_writer_save(&w);
}

/* Opens, binds and builds the model; on success, returns the bytes of a token, and the graph as
 * text. */
static int try_model(const struct change *c, uint64_t *ret_bytes, char **ret_dump,
                     struct inf_err *err)
{
    char *path = write_model(c);
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
    if (r == 0) {
        ASSERT_OK(graph_dump(g, &s));
        *ret_dump = str_take(&s, NULL);
        *ret_bytes = model_bytes_token(m);
    }
    graph_free(g);
    model_close(m);
    format_close(f);
    unlink(path);
    free(path);
    return r;
}

TEST(experts_are_bound_from_one_tensor_or_from_one_for_each)
{
    const uint64_t layer =
        (8 + 4 + 4 + 8 + 2) * N_EMBD + 2 * 4 + N_EXPERTS * N_EMBD + 3 * N_USED * N_FF * N_EMBD;

    for (unsigned split = 0; split < 2; split++) {
        const struct change c = {.split = split};
        struct inf_err err = {0};
        uint64_t bytes;
        char *dump;

        ASSERT_OK_ERR(try_model(&c, &bytes, &dump, &err), err);
        assert_int_equal(bytes, 4 * (N_LAYERS * layer + N_EMBD + N_VOCAB * N_EMBD));
        assert_non_null(strstr(dump, "route"));
        assert_non_null(strstr(dump, "mix"));
        free(dump);
    }
}

TEST(wrong_experts_are_refused_by_name)
{
    static const struct {
        struct change change;
        const char *message;
        int code;
    } table[] = {
        {{.drop = "blk.1.ffn_up_exps.weight"}, "blk.1.ffn_up_exps.weight is missing", EBADMSG},
        {{.narrow = "blk.0.ffn_down_exps.weight"}, "is 3 x 8 x 5, expected 3 x 8 x 6", EBADMSG},
        {{.split = true, .drop = "blk.1.ffn_gate.0.weight"},
         "ffn_gate_exps.weight is missing",
         EBADMSG},
        {{.split = true, .drop = "blk.1.ffn_gate.2.weight"},
         "blk.1.ffn_gate.2.weight is missing",
         EBADMSG},
        {{.split = true, .narrow = "blk.0.ffn_up.1.weight"}, "is 6 x 7, expected 6 x 8", EBADMSG},
        {{.split = true, .half = "blk.0.ffn_up.1.weight"}, "another expert", EOPNOTSUPP},
        {{.drop = "blk.0.ffn_gate_inp.weight"}, "ffn_gate_inp.weight is missing", EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_err err = {0};
        uint64_t bytes;
        char *dump;
        const int r = try_model(&table[i].change, &bytes, &dump, &err);

        if (r != -table[i].code || !strstr(err.text, table[i].message))
            fail_msg("row %zu: %d, \"%s\"; expected \"%s\"", i, r, err.text, table[i].message);
    }
}

RUN_TESTS(cmocka_unit_test(experts_are_bound_from_one_tensor_or_from_one_for_each),
          cmocka_unit_test(wrong_experts_are_refused_by_name))
