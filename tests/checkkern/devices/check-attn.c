/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks attention on whole devices.
 *
 * The graphs include the norm and the rotation of the heads. The cases have many shapes and formats
 * of keys and values, sequences that share steps, and prompts that are cut anywhere.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/bed.h"
#include "checkkern/devices/checks.h"
#include "core/clock.h"
#include "checkkern/devices/device.h"
#include "quant/codec.h"

enum { INPUT = 64, NO_ROPE = -1 };

struct attn_case {
    uint32_t head_dim, n_heads, n_kv_heads, window;
    enum codec kv;
    int rope;        /* a rope_style, or NO_ROPE */
    uint32_t n_dims; /* dimensions that are rotated; 0: all */
    bool norm;       /* whether each head of q and k is normalized */
};

struct attn_bed {
    struct case_memory m;
    struct graph *g;
    struct bed bed;
    float freq[128];
    char what[96];
};

static graph_ref heads(struct check *c, struct attn_bed *b, const struct attn_case *a, graph_ref x,
                       uint32_t n, bool rotated)
{
    const struct weight w = case_weight(c, &b->m, INF_DTYPE_F32, n * a->head_dim, INPUT, 0);
    const uint32_t n_dims = a->n_dims > 0 ? a->n_dims : a->head_dim;
    graph_ref y = graph_matmul(b->g, x, &w, NULL);

    if (rotated && a->norm) {
        const struct weight norm = case_weight(c, &b->m, INF_DTYPE_F32, 1, a->head_dim, 0);
        float *p = b->m.blocks[b->m.n - 1].data;

        for (uint32_t i = 0; i < a->head_dim; i++)
            p[i] += 1;
        y = graph_rms_norm(b->g, y, &norm, 1e-6f, a->head_dim);
    }
    if (rotated && a->rope != NO_ROPE) {
        const struct rope_params rope = {(enum rope_style)a->rope, n_dims, b->freq, 1};

        for (uint32_t i = 0; i < n_dims / 2; i++)
            b->freq[i] = powf(1e4f, -2.0f * (float)i / (float)n_dims);
        y = graph_rope(b->g, y, a->head_dim, &rope);
    }
    return y;
}

/* Builds two layers with different heads, so that the results are wrong if a device confuses the
 * layers. The result of the first layer is not used. */
static bool attn_init(struct check *c, struct attn_bed *b, const struct attn_case *a,
                      uint32_t max_rows, uint32_t max_ctx)
{
    const struct kv_layout layout =
        kv_layout_full(2, a->n_kv_heads, a->head_dim, BED_BLOCK_TOKENS, a->kv, 0);
    struct attn_params attn = {.n_heads = a->n_heads,
                               .n_kv_heads = a->n_kv_heads,
                               .head_dim = a->head_dim,
                               .scale = 1 / sqrtf((float)a->head_dim),
                               .window = a->window};
    graph_ref x, q, k, v, y;

    *b = (struct attn_bed){.m = {.n = 0}};
    snprintf(b->what, sizeof(b->what), "%s hd %u heads %u/%u window %u rope %d:%u%s",
             codec_info(a->kv)->name, a->head_dim, a->n_heads, a->n_kv_heads, a->window, a->rope,
             a->n_dims, a->norm ? " norm" : "");
    if (graph_new(&b->g) < 0)
        exit(2);
    x = graph_input(b->g, INPUT);
    for (attn.i_layer = 0; attn.i_layer < 2; attn.i_layer++) {
        q = heads(c, b, a, x, a->n_heads, true);
        k = heads(c, b, a, x, a->n_kv_heads, true);
        v = heads(c, b, a, x, a->n_kv_heads, false);
        y = graph_attention(b->g, q, k, v, &attn);
    }
    graph_output(b->g, graph_rows(b->g, y));
    return bed_init(&b->bed, c, b->g, &layout, max_rows, max_ctx);
}

static void attn_done(struct check *c, struct attn_bed *b, bool opened)
{
    if (opened)
        bed_done(&b->bed);
    graph_free(b->g);
    case_done(c, &b->m);
}

