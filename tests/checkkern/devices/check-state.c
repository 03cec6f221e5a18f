/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks operations with state on whole devices: convolutions, gated delta rules, and graphs whose
 * state has several groups.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"

static struct graph *new_graph(void)
{
    struct graph *g;

    if (graph_new(&g) < 0)
        exit(2);
    return g;
}

static struct kv_layout recurrent_layout(uint32_t n_layers, uint32_t conv, uint32_t matrix)
{
    return (struct kv_layout){
        .n_groups = 1,
        .groups = {{.rule = STATE_RECURRENT,
                    .n_layers = n_layers,
                    .conv_floats = conv,
                    .matrix_floats = matrix}},
        .block_tokens = BED_BLOCK_TOKENS,
        .k = CODEC_F16,
        .v = CODEC_F16,
    };
}

/* Checks a convolution in two layers, so that the results are wrong if a device confuses the
 * layers. */
static void conv_case(struct check *c, uint32_t width, uint32_t n_taps, bool bias, int act,
                      enum fill fill)
{
    enum { N = 41 };
    const struct kv_layout layout = recurrent_layout(2, (n_taps - 1) * width, 5);
    struct case_memory m = {.n = 0};
    const struct weight w = case_weight(c, &m, INF_DTYPE_F32, width, n_taps, 0);
    const struct weight b = case_weight(c, &m, INF_DTYPE_F32, 1, width, 0);
    const float *x = case_floats(c, &m, fill, (size_t)N * width);
    const enum graph_act kind = (enum graph_act)MAX(act, 0);
    struct graph *g = new_graph();
    graph_ref y = graph_input(g, width);
    char what[96];

