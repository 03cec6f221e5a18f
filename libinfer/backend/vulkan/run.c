/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a step.
 *
 * The host writes the layout of the rows and the workgroup counts of each dispatch, and replays the
 * recorded commands. Nothing here allocates, except when rows of logits are fetched from a device
 * whose memory the host cannot access.
 *
 * Submissions are kept short, because a device that also draws a desktop cannot draw meanwhile, and
 * drivers treat long submissions as a hang. Steps are timed, and segments are joined only as far as
 * the time limit allows. If a single segment takes too long, steps get fewer rows.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "backend/vulkan/program.h"
#include "backend/vulkan/submit.h"
#include "core/clock.h"

#define FADE 0.3 /* weight of the newest measurement */

static enum vkb_class class_of(const struct batch *batch)
{
    if (batch->n_rows == 1)
        return VKB_ONE;
    return batch->n_rows <= VKB_FEW_ROWS ? VKB_FEW : VKB_MANY;
}

/* Writes the tiles of a step for the attention of one group, and returns their number. Tiles of one
 * row come first, because the parts of their contexts are stored by tile number. */
static uint32_t put_tiles(const struct plan *plan, const struct batch *batch, uint32_t i_group,
                          uint32_t *tiles)
{
    const uint32_t rows = plan->tile_rows[i_group][class_of(batch)];
    uint32_t n = 0;

    for (uint32_t i = 0; rows > 0 && i < 2 * batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i % batch->n_seqs];

        for (uint32_t j = 0; j < seq->n_rows; j += rows) {
            const uint32_t tile[] = {seq->i_row + j, MIN(rows, seq->n_rows - j), i % batch->n_seqs,
                                     seq->pos + j};

            if ((tile[1] == 1) != (i < batch->n_seqs))
                continue;
            assert(n < plan->step.max_tiles);
            memcpy(tiles + 4 * n++, tile, sizeof(tile));
        }
    }
    return n;
}

/* Writes the blocks of a sequence in one group, counted from the group's first block. A block that
 * no row sees may have any number. This function replaces such a number by a valid one. */
static void put_blocks(const struct plan *plan, const struct batch_seq *seq, uint32_t i_group,
                       uint32_t n, uint32_t *to)
{
    const struct vkb_group *g = &plan->store->groups[i_group];

    for (uint32_t i = 0; i < n; i++)
        to[i] = MIN(seq->blocks[i_group][i] - g->first, g->n_blocks - 1);
}

/* Writes the blocks of all groups of sequence @i. FULL and WINDOW groups have @n blocks, at @first
 * of their lists; RECURRENT groups have one block for each sequence. */
static void put_seq_blocks(const struct plan *plan, const struct batch_seq *seq, uint32_t i,
                           uint32_t first, uint32_t n, uint32_t *blocks)
{
    for (uint32_t j = 0; j < plan->store->layout.n_groups; j++) {
        uint32_t *list = blocks + (size_t)j * plan->step.max_blocks;

        if (plan->store->groups[j].n_buffers == 0)
            continue;
        if (plan->store->layout.groups[j].rule == STATE_RECURRENT)
            put_blocks(plan, seq, j, 1, list + i);
        else
            put_blocks(plan, seq, j, n, list + first);
    }
}

static void put_rows(const struct plan *plan, const struct batch *batch, uint32_t *step)
{
    const struct vkb_step_layout *at = &plan->step;
    const uint32_t bt = plan->store->layout.block_tokens;
    uint32_t n_blocks = 0;

    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        const uint32_t n = DIV_UP(seq->pos + seq->n_rows, bt);

        assert(n <= seq->n_blocks && n_blocks + n <= at->max_blocks);
        step[at->seq_first + i] = n_blocks;
        step[at->seq_rows + 2 * i] = seq->i_row;
        step[at->seq_rows + 2 * i + 1] = seq->n_rows;
        put_seq_blocks(plan, seq, i, n_blocks, n, step + at->blocks);
        n_blocks += n;
        for (uint32_t j = 0; j < seq->n_rows; j++) {
            step[at->row_pos + seq->i_row + j] = seq->pos + j;
            step[at->row_seq + seq->i_row + j] = i;
        }
    }
}

