/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements a backend that runs one model on two devices.
 *
 * The backend uses both devices only through their operations. The lower device runs a plan (a
 * compiled graph) whose output is the residual stream, and returns the residual stream for all rows
 * in the place of logits. The output is written to the buffer `between`, which the plan of the
 * upper device reads.
 */
#include "backend/layer-split.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/pages.h"

struct layer_split {
    struct backend backend; /* must be first */
    struct backend_ops ops; /* logits and recover are NULL if the parts do not have them */
    struct backend *low, *high;
    struct backend *host; /* the device, `low` or `high`, whose threads do the host work of both */
    uint32_t i_layer;
    uint32_t n_low[STATE_GROUPS_MAX]; /* layers of each group of state on `low` */
    bool low_lost, high_lost;
    char *kv_format; /* NULL: one of the devices cannot export blocks */
};

struct kv_store {
    struct kv_store *low, *high;
};

struct plan {
    struct plan *low, *high;
    float *between;    /* [max_rows, width]: the values that cross the border between the devices */
    uint64_t size;     /* bytes of `between` */
    uint32_t *numbers; /* [max_rows] 0, 1, 2, …: the rows whose output the lower device returns */
};

static struct layer_split *split_of(struct backend *b)
{
    return CONTAINER_OF(b, struct layer_split, backend);
}

static struct kv_layout low_layout(const struct layer_split *s, const struct kv_layout *layout)
{
    static const uint32_t none[STATE_GROUPS_MAX] = {0};

    for (uint32_t i = 0; i < layout->n_groups; i++)
        assert(s->n_low[i] <= layout->groups[i].n_layers);
    return kv_layout_part(layout, none, s->n_low);
}

static struct kv_layout high_layout(const struct layer_split *s, const struct kv_layout *layout)
{
    uint32_t n[STATE_GROUPS_MAX] = {0};

    for (uint32_t i = 0; i < layout->n_groups; i++)
        n[i] = layout->groups[i].n_layers;
    return kv_layout_part(layout, s->n_low, n);
}

static int split_kv_check(struct backend *b, const struct kv_layout *layout, struct inf_err *reterr)
{
    struct backend *const parts[] = {split_of(b)->low, split_of(b)->high};
    int r = 0;

    if (layout->recent)
        return err_set(reterr, EOPNOTSUPP,
                       "a KV cache with +recent cannot be divided between two devices");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
        if (parts[i]->ops->kv_check)
            r = parts[i]->ops->kv_check(parts[i], layout, reterr);
    return r;
}

/* Returns how many blocks the device @part can hold. A device without layers holds any number of
 * blocks, because its blocks need no memory. */
static uint64_t part_max_blocks(struct backend *part, const struct kv_layout *layout,
                                uint32_t i_group)
{
    return layout->groups[i_group].n_layers > 0 ? part->ops->kv_max_blocks(part, layout, i_group)
                                                : UINT32_MAX;
}

static uint64_t split_kv_max_blocks(struct backend *b, const struct kv_layout *layout,
                                    uint32_t i_group)
{
    struct layer_split *s = split_of(b);
    const struct kv_layout low = low_layout(s, layout), high = high_layout(s, layout);
    const uint64_t n_low = part_max_blocks(s->low, &low, i_group),
                   n_high = part_max_blocks(s->high, &high, i_group);

    return MIN(n_low, n_high);
}

static void split_kv_free(struct backend *b, struct kv_store *store)
{
    struct layer_split *s = split_of(b);

    if (!store)
        return;
    if (store->low)
        s->low->ops->kv_free(s->low, store->low);
    if (store->high)
        s->high->ops->kv_free(s->high, store->high);
    free(store);
}

static int split_kv_new(struct backend *b, const struct kv_layout *layout,
                        struct kv_store **ret_store)
{
    struct layer_split *s = split_of(b);
    const struct kv_layout low = low_layout(s, layout), high = high_layout(s, layout);
    struct kv_store *store = NEW(struct kv_store, 1);
    int r;

    if (!store)
        return -ENOMEM;
    r = s->low->ops->kv_new(s->low, &low, &store->low);
    if (r == 0)
        r = s->high->ops->kv_new(s->high, &high, &store->high);
    if (r < 0) {
        split_kv_free(b, store);
        return r;
    }
    *ret_store = store;
    return 0;
}

static void split_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src)
{
    struct layer_split *s = split_of(b);

    s->low->ops->kv_copy(s->low, store->low, dst, src);
    s->high->ops->kv_copy(s->high, store->high, dst, src);
}