static void compare(struct attn_bed *b, const struct bed_seq *s, uint32_t n_rows, const char *how)
{
    const struct bound_rules rules = bed_rules(&b->bed, n_rows);
    struct bound bound;
    char what[160];

    snprintf(what, sizeof(what), "%s, %s", b->what, how);
    bound_init(&bound, b->g, NULL, s->n, s->input, &rules);
    bed_compare(&b->bed, s, &bound, what);
    bound_done(&bound);
}

static void random_steps(struct bed *bed, struct bed_seq *seqs, uint32_t n_seqs)
{
    uint32_t n_left = n_seqs;

    while (n_left > 0) {
        uint32_t take[BED_SEQS] = {0}, left = bed->limits.max_rows, n = 0;

        for (uint32_t i = 0; i < n_seqs; i++) {
            const uint32_t most = MIN(left, seqs[i].n - seqs[i].n_done);

            take[i] = rng_u32(&bed->c->rng) % 3 > 0 ? rng_u32(&bed->c->rng) % 3
                                                    : rng_u32(&bed->c->rng) % 60;
            take[i] = MIN(take[i], most);
            left -= take[i];
            n += take[i];
        }
        if (n > 0)
            bed_step(bed, seqs, n_seqs, take);
        n_left = 0;
        for (uint32_t i = 0; i < n_seqs; i++)
            n_left += seqs[i].n_done < seqs[i].n;
    }
}

/* Computes several sequences together in steps of all kinds, and then each sequence alone in one
 * step. */
static void attn_case(struct check *c, const struct attn_case *a)
{
    static const uint32_t lengths[] = {1, 64, 65, 131};
    enum { N_SEQS = ARRAY_SIZE(lengths) };
    struct bed_seq seqs[N_SEQS];
    struct attn_bed b;
    bool opened;

    opened = attn_init(c, &b, a, 140, 192);
    if (opened) {
        for (uint32_t i = 0; i < N_SEQS; i++)
            bed_seq_init(&b.bed, &seqs[i], NULL,
                         case_floats(c, &b.m, FILL_NORMAL, (size_t)lengths[i] * INPUT), lengths[i]);
        random_steps(&b.bed, seqs, N_SEQS);
        for (uint32_t i = 0; i < N_SEQS; i++) {
            struct bed_seq alone = seqs[i];

            compare(&b, &seqs[i], 140, "with other sequences");
            bed_seq_alone(&b.bed, &alone);
            bed_run(&b.bed, &alone, 140);
            bed_same(&b.bed, seqs[i].out, alone.out, alone.n, b.what);
            if (i == N_SEQS - 1)
                compare(&b, &alone, 140, "alone");
            bed_seq_done(&alone);
            bed_seq_done(&seqs[i]);
        }
    }
    attn_done(c, &b, opened);
}

void check_graph_attention(struct check *c)
{
    static const uint32_t dims[] = {32, 40, 64, 80, 96, 128, 192, 256};
    static const uint32_t groups[] = {1, 2, 3, 4, 5, 7, 8, 16};
    static const enum codec kv[] = {CODEC_F16, CODEC_F32, CODEC_BF16, CODEC_Q8_0};
    static const uint32_t windows[] = {0, 1, 17, 64, 100};

    for (size_t i = 0; i < ARRAY_SIZE(dims); i++)
        for (size_t j = 0; j < ARRAY_SIZE(kv); j++) {
            const uint32_t n_kv = 1 + (uint32_t)(i + j) % 2;

            if (kv[j] != CODEC_Q8_0 || dims[i] % 32 == 0)
                attn_case(c, &(struct attn_case){.head_dim = dims[i],
                                                 .n_heads = n_kv * groups[(i + 3 * j) % 8],
                                                 .n_kv_heads = n_kv,
                                                 .window = windows[(i + j) % 5],
                                                 .kv = kv[j],
                                                 .rope = (int)(i + j) % 3 - 1,
                                                 .n_dims = j == 2 ? dims[i] / 2 : 0,
                                                 .norm = i % 2});
        }
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        attn_case(c, &(struct attn_case){.head_dim = 64,
                                         .n_heads = groups[i],
                                         .n_kv_heads = 1,
                                         .kv = kv[i % 4],
                                         .rope = ROPE_HALF,
                                         .norm = i % 2});
}