    for (uint32_t i = 0; i < 2; i++)
        y = graph_conv(g, y, &w, bias ? &b : NULL, act >= 0 ? &kind : NULL,
                       &(struct state_place){0, i});
    graph_output(g, graph_rows(g, y));
    snprintf(what, sizeof(what), "convolution of %u by %u, act %d%s, %s", width, n_taps, act,
             bias ? ", bias" : "", fill_name(fill));
    bed_check(c, g, &layout, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_conv(struct check *c)
{
    static const uint32_t widths[] = {1, 6, 64, 200, 1030};

    for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
        for (uint32_t taps = 1; taps <= 5; taps++)
            conv_case(c, widths[i], taps, (i + taps) % 2, taps % 2 ? GRAPH_ACT_SILU : -1,
                      FILL_NORMAL);
    for (int f = 0; f < FILL_N; f++)
        conv_case(c, 40, 4, true, GRAPH_ACT_SILU, (enum fill)f);
}

struct delta_case {
    uint32_t n_k_heads, n_v_heads, k_dim, v_dim;
    bool interleaved, negated;
};

static void delta_case(struct check *c, const struct delta_case *a, enum fill fill)
{
    enum { N = 50 };
    const uint32_t n_qkv = 2 * a->n_k_heads * a->k_dim + a->n_v_heads * a->v_dim;
    const uint32_t width = n_qkv + 2 * a->n_v_heads;
    const struct kv_layout layout = recurrent_layout(2, 7, a->n_v_heads * a->v_dim * a->k_dim);
    struct case_memory m = {.n = 0};
    const struct weight w = case_weight(c, &m, INF_DTYPE_F32, 1, a->n_v_heads, 0);
    const struct weight dt = case_weight(c, &m, INF_DTYPE_F32, 1, a->n_v_heads, 0);
    float *rates = m.blocks[0].data;
    const float *x = case_floats(c, &m, fill, (size_t)N * width);
    struct delta_params p = {.place = {0, 1},
                             .n_k_heads = a->n_k_heads,
                             .n_v_heads = a->n_v_heads,
                             .k_dim = a->k_dim,
                             .v_dim = a->v_dim,
                             .interleaved = a->interleaved,
                             .negated = a->negated,
                             .scale = 1 / sqrtf((float)a->k_dim),
                             .eps = 1e-6f};
    struct graph *g = new_graph();
    const graph_ref in = graph_input(g, width);
    char what[112];

    for (uint32_t i = 0; i < a->n_v_heads; i++)
        rates[i] = a->negated ? -0.05f - fabsf(rates[i]) : rates[i] - 2;
    graph_output(
        g, graph_rows(g, graph_delta(g, graph_cols(g, in, width, 0, n_qkv),
                                     graph_cols(g, in, width, n_qkv, a->n_v_heads),
                                     graph_cols(g, in, width, n_qkv + a->n_v_heads, a->n_v_heads),
                                     &w, &dt, &p)));
    snprintf(what, sizeof(what), "delta rule, heads %u × %u and %u × %u%s%s, %s", a->n_k_heads,
             a->k_dim, a->n_v_heads, a->v_dim, a->interleaved ? ", interleaved" : "",
             a->negated ? ", negated" : "", fill_name(fill));
    bed_check(c, g, &layout, NULL, x, N, what);
    graph_free(g);
    case_done(c, &m);
}

void check_graph_delta(struct check *c)
{
    static const struct delta_case cases[] = {
        {1, 1, 1, 1, false, false},   {1, 2, 8, 5, true, false},    {2, 4, 32, 32, false, true},
        {2, 6, 20, 33, true, true},   {3, 3, 64, 40, false, false}, {2, 4, 128, 128, false, false},
        {1, 2, 256, 64, false, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        delta_case(c, &cases[i], FILL_NORMAL);
    for (int f = 0; f < FILL_N; f++)
        delta_case(c, &cases[2], (enum fill)f);
}

/* A graph with a full, a windowed and a recurrent group. The heads of the groups differ, attention
 * has sinks and limited scores, and the last layer reads the keys and values of the second. */
struct groups_bed {
    struct case_memory m;
    struct graph *g;
    struct kv_layout layout;
};

enum { EMBD = 64, WINDOW = 70 };

static graph_ref heads_of(struct check *c, struct groups_bed *b, graph_ref x, uint32_t width)
{
    const struct weight w = case_weight(c, &b->m, INF_DTYPE_F32, width, EMBD, 0);

    return graph_matmul(b->g, x, &w, NULL);
}

static graph_ref attend(struct check *c, struct groups_bed *b, graph_ref x, uint32_t i_group,
                        bool shared)
{
    const struct state_group *group = &b->layout.groups[i_group];
    struct attn_params p = {.i_group = i_group,
                            .n_heads = group->n_kv_heads * 2,
                            .n_kv_heads = group->n_kv_heads,
                            .head_dim = group->head_dim,
                            .scale = 1 / sqrtf((float)group->head_dim),
                            .window = group->window,
                            .softcap = i_group == 0 ? 2.5f : 0};
    const uint32_t width = p.n_kv_heads * p.head_dim;
    graph_ref y;

    if (i_group == 1)
        p.sinks = case_weight(c, &b->m, INF_DTYPE_F32, 1, p.n_heads, 0);
    y = heads_of(c, b, x, 2 * width);
    if (shared)
        y = graph_attention_shared(b->g, y, &p);
    else
        y = graph_attention(b->g, y, heads_of(c, b, x, width), heads_of(c, b, x, width), &p);
    return y;
}

static graph_ref back(struct check *c, struct groups_bed *b, graph_ref x, graph_ref y)
{
    const uint32_t width = graph_node(b->g, y)->width;
    const struct weight w = case_weight(c, &b->m, INF_DTYPE_F32, EMBD, width, 0);

    return graph_add(b->g, x, graph_matmul(b->g, y, &w, NULL));
}

static void groups_init(struct check *c, struct groups_bed *b, enum codec kv, uint32_t head_dim)
{
    const enum graph_act act = GRAPH_ACT_SILU;
    const struct weight taps = case_weight(c, &b->m, INF_DTYPE_F32, EMBD, 4, 0);
    graph_ref x;

    b->layout = (struct kv_layout){
        .n_groups = 3,
        .groups = {{.rule = STATE_FULL, .n_layers = 1, .n_kv_heads = 1, .head_dim = head_dim},
                   {.rule = STATE_WINDOW,
                    .n_layers = 1,
                    .n_kv_heads = 3,
                    .head_dim = 32,
                    .window = WINDOW},
                   {.rule = STATE_RECURRENT, .n_layers = 1, .conv_floats = 3 * EMBD}},
        .block_tokens = BED_BLOCK_TOKENS,
        .k = kv,
        .v = kv,
    };
    b->g = new_graph();
    x = graph_input(b->g, EMBD);
    x = graph_add(b->g, x, graph_conv(b->g, x, &taps, NULL, &act, &(struct state_place){2, 0}));
    x = back(c, b, x, attend(c, b, x, 1, false));
    x = back(c, b, x, attend(c, b, x, 0, false));
    x = back(c, b, x, attend(c, b, x, 1, true));
    graph_output(b->g, graph_rows(b->g, x));
}

/* Exports all blocks of a sequence, imports them into the blocks of another one, and continues the
 * other one. */
static void move_blocks(struct bed *bed, const struct bed_seq *from, const struct bed_seq *to)
{
    for (uint32_t i = 0; i < bed->layout.n_groups; i++)
        for (uint32_t j = 0; j < from->n_blocks; j++) {
            const uint32_t first = kv_layout_first(&bed->layout, i);
            const uint64_t size =
                bed->backend->ops->kv_size(bed->backend, bed->store, first + from->blocks[j]);
            _cleanup_free_ void *bytes = malloc(size);

            if (!bytes ||
                backend_kv_export(bed->backend, bed->store, first + from->blocks[j], bytes) < 0 ||
                backend_kv_import(bed->backend, bed->store, first + to->blocks[j], bytes) < 0)
                check_fail(bed->c, "block %u of group %u cannot be moved", j, i);
        }
}

static void groups_case(struct check *c, enum codec kv, uint32_t head_dim)
{
    enum { N = 201, CUT = 150 };
    struct groups_bed b = {.m = {.n = 0}};
    struct bed_seq s, other;
    struct bed bed;
    const float *x;
    char what[64];

    groups_init(c, &b, kv, head_dim);
    x = case_floats(c, &b.m, FILL_NORMAL, (size_t)N * EMBD);
    snprintf(what, sizeof(what), "groups of state, heads of %u", head_dim);
    bed_check(c, b.g, &b.layout, NULL, x, N, what);
    if (bed_init(&bed, c, b.g, &b.layout, N, N)) {
        bed_seq_init(&bed, &s, NULL, x, N);
        bed_seq_init(&bed, &other, NULL, x, N);
        bed_step(&bed, &s, 1, &(uint32_t){CUT});
        move_blocks(&bed, &s, &other);
        memcpy(other.out, s.out, (size_t)CUT * bed.width * sizeof(float));
        other.n_done = CUT;
        bed_step(&bed, &s, 1, &(uint32_t){N - CUT});
        bed_step(&bed, &other, 1, &(uint32_t){N - CUT});
        bed_same(&bed, other.out, s.out, N, "from moved blocks");
        bed_seq_done(&s);
        bed_seq_done(&other);
        bed_done(&bed);
    }
    graph_free(b.g);
    case_done(c, &b.m);
}

void check_graph_groups(struct check *c)
{
    groups_case(c, CODEC_F32, 64);
    groups_case(c, CODEC_F16, 128);
    groups_case(c, CODEC_BF16, 40);
    groups_case(c, CODEC_Q8_0, 64);
    groups_case(c, CODEC_F16, 512);
}

#define NO_BENCH(name)                                                                             \
    void bench_##name(struct check *c)                                                             \
    {                                                                                              \
        (void)c;                                                                                   \
    }
NO_BENCH(graph_conv)
NO_BENCH(graph_delta)
NO_BENCH(graph_groups)