static uint64_t split_kv_size(const struct backend *b, const struct kv_store *store, uint32_t block)
{
    const struct layer_split *s = (const struct layer_split *)b;

    return s->low->ops->kv_size(s->low, store->low, block) +
           s->high->ops->kv_size(s->high, store->high, block);
}

/* If a device is lost during the export, its run() returns -ENODEV until the device is opened
 * again, so the next step notices the loss. */
static int split_kv_export(struct backend *b, struct kv_store *store, uint32_t block, void *to)
{
    struct layer_split *s = split_of(b);
    const uint64_t low_size = s->low->ops->kv_size(s->low, store->low, block);
    int r;

    r = backend_kv_export(s->low, store->low, block, to);
    if (r < 0)
        return r;
    return backend_kv_export(s->high, store->high, block, (uint8_t *)to + low_size);
}

static int split_kv_import(struct backend *b, struct kv_store *store, uint32_t block,
                           const void *from)
{
    struct layer_split *s = split_of(b);
    const uint64_t low_size = s->low->ops->kv_size(s->low, store->low, block);
    int r;

    r = backend_kv_import(s->low, store->low, block, from);
    if (r < 0)
        return r;
    return backend_kv_import(s->high, store->high, block, (const uint8_t *)from + low_size);
}

static const char *split_kv_format(const struct backend *b)
{
    return ((const struct layer_split *)b)->kv_format;
}

static void split_kv_drop(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n)
{
    struct layer_split *s = split_of(b);

    s->low->ops->kv_drop(s->low, store->low, first, n);
    s->high->ops->kv_drop(s->high, store->high, first, n);
}

static void split_plan_free(struct backend *b, struct plan *plan)
{
    struct layer_split *s = split_of(b);

    if (!plan)
        return;
    if (plan->low)
        s->low->ops->plan_free(s->low, plan->low);
    if (plan->high)
        s->high->ops->plan_free(s->high, plan->high);
    free(plan->between);
    free(plan->numbers);
    free(plan);
}

static int plan_alloc(struct plan *plan, uint32_t max_rows, uint32_t width)
{
    const uint64_t n = (uint64_t)max_rows * width;

    plan->size = n * sizeof(float);
    plan->between = NEW(float, n);
    plan->numbers = NEW(uint32_t, max_rows);
    if (!plan->between || !plan->numbers)
        return -ENOMEM;
    for (uint32_t i = 0; i < max_rows; i++)
        plan->numbers[i] = i;
    return 0;
}

static int split_compile(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                         struct kv_store *store, struct plan **ret_plan, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *low = NULL, *high = NULL;
    struct layer_split *s = split_of(b);
    struct plan_limits low_limits = *limits;
    struct plan *plan;
    int r;

    r = graph_cut(g, s->i_layer, &low, &high, reterr);
    if (r < 0)
        return r;
    plan = NEW(struct plan, 1);
    if (!plan || plan_alloc(plan, limits->max_rows, graph_node(high, 0)->width) < 0) {
        split_plan_free(b, plan);
        return err_set(reterr, ENOMEM, "no memory for the rows of %u tokens", limits->max_rows);
    }
    low_limits.max_logits = limits->max_rows;
    r = s->low->ops->compile(s->low, low, &low_limits, store->low, &plan->low, reterr);
    if (r == 0)
        r = s->high->ops->compile(s->high, high, limits, store->high, &plan->high, reterr);
    if (r < 0) {
        split_plan_free(b, plan);
        return r;
    }
    *ret_plan = plan;
    return 0;
}

static void split_plan_rest(struct backend *b, struct plan *plan)
{
    struct layer_split *s = split_of(b);

    s->low->ops->plan_rest(s->low, plan->low);
    s->high->ops->plan_rest(s->high, plan->high);
    pages_drop(plan->between, plan->size);
}

static int split_run(struct backend *b, struct plan *plan, struct kv_store *store,
                     const struct batch *batch, float *logits, struct top_row *tops)
{
    struct layer_split *s = split_of(b);
    struct batch low = *batch, high = *batch;
    int r;

    if (s->low_lost || s->high_lost)
        return -ENODEV;
    low.n_logits = batch->n_rows;
    low.logit_rows = plan->numbers;
    high.input = plan->between;
    r = s->low->ops->run(s->low, plan->low, store->low, &low, plan->between, NULL);
    s->low_lost = r == -ENODEV;
    if (r < 0)
        return r;
    r = s->high->ops->run(s->high, plan->high, store->high, &high, logits, tops);
    s->high_lost = r == -ENODEV;
    return r;
}

