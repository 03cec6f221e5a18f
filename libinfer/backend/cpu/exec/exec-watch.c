/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the inputs of products to a watch (struct product_watch in backend.h).
 *
 * The rows are normalized as exec_prepare_row() normalizes them, but not converted to the format of
 * the kernels. This costs little, because the watch receives a row once, while the product
 * multiplies the row by all rows of a matrix.
 */
#include "backend/cpu/exec/exec.h"

/* Returns input row @i as floats. @row: a buffer for the row. */
static const float *watch_row(const struct exec *x, const struct stage *s, uint32_t i, float *row)
{
    const float *src = exec_row(x, s->src[0], s->gather ? x->batch->logit_rows[i] : i);

    if (!s->norm_w)
        return src;
    x->cpu->elem->rms_norm(row, src, s->norm_w, s->norm_eps, s->K);
    return row;
}

/* Passes a row to the watch, once for each weight of the stage. */
static void watch_tell(const struct exec *x, const struct stage *s, uint32_t i_expert,
                       uint32_t n_experts, const float *row)
{
    const struct product_watch *w = x->cpu->watch;

    for (uint32_t p = 0; p < s->n_products; p++)
        for (uint32_t j = 0; j < s->products[p].n_matrices; j++)
            if (s->products[p].m[j].name)
                w->row(w->data, s->products[p].m[j].name, i_expert, n_experts, row, s->K);
}

void exec_watch(const struct exec *x, const struct stage *s)
{
    float *buffer = (float *)(exec_memory(x, 0) + x->plan->mem.row);
    const uint32_t n = exec_rows(x, s->rows_kept);
    const bool experts = s->kind == STAGE_EXPERTS;
    const struct value *route = experts ? &x->plan->values[s->src[1]] : NULL;
    const uint32_t n_in = experts ? x->plan->values[s->src[0]].slots : 1;

    for (uint32_t i = 0; i < n * n_in; i++) {
        const float *row = watch_row(x, s, i, buffer);
        const uint32_t n_slots = experts ? route->slots / n_in : 1;

        /* An input row belongs to all slots of a row of the step, or to a single slot. */
        for (uint32_t k = 0; experts && k < n_slots; k++)
            watch_tell(x, s, exec_slot_experts(x, s->src[1], i / n_in)[i % n_in * n_slots + k],
                       route->width, row);
        if (!experts)
            watch_tell(x, s, 0, 0, row);
    }
}
