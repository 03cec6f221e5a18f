/* SPDX-License-Identifier: Apache-2.0 */

#include "checkkern/devices/bed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkkern/devices/device.h"
#include "quant/dtype.h"
#include "checkkern/weights.h"

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "checkkern: out of memory\n");
        exit(2);
    }
    return p;
}

static void find_input(struct bed *bed)
{
    for (size_t i = 0; i < graph_n_nodes(bed->g); i++)
        if (graph_node(bed->g, (graph_ref)i)->op == GRAPH_INPUT)
            bed->input_width = graph_node(bed->g, (graph_ref)i)->width;
}

static void shuffle(struct bed *bed)
{
    for (uint32_t i = 0; i < BED_BLOCKS; i++)
        bed->order[i] = i;
    for (uint32_t i = BED_BLOCKS - 1; i > 0; i--) {
        const uint32_t j = rng_u32(&bed->c->rng) % (i + 1), x = bed->order[i];

        bed->order[i] = bed->order[j];
        bed->order[j] = x;
    }
    bed->n_taken = 0;
}

bool bed_init(struct bed *bed, struct check *c, const struct graph *g,
              const struct kv_layout *layout, uint32_t max_rows, uint32_t max_ctx)
{
    struct kv_layout store = kv_layout_full(1, 1, 32, BED_BLOCK_TOKENS, CODEC_F16, 0);
    const struct backend_ops *ops = c->backend->ops;
    struct inf_err err = {0};
    int r;

    if (!check_draws(c))
        return false;
    if (layout)
        store = *layout;
    for (uint32_t i = 0; i < store.n_groups; i++)
        store.n_blocks[i] = BED_BLOCKS;
    *bed = (struct bed){.c = c,
                        .backend = c->backend,
                        .g = g,
                        .layout = store,
                        .limits = {max_rows, max_rows, BED_SEQS, max_ctx},
                        .width = graph_node(g, (graph_ref)graph_n_nodes(g) - 1)->width};
    if (graph_error(g, &err) < 0) {
        check_fail(c, "a graph is wrong: %s", err.text);
        return false;
    }
    find_input(bed);
    shuffle(bed);
    if (ops->kv_new(c->backend, &bed->layout, &bed->store) < 0) {
        check_fail(c, "the device cannot make a KV store");
        return false;
    }
    r = ops->compile(c->backend, g, &bed->limits, bed->store, &bed->plan, &err);
    if (r < 0) {
        check_fail(c, "compiling: %d, %s", r, err.text);
        ops->kv_free(c->backend, bed->store);
        return false;
    }
    bed->tokens = must(NEW(int32_t, max_rows));
    bed->input = must(NEW(float, (size_t)max_rows * bed->input_width));
    bed->out = must(NEW(float, (size_t)max_rows * bed->width));
    return true;
}

void bed_done(struct bed *bed)
{
    const struct backend_ops *ops = bed->backend->ops;

    ops->plan_free(bed->backend, bed->plan);
    ops->kv_free(bed->backend, bed->store);
    free(bed->tokens);
    free(bed->input);
    free(bed->out);
}

void bed_seq_init(struct bed *bed, struct bed_seq *s, const int32_t *tokens, const float *input,
                  uint32_t n)
{
    *s = (struct bed_seq){.n = n,
                          .tokens = tokens,
                          .input = input,
                          .n_blocks = DIV_UP(n, (uint32_t)BED_BLOCK_TOKENS),
                          .blocks = bed->order + bed->n_taken};
    bed->n_taken += s->n_blocks;
    assert(bed->n_taken <= BED_BLOCKS && n <= bed->limits.max_ctx);
    bed_seq_alone(bed, s);
}

void bed_seq_alone(struct bed *bed, struct bed_seq *s)
{
    for (uint32_t i = 0; i < bed->layout.n_groups; i++)
        s->lists[i] = must(NEW(uint32_t, s->n_blocks));
    s->out = must(NEW(float, (size_t)s->n * bed->width));
}

void bed_seq_done(struct bed_seq *s)
{
    for (uint32_t i = 0; i < STATE_GROUPS_MAX; i++) {
        free(s->lists[i]);
        s->lists[i] = NULL;
    }
    free(s->out);
    s->out = NULL;
}

/* Writes the blocks of all groups for the next step. All groups use the same blocks, counted from
 * their first one. Blocks before the window of a group get a number that no group has. */
static void fill_lists(const struct bed *bed, const struct bed_seq *s)
{
    for (uint32_t i = 0; i < bed->layout.n_groups; i++) {
        const struct state_group *group = &bed->layout.groups[i];
        const uint32_t window = group->rule == STATE_WINDOW ? group->window : 0;
        const uint32_t behind = window > 0 && s->n_done + 1 > window ? s->n_done + 1 - window : 0;

        for (uint32_t j = 0; j < s->n_blocks; j++)
            s->lists[i][j] = j < behind / BED_BLOCK_TOKENS
                                 ? UINT32_MAX - j
                                 : kv_layout_first(&bed->layout, i) + s->blocks[j];
    }
}