static int split_logits(struct backend *b, struct plan *plan, uint32_t i, float *ret_row)
{
    struct layer_split *s = split_of(b);
    int r;

    if (s->low_lost || s->high_lost)
        return -ENODEV;
    r = s->high->ops->logits(s->high, plan->high, i, ret_row);
    s->high_lost = r == -ENODEV;
    return r;
}

static const char *device_name(const struct backend *b)
{
    return b->device[0] ? b->device : b->ops->name;
}

static int part_recover(struct backend *part, bool *lost, struct inf_err *reterr)
{
    int r;

    if (!*lost)
        return 0;
    if (!part->ops->recover)
        return err_set(reterr, ENODEV, "%s cannot be opened again", device_name(part));
    r = part->ops->recover(part, reterr);
    *lost = r < 0;
    return r;
}

/* Opens the lost devices again. A device that was not lost still has its K and V, but they are not
 * read, because all K and V are computed again. */
static int split_recover(struct backend *b, struct inf_err *reterr)
{
    struct layer_split *s = split_of(b);
    const int r = part_recover(s->low, &s->low_lost, reterr);

    return r < 0 ? r : part_recover(s->high, &s->high_lost, reterr);
}

static void split_free(struct backend *b)
{
    struct layer_split *s = split_of(b);

    backend_free(s->low);
    backend_free(s->high);
    free(s->kv_format);
    free(s);
}

static void split_parallel(struct backend *b, workers_fn fn, void *arg)
{
    struct backend *host = split_of(b)->host;

    host->ops->parallel(host, fn, arg);
}

static unsigned split_n_threads(const struct backend *b)
{
    const struct backend *host = ((const struct layer_split *)b)->host;

    return host->ops->n_threads(host);
}

static const char *split_isa(const struct backend *b)
{
    const struct backend *host = ((const struct layer_split *)b)->host;

    return host->ops->isa(host);
}

static const struct backend_ops split_ops = {
    .name = "split",
    .kv_check = split_kv_check,
    .kv_max_blocks = split_kv_max_blocks,
    .kv_new = split_kv_new,
    .kv_free = split_kv_free,
    .kv_copy = split_kv_copy,
    .kv_drop = split_kv_drop,
    .kv_size = split_kv_size,
    .kv_export = split_kv_export,
    .kv_import = split_kv_import,
    .kv_format = split_kv_format,
    .compile = split_compile,
    .plan_free = split_plan_free,
    .plan_rest = split_plan_rest,
    .run = split_run,
    .logits = split_logits,
    .recover = split_recover,
    .free = split_free,
    .parallel = split_parallel,
    .n_threads = split_n_threads,
    .isa = split_isa,
};

/* Makes the text that kv_format() returns. It contains the instruction sets of both devices,
 * because the bits of a block depend on both instruction sets, and isa() returns only one of
 * them. */
static int make_kv_format(struct layer_split *s, const struct backend *low,
                          const struct backend *high)
{
    if (!low->ops->kv_size || !high->ops->kv_size) {
        s->ops.kv_size = NULL;
        return 0;
    }
    if (asprintf(&s->kv_format, "%u layers of %s, %s; then %s, %s", s->i_layer,
                 low->ops->kv_format(low), low->ops->isa(low), high->ops->kv_format(high),
                 high->ops->isa(high)) >= 0)
        return 0;
    s->kv_format = NULL;
    return -ENOMEM;
}

int layer_split_new(struct backend **low, struct backend **high, uint32_t i_layer,
                    const uint32_t n_low[STATE_GROUPS_MAX], struct backend **ret_backend)
{
    struct layer_split *s = NEW(struct layer_split, 1);

    if (!s)
        return -ENOMEM;
    s->ops = split_ops;
    s->backend.ops = &s->ops;
    if (!(*high)->ops->logits)
        s->ops.logits = NULL;
    if (!(*low)->ops->recover && !(*high)->ops->recover)
        s->ops.recover = NULL;
    snprintf(s->backend.device, sizeof(s->backend.device), "%.9s+%.9s", device_name(*low),
             device_name(*high));
    s->i_layer = i_layer;
    memcpy(s->n_low, n_low, sizeof(s->n_low));
    if (make_kv_format(s, *low, *high) < 0) {
        free(s);
        return -ENOMEM;
    }
    s->low = STEAL(*low);
    s->high = STEAL(*high);
    /* The device with more threads does the host work. */
    s->host = s->high->ops->n_threads(s->high) > s->low->ops->n_threads(s->low) ? s->high : s->low;
    *ret_backend = &s->backend;
    return 0;
}
