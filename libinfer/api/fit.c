/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides a model that is larger than its device's memory: the device gets as many layers as fit,
 * and the CPU gets the others. The CPU gets the whole model if the device cannot compute it. A plan
 * is a graph that was compiled for a device.
 */
#include <errno.h>
#include <string.h>

#include "api/handle.h"
#include "backend/layer-fit.h"
#include "backend/layer-split.h"
#include "core/err.h"

/* Memory of a plan besides its values: descriptors, buffers for transfers, and memory of
 * drivers. */
#define SPARE_BYTES (64ull << 20)
/* Estimated number of values that a plan needs at the same time, if each value were as large as the
 * largest one. */
#define WIDEST_ALIVE 6u

static uint64_t scratch_bytes(const struct graph *g, const struct plan_limits *limits)
{
    uint64_t widest = 0, logits = 0;

    for (size_t i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *n = graph_node(g, (graph_ref)i);

        if (n->op == GRAPH_OUTPUT)
            logits = n->width;
        else if (!n->rows_kept)
            widest = MAX(widest, n->width);
    }
    return (WIDEST_ALIVE * widest * limits->max_rows + logits * limits->max_logits) *
               sizeof(float) +
           SPARE_BYTES;
}

uint64_t setup_memory(struct backend *backend, const struct setup *setup)
{
    const struct backend_ops *ops = backend->ops;
    uint64_t budget = ops->memory ? ops->memory(backend) : UINT64_MAX;

    if (ops->memory && setup->device_bytes > 0)
        budget = MIN(budget, setup->device_bytes);
    return budget == UINT64_MAX ? budget : budget - MIN(budget, setup->reserved_bytes);
}

uint64_t setup_spare(void)
{
    return 2 * SPARE_BYTES;
}

static int open_cpu(const struct setup *setup, struct backend **ret_backend, struct inf_err *reterr)
{
    struct setup cpu = *setup;

    cpu.device = "cpu";
    return setup_backend(&cpu, ret_backend, reterr);
}

int setup_backend_for(const struct inf_model *model, const struct setup *setup,
                      struct backend **ret_backend, struct inf_err *reterr)
{
    _cleanup_(backend_freep) struct backend *backend = NULL;
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const bool is_auto = !setup->device || strcmp(setup->device, "auto") == 0;
    int r;

    r = setup_backend(setup, &backend, reterr);
    if (r == 0 && backend->ops->check) {
        r = model_build(model->model, &graph, reterr);
        if (r == 0)
            r = backend->ops->check(backend, graph, reterr);
        if (r == -EOPNOTSUPP && graph && (is_auto || setup->cpu_else))
            return open_cpu(setup, ret_backend, reterr);
    }
    if (r < 0)
        return r;
    *ret_backend = STEAL(backend);
    return 0;
}

/* Leaves the last @n_layers layers of @g to *@backend, and gives the others to the CPU. If
 * @n_layers is 0, the CPU replaces *@backend. */
static int share_layers(struct backend **backend, const struct setup *setup, const struct graph *g,
                        uint32_t n_layers, struct inf_err *reterr)
{
    const uint32_t i_layer = graph_n_layers(g) - n_layers;
    _cleanup_(backend_freep) struct backend *cpu = NULL;
    uint32_t n_low[STATE_GROUPS_MAX];
    struct backend *both;
    int r;

    r = open_cpu(setup, &cpu, reterr);
    if (r < 0)
        return r;
    if (n_layers == 0) {
        backend_free(*backend);
        *backend = STEAL(cpu);
        return 0;
    }
    graph_layers_below(g, i_layer, n_low);
    r = layer_split_new(&cpu, backend, i_layer, n_low, &both);
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    *backend = both;
    return 0;
}

int setup_fit(struct backend **backend, const struct setup *setup, const struct graph *g,
              const struct kv_layout *layout, const struct plan_limits *limits,
              struct inf_err *reterr)
{
    const uint64_t budget = setup_memory(*backend, setup);
    struct layer_sizes sizes;
    uint32_t n_fit;
    bool whole;

    /* A model with several groups of state is not divided, even if it may not fit. */
    if (budget == UINT64_MAX || layout->n_groups > 1)
        return 0;
    /* If the graph cannot be cut between layers, the device gets the whole graph, even if it may
     * not fit. */
    if (layer_sizes_init(&sizes, g, layout, reterr) < 0)
        return 0;
    sizes.scratch = scratch_bytes(g, limits);
    n_fit = layer_fit(&sizes, budget, &whole);
    layer_sizes_done(&sizes);
    return whole ? 0 : share_layers(backend, setup, g, n_fit, reterr);
}