/* Fills a rope table with the sin and cos of a step. Angles are computed in single precision,
 * because models were trained with such angles. */
static void put_rope(const struct plan *plan, const struct batch *batch, uint32_t i_rope,
                     float *table)
{
    const struct rope_params *p = &plan->ropes[i_rope];

    for (uint32_t i = 0; i < batch->n_seqs; i++)
        for (uint32_t j = 0; j < batch->seqs[i].n_rows; j++) {
            float *row = table + (size_t)(batch->seqs[i].i_row + j) * p->n_dims;
            const float pos = (float)(batch->seqs[i].pos + j);

            for (uint32_t d = 0; d < p->n_dims / 2; d++) {
                row[2 * d] = cosf(pos * p->inv_freq[d]) * p->mscale;
                row[2 * d + 1] = sinf(pos * p->inv_freq[d]) * p->mscale;
            }
        }
}

/* Writes the data of a step that kernels read. */
static void put_step(const struct plan *plan, const struct batch *batch, uint32_t n_top)
{
    const struct vkb_step_layout *at = &plan->step;
    uint32_t *step = plan->step_buffer.map;
    const uint32_t tiles_size = 1 + 4 * at->max_tiles;
    const uint32_t head[] = {batch->n_rows, batch->n_logits, batch->n_seqs, tiles_size,
                             at->tokens,    at->row_pos,     at->row_seq,   at->logit_rows,
                             at->seq_first, at->blocks,      at->tiles,     at->seq_rows,
                             n_top,         at->max_blocks};
    uint64_t offset = plan->rope_offset;

    memcpy(step, head, sizeof(head));
    if (batch->tokens)
        memcpy(step + at->tokens, batch->tokens, batch->n_rows * sizeof(*step));
    if (plan->input >= 0)
        memcpy(plan->input_buffer.map, batch->input,
               (size_t)batch->n_rows * plan->values[plan->input].width * sizeof(float));
    if (batch->n_logits > 0)
        memcpy(step + at->logit_rows, batch->logit_rows, batch->n_logits * sizeof(*step));
    put_rows(plan, batch, step);
    for (uint32_t i = 0; i < plan->store->layout.n_groups; i++) {
        uint32_t *tiles = step + at->tiles + (size_t)i * tiles_size;

        tiles[0] = put_tiles(plan, batch, i, tiles + 1);
    }
    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        put_rope(plan, batch, i, (float *)((char *)plan->step_buffer.map + offset));
        offset +=
            ALIGN_UP((uint64_t)plan->limits.max_rows * plan->ropes[i].n_dims * sizeof(float), 256);
    }
}

static uint32_t longest_context(const struct batch *batch)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_seqs; i++)
        n = MAX(n, batch->seqs[i].pos + batch->seqs[i].n_rows);
    return n;
}

/* Returns the number of tiles that put_step() has written for a group. */
static uint32_t tiles_of(const struct plan *plan, uint32_t i_group)
{
    const uint32_t *step = plan->step_buffer.map;

    return step[plan->step.tiles + (size_t)i_group * (1 + 4 * plan->step.max_tiles)];
}

/* Returns one dimension of the workgroups of a dispatch. */
static uint32_t count_groups(const struct plan *plan, const struct vkb_count *c,
                             const struct batch *batch, uint32_t longest, uint32_t n_top)
{
    uint32_t amount = 0;

    switch (c->by) {
    case VKB_COUNT_FIXED:
        return c->n;
    case VKB_COUNT_ROWS:
        amount = batch->n_rows;
        break;
    case VKB_COUNT_LOGITS:
        amount = batch->n_logits;
        break;
    case VKB_COUNT_SEQS:
        amount = batch->n_seqs;
        break;
    case VKB_COUNT_TILES:
        amount = tiles_of(plan, c->group);
        break;
    case VKB_COUNT_PARTS:
        amount = longest;
        break;
    case VKB_COUNT_MERGES:
        return longest > c->n ? tiles_of(plan, c->group) : 0;
    case VKB_COUNT_TOPS:
        amount = n_top > 0 ? batch->n_logits : 0;
        break;
    }
    return DIV_UP(amount * MAX(c->times, 1u), c->n);
}