static void add_rows(struct bed *bed, struct batch *batch, const struct bed_seq *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bed->tokens[batch->n_rows + i] = s->tokens ? s->tokens[s->n_done + i] : 0;
        if (s->input)
            memcpy(bed->input + (size_t)(batch->n_rows + i) * bed->input_width,
                   s->input + (size_t)(s->n_done + i) * bed->input_width,
                   bed->input_width * sizeof(float));
    }
    batch->n_rows += n;
}

static void run_batch(struct bed *bed, struct batch *batch)
{
    _cleanup_free_ uint32_t *rows = must(NEW(uint32_t, batch->n_rows));
    int r;

    for (uint32_t i = 0; i < batch->n_rows; i++)
        rows[i] = i;
    batch->logit_rows = rows;
    batch->n_logits = batch->n_rows;
    batch->tokens = bed->tokens;
    batch->input = bed->input_width > 0 ? bed->input : NULL;
    memset(bed->out, 0xff, (size_t)batch->n_rows * bed->width * sizeof(float));
    r = bed->backend->ops->run(bed->backend, bed->plan, bed->store, batch, bed->out, NULL);
    if (r < 0)
        check_fail(bed->c, "a step of %u rows fails: %s", batch->n_rows, strerror(-r));
}

void bed_step(struct bed *bed, struct bed_seq *seqs, uint32_t n_seqs, const uint32_t *take)
{
    struct batch_seq batch_seqs[BED_SEQS];
    struct batch batch = {.seqs = batch_seqs};
    uint32_t row = 0;

    for (uint32_t i = 0; i < n_seqs; i++) {
        if (take[i] == 0)
            continue;
        assert(seqs[i].n_done + take[i] <= seqs[i].n);
        batch_seqs[batch.n_seqs++] = (struct batch_seq){.i_row = batch.n_rows,
                                                        .n_rows = take[i],
                                                        .pos = seqs[i].n_done,
                                                        .n_blocks = seqs[i].n_blocks};
        fill_lists(bed, &seqs[i]);
        for (uint32_t j = 0; j < bed->layout.n_groups; j++)
            batch_seqs[batch.n_seqs - 1].blocks[j] = seqs[i].lists[j];
        add_rows(bed, &batch, &seqs[i], take[i]);
    }
    assert(batch.n_rows > 0 && batch.n_rows <= bed->limits.max_rows);
    run_batch(bed, &batch);
    for (uint32_t i = 0; i < n_seqs; i++) {
        memcpy(seqs[i].out + (size_t)seqs[i].n_done * bed->width,
               bed->out + (size_t)row * bed->width, (size_t)take[i] * bed->width * sizeof(float));
        seqs[i].n_done += take[i];
        row += take[i];
    }
}

void bed_far_step(struct bed *bed, struct bed_seq *s, const uint32_t *blocks, uint32_t pos,
                  uint32_t n)
{
    const struct batch_seq seq = {
        .n_rows = n, .pos = pos, .n_blocks = DIV_UP(pos + n, 64u), .blocks = {blocks}};
    struct batch batch = {.seqs = &seq, .n_seqs = 1};

    add_rows(bed, &batch, s, n);
    run_batch(bed, &batch);
    memcpy(s->out + (size_t)s->n_done * bed->width, bed->out,
           (size_t)n * bed->width * sizeof(float));
    s->n_done += n;
}

void bed_run(struct bed *bed, struct bed_seq *s, uint32_t chunk)
{
    s->n_done = 0;
    while (s->n_done < s->n) {
        const uint32_t take = MIN(chunk, s->n - s->n_done);

        bed_step(bed, s, 1, &take);
    }
}

struct bound_rules bed_rules(const struct bed *bed, uint32_t n_rows)
{
    struct bound_rules rules = {.k = bed->layout.k, .v = bed->layout.v};

    device_rules(bed->backend, n_rows, &rules);
    return rules;
}

double bed_compare_row(struct bed *bed, const float *row, const double *expected,
                       const double *errors, const char *what, size_t i)
{
    double squares = 0;

    for (uint32_t j = 0; j < bed->width; j++) {
        const double y = (double)row[j];
        double part;

        /* Values outside of the range of floats are not compared. */
        if (!(fabs(expected[j]) < 0x1p127) || !(errors[j] < 0x1p100))
            continue;
        part = y == expected[j] ? 0 : fabs(y - expected[j]) / errors[j];
        if (!(part <= 1))
            check_fail(bed->c, "%s: row %zu, column %u is %.9g, expected %.9g ± %.2g", what, i, j,
                       y, expected[j], errors[j]);
        squares += part * part;
    }
    return squares / bed->width;
}