/* Computes one sequence, divided into steps in all ways. */
static void steps_case(struct check *c, const struct attn_case *a)
{
    static const uint32_t chunks[] = {1, 2, 5, 8, 9, 16, 31, 32, 33, 50, 63, 64, 65, 128, 140};
    enum { N = 201 };
    struct bed_seq all, cut;
    struct attn_bed b;
    const bool opened = attn_init(c, &b, a, N, N);

    if (opened) {
        const float *x = case_floats(c, &b.m, FILL_NORMAL, (size_t)N * INPUT);
        char what[160];

        bed_seq_init(&b.bed, &all, NULL, x, N);
        bed_seq_init(&b.bed, &cut, NULL, x, N);
        bed_run(&b.bed, &all, N);
        compare(&b, &all, N, "at once");
        for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
            snprintf(what, sizeof(what), "%s, steps of %u", b.what, chunks[i]);
            bed_run(&b.bed, &cut, chunks[i]);
            bed_same(&b.bed, cut.out, all.out, N, what);
            if (chunks[i] == 1 || chunks[i] == 5)
                compare(&b, &cut, chunks[i], what);
        }
        bed_seq_done(&all);
        bed_seq_done(&cut);
    }
    attn_done(c, &b, opened);
}

void check_graph_steps(struct check *c)
{
    steps_case(c,
               &(struct attn_case){.head_dim = 64, .n_heads = 6, .n_kv_heads = 2, .kv = CODEC_F16});
    steps_case(c, &(struct attn_case){.head_dim = 128,
                                      .n_heads = 4,
                                      .n_kv_heads = 1,
                                      .window = 70,
                                      .kv = CODEC_BF16,
                                      .rope = ROPE_PAIRS});
    steps_case(c, &(struct attn_case){.head_dim = 32,
                                      .n_heads = 3,
                                      .n_kv_heads = 3,
                                      .kv = CODEC_Q8_0,
                                      .rope = NO_ROPE,
                                      .norm = true});
}

/* Computes a long context in large steps, and its last rows in small steps. */
static void long_case(struct check *c, const struct attn_case *a, uint32_t n)
{
    struct attn_bed b;
    const bool opened = attn_init(c, &b, a, 512, n);
    struct bed_seq s;

    if (opened) {
        bed_seq_init(&b.bed, &s, NULL, case_floats(c, &b.m, FILL_NORMAL, (size_t)n * INPUT), n);
        while (s.n_done < n) {
            const uint32_t left = n - s.n_done;
            const uint32_t take = left > 512 ? 512 : left > 40 ? left - 40 : left > 20 ? 5 : 1;

            bed_step(&b.bed, &s, 1, &take);
        }
        compare(&b, &s, 512, "long");
        bed_seq_done(&s);
    }
    attn_done(c, &b, opened);
}

enum { UNIQUE = 512 };

/* Computes the attention of row UNIQUE + @r, which attends to each of the first UNIQUE rows @times
 * times. */
static void far_row(const struct attn_bed *b, const struct bound *bound, uint32_t r, double times,
                    double *scores, double *expected, double *errors)
{
    const struct graph_node *node = graph_node(b->g, (graph_ref)graph_n_nodes(b->g) - 3);
    const struct attn_params *p = &node->attn;
    const size_t row = UNIQUE + r, stride = (size_t)p->n_kv_heads * p->head_dim;
    const double *k = bound->values[node->src[1]], *v = bound->values[node->src[2]];
    const double units = 2 * (times * UNIQUE + 64) * 0x1p-24;

    for (uint32_t h = 0; h < p->n_heads; h++) {
        const size_t at = row * node->width + (size_t)h * p->head_dim;
        const size_t kv = (size_t)(h / (p->n_heads / p->n_kv_heads)) * p->head_dim;
        const double *q = bound->values[node->src[0]] + at;
        double sum = 0;

        for (size_t j = 0; j <= row; j++) {
            scores[j] = 0;
            for (uint32_t d = 0; d < p->head_dim; d++)
                scores[j] += q[d] * k[j * stride + kv + d];
            scores[j] = exp(scores[j] * (double)p->scale) * (j < UNIQUE ? times : 1);
            sum += scores[j];
        }
        for (uint32_t d = 0; d < p->head_dim; d++) {
            const size_t i = (size_t)h * p->head_dim + d;
            double magnitude = 0;

            expected[i] = 0;
            for (size_t j = 0; j <= row; j++) {
                expected[i] += scores[j] / sum * v[j * stride + kv + d];
                magnitude += scores[j] / sum * fabs(v[j * stride + kv + d]);
            }
            errors[i] = bound->errors[graph_n_nodes(b->g) - 1][at + d] + units * magnitude;
        }
    }
}