static void put_counts(const struct plan *plan, const struct vkb_list *list,
                       const struct batch *batch, uint32_t n_top)
{
    uint32_t *counts = (uint32_t *)plan->counts.map + (size_t)4 * list->counts_at;
    const uint32_t longest = longest_context(batch);

    for (uint32_t i = 0; i < list->n; i++)
        for (uint32_t j = 0; j < 3; j++)
            counts[4 * i + j] =
                count_groups(plan, &list->dispatches[i].count[j], batch, longest, n_top);
}

/* Returns the work of a segment in a step, in bytes of weights. */
static double segment_work(const struct vkb_segment *s, uint32_t n_rows, uint32_t n_logits)
{
    return (double)s->row_work * n_rows + (double)s->logit_work * n_logits;
}

/* Submits the segments, joined as long as they fit into one submission's time. */
static int submit_segments(struct plan *plan, const struct vkb_list *list, uint32_t n_rows,
                           uint32_t n_logits)
{
    VkCommandBuffer commands[64];
    const double limit = (double)plan->vkb->submit_usec;
    double sum = 0;
    uint32_t n = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < list->n_segments; i++) {
        const struct vkb_segment *s = &list->segments[i];
        const double usec = list->usec_per_work * segment_work(s, n_rows, n_logits);

        /* Until a step was measured, each segment is submitted alone. */
        if (n > 0 && (n == ARRAY_SIZE(commands) ||
                      (limit > 0 && (sum + usec > limit || list->usec_per_work <= 0)))) {
            r = vkb_submit(plan->vkb->dev, commands, n);
            n = 0;
            sum = 0;
        }
        commands[n++] = s->commands;
        sum += usec;
    }
    if (r == 0)
        r = vkb_submit(plan->vkb->dev, commands, n);
    return r;
}

/* Records the time of a step, and adapts the limit of rows per step. The host measures the time:
 * timestamps of the device would make it wait between layers, which costs a seventh of the time of
 * a decoding step on a fast GPU. */
static void note_time(struct plan *plan, enum vkb_class class, const struct batch *batch,
                      uint64_t nsec)
{
    struct vkb_list *list = &plan->lists[class];
    uint64_t worst = 0;
    double work = 0, usec;

    for (uint32_t i = 0; i < list->n_segments; i++) {
        work += segment_work(&list->segments[i], batch->n_rows, batch->n_logits);
        worst = MAX(worst, list->segments[i].row_work);
    }
    usec = (double)nsec * 1e-3 / work;
    list->usec_per_work =
        list->usec_per_work > 0 ? list->usec_per_work + FADE * (usec - list->usec_per_work) : usec;
    if (class == VKB_MANY && worst > 0)
        plan->rows_now = (uint32_t)MIN(
            (double)plan->limits.max_rows,
            MAX(1.0, (double)plan->vkb->submit_usec / ((double)worst * list->usec_per_work)));
}

/* Copies from a buffer of the device. */
static int fetch_buffer(struct plan *plan, const struct vkb_buffer *from, uint64_t offset, void *to,
                        uint64_t size)
{
    struct vkb_device *dev = plan->vkb->dev;
    const VkBufferCopy copy = {.srcOffset = offset, .size = size};
    VkCommandBuffer c;
    int r;

    if (from->map) {
        memcpy(to, (const char *)from->map + offset, size);
        return 0;
    }
    assert(size <= plan->readback.size);
    c = vkb_once_begin(dev);
    if (!c)
        return dev->lost ? -ENODEV : -ENOMEM;
    dev->fn.CmdCopyBuffer(c, from->handle, plan->readback.handle, 1, &copy);
    r = vkb_once_end(dev, c);
    if (r == 0)
        memcpy(to, plan->readback.map, size);
    return r;
}