double bed_compare(struct bed *bed, const struct bed_seq *s, const struct bound *b,
                   const char *what)
{
    double squares = 0;

    for (size_t i = 0; i < s->n; i++)
        squares += bed_compare_row(bed, s->out + i * bed->width, bound_values(b) + i * bed->width,
                                   bound_errors(b) + i * bed->width, what, i);
    bed->c->n_cases++;
    return sqrt(squares / s->n);
}

void bed_same(struct bed *bed, const float *got, const float *expected, uint32_t n_rows,
              const char *what)
{
    const size_t n = (size_t)n_rows * bed->width;

    bed->c->n_same++;
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &expected[i], sizeof(*got)) == 0)
            continue;
        bed->c->n_other++;
        if (device_same_bits(bed->backend))
            check_fail(bed->c, "%s: row %zu, column %zu is %.9g or %.9g, depending on other rows",
                       what, i / bed->width, i % bed->width, (double)got[i], (double)expected[i]);
        return;
    }
}

void *case_bytes(struct case_memory *m, size_t size, size_t offset)
{
    struct guarded *g = &m->blocks[m->n];

    if (m->n == ARRAY_SIZE(m->blocks)) {
        fprintf(stderr, "checkkern: a case has too many blocks of memory\n");
        exit(2);
    }
    /* Every second block ends at an unmapped page, unless its start would not be aligned there. All
     * other blocks begin after an unmapped page. */
    *g = guarded_new(offset + size, m->n % 2 == 1 && (offset + size) % 64 == 0);
    m->n++;
    return (uint8_t *)g->data + offset;
}

float *case_floats(struct check *c, struct case_memory *m, enum fill fill, size_t n)
{
    float *x = case_bytes(m, n * sizeof(*x), 0);

    fill_floats(c, fill, x, n);
    return x;
}

/* Gives a weight its planes. */
static void add_planes(struct check *c, struct case_memory *m, struct weight *w)
{
    const struct planes_info *info = dtype_info(w->dtype)->planes;
    const struct plane_choice choice = weights_choose_planes(c, w->dtype, w->cols);
    const size_t n = choice.group > 0 ? (size_t)w->rows * (w->cols / choice.group) : 1;

    w->group = choice.group;
    w->plane_type = choice.type;
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++) {
        uint8_t *plane;

        if (!(info->needed & 1u << p))
            continue;
        plane = case_bytes(m, plane_bytes(choice.type) * n, 0);
        weights_fill_plane(c, WEIGHT_RANDOM, choice.type, plane, n);
        w->planes[p] = plane;
    }
}

struct weight case_weight(struct check *c, struct case_memory *m, enum inf_dtype dtype,
                          uint32_t rows, uint32_t cols, size_t offset)
{
    struct weight w = {.dtype = dtype, .rows = rows, .cols = cols, .name = "w"};
    uint64_t bytes = 0;
    void *data;

    if (!dtype_row_bytes(dtype, cols, &bytes)) {
        fprintf(stderr, "checkkern: %u elements are not a whole row of %s\n", cols,
                dtype_info(dtype)->name);
        exit(2);
    }
    data = case_bytes(m, rows * bytes, offset);
    weights_fill(c, dtype, dtype_info(dtype)->encode ? WEIGHT_ENCODED : WEIGHT_RANDOM, data,
                 (uint64_t)rows * cols);
    w.data = data;
    if (dtype_info(dtype)->planes)
        add_planes(c, m, &w);
    return w;
}

void case_done(struct check *c, struct case_memory *m)
{
    for (unsigned i = 0; i < m->n; i++)
        if (!guarded_done(&m->blocks[i]))
            check_fail(c, "the device wrote to weights or inputs");
    m->n = 0;
}

void bed_check(struct check *c, const struct graph *g, const struct kv_layout *layout,
               const int32_t *tokens, const float *input, uint32_t n, const char *what)
{
    const uint32_t chunks[] = {n, 5, 1};
    _cleanup_free_ float *all = NULL;
    struct bound bound;
    struct bed_seq s;
    struct bed bed;

    if (!bed_init(&bed, c, g, layout, n, n))
        return;
    bed_seq_init(&bed, &s, tokens, input, n);
    all = NEW(float, (size_t)n *bed.width);
    for (size_t i = 0; all && i < ARRAY_SIZE(chunks); i++) {
        const struct bound_rules rules = bed_rules(&bed, chunks[i]);

        bound_init(&bound, g, tokens, n, input, &rules);
        bed_run(&bed, &s, chunks[i]);
        bed_compare(&bed, &s, &bound, what);
        if (i == 0)
            memcpy(all, s.out, (size_t)n * bed.width * sizeof(float));
        else
            bed_same(&bed, s.out, all, n, what);
        bound_done(&bound);
    }
    bed_seq_done(&s);
    bed_done(&bed);
}