/* Computes rows at the end of a very long context, which repeats the same few blocks. */
static void far_case(struct check *c, enum codec kv, uint32_t n_rows)
{
    enum { MOST = 40 };
    const uint32_t times = device_ends_loops(c->backend) ? 128 : 256, far = times * UNIQUE;
    const struct attn_case a = {
        .head_dim = 128, .n_heads = 2, .n_kv_heads = 1, .kv = kv, .rope = NO_ROPE};
    _cleanup_free_ uint32_t *blocks = NEW(uint32_t, far / BED_BLOCK_TOKENS + 1);
    _cleanup_free_ double *scores = NEW(double, UNIQUE + MOST);
    double expected[256], errors[256];
    struct attn_bed b;
    const bool opened = attn_init(c, &b, &a, UNIQUE, far + MOST);
    struct bound_rules rules;
    struct bound bound;
    struct bed_seq s;

    if (opened) {
        bed_seq_init(&b.bed, &s, NULL,
                     case_floats(c, &b.m, FILL_NORMAL, (size_t)(UNIQUE + MOST) * INPUT),
                     UNIQUE + MOST);
        bed_step(&b.bed, &s, 1, &(uint32_t){UNIQUE});
        rules = bed_rules(&b.bed, UNIQUE);
        bound_init(&bound, b.g, NULL, UNIQUE + n_rows, s.input, &rules);
        for (uint32_t i = 0; i < far / BED_BLOCK_TOKENS; i++)
            blocks[i] = s.blocks[i % (UNIQUE / BED_BLOCK_TOKENS)];
        blocks[far / BED_BLOCK_TOKENS] = s.blocks[UNIQUE / BED_BLOCK_TOKENS];
        bed_far_step(&b.bed, &s, blocks, far, n_rows);
        for (uint32_t r = 0; r < n_rows; r++) {
            far_row(&b, &bound, r, times, scores, expected, errors);
            bed_compare_row(&b.bed, s.out + (size_t)(UNIQUE + r) * b.bed.width, expected, errors,
                            b.what, UNIQUE + r);
        }
        c->n_cases++;
        bound_done(&bound);
        bed_seq_done(&s);
    }
    attn_done(c, &b, opened);
}

void check_graph_far(struct check *c)
{
    far_case(c, CODEC_F32, 1);
    far_case(c, CODEC_F16, 5);
    far_case(c, CODEC_BF16, 1);
    far_case(c, CODEC_Q8_0, 1);
    far_case(c, CODEC_F32, 40);
}

void check_graph_long(struct check *c)
{
    long_case(c,
              &(struct attn_case){.head_dim = 64, .n_heads = 2, .n_kv_heads = 1, .kv = CODEC_F16},
              1700);
    long_case(c,
              &(struct attn_case){.head_dim = 128,
                                  .n_heads = 2,
                                  .n_kv_heads = 2,
                                  .window = 700,
                                  .kv = CODEC_Q8_0,
                                  .norm = true},
              1100);
}