/* Returns the length of the longest list that any row of logits requests. */
static uint32_t longest_list(const struct batch *batch, const struct top_row *tops)
{
    uint32_t n = 0;

    for (uint32_t i = 0; tops && i < batch->n_logits; i++)
        n = MAX(n, tops[i].n_wanted);
    return n;
}

/* Reads list @i, which the device made in the format that shaders/sample/tops.comp describes. */
static void take_list(const struct plan *plan, uint32_t i, struct top_row *top)
{
    const uint32_t *row = (const uint32_t *)plan->tops.map + (size_t)i * VKB_TOP_STRIDE;
    float log_sum;

    memcpy(&log_sum, &row[1], sizeof(log_sum));
    top->n = MIN(row[0], top->n_wanted);
    top->log_sum = (double)log_sum;
    for (uint32_t k = 0; k < top->n; k++) {
        top->ids[k] = (int32_t)row[2 + 2 * k];
        memcpy(&top->values[k], &row[3 + 2 * k], sizeof(float));
    }
}

int vkb_logits(struct backend *b, struct plan *plan, uint32_t i, float *ret_row)
{
    const struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    const uint64_t row = (uint64_t)plan->output_width * sizeof(float);

    if (!vkb->dev || vkb->dev->lost)
        return -ENODEV;
    return fetch_buffer(plan, &plan->scratch, plan->values[plan->output].offset + i * row, ret_row,
                        row);
}

int vkb_run(struct backend *b, struct plan *plan, struct kv_store *store, const struct batch *batch,
            float *logits, struct top_row *tops)
{
    struct vkb_backend *vkb = CONTAINER_OF(b, struct vkb_backend, base);
    const enum vkb_class class = class_of(batch);
    const struct vkb_list *list = &plan->lists[class];
    const uint32_t n_top = plan->tops_size > 0 ? longest_list(batch, tops) : 0;
    uint32_t n_out;
    uint64_t begin;
    int r;

    assert(batch->n_rows > 0 && batch->n_rows <= plan->limits.max_rows);
    assert(batch->n_seqs <= plan->limits.max_seqs && store == plan->store);
    assert(batch->n_logits <= plan->limits.max_logits);
    if (!vkb->dev || vkb->dev->lost)
        return -ENODEV;
    put_step(plan, batch, n_top);
    put_counts(plan, list, batch, n_top);
    begin = clock_nsec();
    r = submit_segments(plan, list, batch->n_rows, batch->n_logits);
    if (r == 0)
        r = vkb_wait(vkb->dev, vkb->dev->submitted);
    if (r < 0)
        return r;
    if (plan->vkb->submit_usec > 0)
        note_time(plan, class, batch, clock_nsec() - begin);
    n_out = plan->values[plan->output].rows_kept ? batch->n_logits : batch->n_rows;
    for (uint32_t i = 0; r == 0 && i < n_out; i++) {
        if (n_top > 0 && tops[i].n_wanted > 0)
            take_list(plan, i, &tops[i]);
        else
            r = vkb_logits(b, plan, i, logits + (size_t)i * plan->output_width);
    }
    return r;
}

/* Runs one workgroup of each dispatch of each list, with no rows to work on. */
int vkb_warm_up(struct plan *plan)
{
    struct vkb_device *dev = plan->vkb->dev;
    uint32_t *counts = plan->counts.map;
    int r = 0;

    memset(plan->step_buffer.map, 0, plan->rope_offset);
    for (uint64_t i = 0; i < plan->counts.size / sizeof(*counts); i++)
        counts[i] = 1;
    for (int c = 0; r == 0 && c < VKB_CLASS_N; c++) {
        r = submit_segments(plan, &plan->lists[c], 0, 0);
        if (r == 0)
            r = vkb_wait(dev, dev->submitted);
    }
    return r;
}