/* Checks that old contents of blocks are not read, because NaN times a weight of 0 is NaN. */
static void stale_case(struct check *c, enum codec kv)
{
    enum { N = 150 };
    const struct attn_case a = {.head_dim = 64, .n_heads = 4, .n_kv_heads = 2, .kv = kv};
    struct attn_bed b;
    const bool opened = attn_init(c, &b, &a, N, N);
    struct bed_seq bad, s;

    if (opened) {
        const float *x = case_floats(c, &b.m, FILL_NORMAL, (size_t)N * INPUT);
        float *nan = case_floats(c, &b.m, FILL_NORMAL, (size_t)N * INPUT);

        for (size_t i = 0; i < (size_t)N * INPUT; i++)
            nan[i] = NAN;
        bed_seq_init(&b.bed, &bad, NULL, nan, N);
        bed_run(&b.bed, &bad, N);
        b.bed.n_taken = 0;
        bed_seq_init(&b.bed, &s, NULL, x, N);
        for (uint32_t chunk = N; chunk > 0; chunk /= 12) {
            bed_run(&b.bed, &s, chunk);
            compare(&b, &s, chunk, "in blocks that held NaN");
            bed_run(&b.bed, &bad, N);
        }
        bed_seq_done(&bad);
        bed_seq_done(&s);
    }
    attn_done(c, &b, opened);
}

/* A row with NaN makes all rows NaN that attend to it. Other rows of its sequence may become NaN if
 * they share a step or a block with it, because a product of NaN and a weight of 0 is NaN. Rows of
 * earlier steps and other sequences do not change. */
static void nan_case(struct check *c, uint32_t window, uint32_t chunk)
{
    enum { N = 250, BAD = 70 };
    const struct attn_case a = {
        .head_dim = 64, .n_heads = 4, .n_kv_heads = 2, .window = window, .kv = CODEC_F16};
    const uint32_t end = window > 0 ? BAD + window : N, clean = BAD / chunk * chunk;
    const uint32_t clean_again = ALIGN_UP(end + BED_BLOCK_TOKENS, chunk);
    struct attn_bed b;
    const bool opened = attn_init(c, &b, &a, 2 * N, N);
    struct bed_seq seqs[2], alone;

    if (opened) {
        float *x = case_floats(c, &b.m, FILL_NORMAL, (size_t)N * INPUT);

        bed_seq_init(&b.bed, &alone, NULL, case_floats(c, &b.m, FILL_NORMAL, (size_t)N * INPUT), N);
        bed_run(&b.bed, &alone, chunk);
        x[BAD * INPUT + 5] = NAN;
        bed_seq_init(&b.bed, &seqs[0], NULL, x, N);
        bed_seq_init(&b.bed, &seqs[1], NULL, alone.input, N);
        while (seqs[0].n_done < N) {
            const uint32_t n = MIN(chunk, N - seqs[0].n_done), take[] = {n, n};

            bed_step(&b.bed, seqs, 2, take);
        }
        bed_same(&b.bed, seqs[1].out, alone.out, N, "beside a sequence with NaN");
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t j = 0; j < b.bed.width; j++) {
                const float y = seqs[0].out[(size_t)i * b.bed.width + j];
                const bool sees = i >= BAD && i < end;

                if (sees != isnan(y) && (sees || i < clean || i >= clean_again))
                    check_fail(c, "window %u, steps of %u: row %u, column %u is %g", window, chunk,
                               i, j, (double)y);
            }
        c->n_cases++;
        bed_seq_done(&alone);
        bed_seq_done(&seqs[0]);
        bed_seq_done(&seqs[1]);
    }
    attn_done(c, &b, opened);
}

/* Continues a sequence from a copy of the last block of another sequence. The original block must
 * stay unchanged. */
static void copy_case(struct check *c, enum codec kv)
{
    enum { N = 100 };
    const struct attn_case a = {.head_dim = 32, .n_heads = 2, .n_kv_heads = 1, .kv = kv};
    struct attn_bed b;
    const bool opened = attn_init(c, &b, &a, N, N);
    struct bed_seq s, other;

    if (opened) {
        const float *x = case_floats(c, &b.m, FILL_NORMAL, (size_t)N * INPUT);
        const uint32_t begin = N - 10;

        bed_seq_init(&b.bed, &s, NULL, x, N);
        bed_seq_init(&b.bed, &other, NULL, x, N);
        bed_run(&b.bed, &s, N);
        for (uint32_t i = 0; i < s.n_blocks; i++)
            b.bed.backend->ops->kv_copy(b.bed.backend, b.bed.store, other.blocks[i], s.blocks[i]);
        other.n_done = s.n_done = begin;
        memcpy(other.out, s.out, (size_t)begin * b.bed.width * sizeof(float));
        while (other.n_done < N)
            bed_step(&b.bed, (struct bed_seq *)&other, 1, &(uint32_t){1});
        bed_same(&b.bed, other.out, s.out, N, "from a copy");
        /* The first rows were computed in one step. */
        compare(&b, &other, N, "from a copy");
        bed_seq_done(&s);
        bed_seq_done(&other);
    }
    attn_done(c, &b, opened);
}

void check_graph_blocks(struct check *c)
{
    static const enum codec kv[] = {CODEC_F32, CODEC_F16, CODEC_BF16, CODEC_Q8_0};

    for (size_t i = 0; i < ARRAY_SIZE(kv); i++) {
        stale_case(c, kv[i]);
        copy_case(c, kv[i]);
    }
    for (uint32_t window = 0; window <= 20; window += 20) {
        nan_case(c, window, 1);
        nan_case(c, window, 16);
        nan_case(c, window, 250);
    }
}

/* Returns the seconds of the fastest of several steps of @n rows after @pos earlier rows. */
static double bench_steps(struct bed *bed, struct bed_seq *s, uint32_t pos, uint32_t n)
{
    const uint64_t begin = clock_nsec();
    uint64_t best = UINT64_MAX;

    for (unsigned i = 0; i < 3 || clock_nsec() - begin < 300000000; i++) {
        const uint64_t start = clock_nsec();

        s->n_done = pos;
        bed_step(bed, s, 1, &n);
        best = MIN(best, clock_nsec() - start);
    }
    return (double)best * 1e-9;
}

/* Measures the speed of decoding after a context, in GB/s of keys and values, and the speed of the
 * last rows of a prompt, in multiply-adds per second. */
void bench_graph_attention(struct check *c)
{
    static const enum codec kv[] = {CODEC_F16, CODEC_BF16, CODEC_Q8_0, CODEC_F32};
    const uint32_t n = device_is_slow(c->backend) ? 2048 : 4096, rows = 256;

    printf("attention, %s, 16/8 heads of 128, context %u\n%-6s %10s %14s\n", c->rung, n, "",
           "M=1 GB/s", "M=256 GMAC/s");
    for (size_t i = 0; i < ARRAY_SIZE(kv); i++) {
        const struct attn_case a = {.head_dim = 128, .n_heads = 16, .n_kv_heads = 8, .kv = kv[i]};
        struct attn_bed b;
        const bool opened = attn_init(c, &b, &a, rows, n);
        uint64_t bytes = 0;
        struct bed_seq s;
        double one, many;

        if (opened) {
            float *x = case_floats(c, &b.m, FILL_NORMAL, (size_t)n * INPUT);

            bed_seq_init(&b.bed, &s, NULL, x, n);
            bed_run(&b.bed, &s, rows);
            one = bench_steps(&b.bed, &s, n - 1, 1);
            many = bench_steps(&b.bed, &s, n - rows, rows);
            bytes = codec_head_bytes(kv[i], 128);
            /* A row reads K and V of two layers. */
            printf("%-6s %10.1f %14.1f\n", codec_info(kv[i])->name,
                   2.0 * 2 * 8 * (double)bytes * n / one * 1e-9,
                   2.0 * 2 * 16 * 128 * rows * (n - rows / 2.0) / many * 1e-9);
            bed_seq_done(&s);
        }
        attn_done(c, &b, opened);
    }
}

#define NO_BENCH(name)                                                                             \
    void bench_##name(struct check *c)                                                             \
    {                                                                                              \
        (void)c;                                                                                   \
    }
NO_BENCH(graph_steps)
NO_BENCH(graph_far)
NO_BENCH(graph_long)
NO_BENCH(graph_blocks)
