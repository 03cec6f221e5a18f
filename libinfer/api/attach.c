/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches a KV tier to an engine, and describes the model and its KV blocks to the tier.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/handle.h"
#include "core/err.h"
#include "quant/codec.h"

/* Operations per second and thread that are assumed until the speed of prompts is measured.
 * REF_FLOPS is low because the instruction set "ref" is plain C. */
#define FIRST_FLOPS 5e10
#define REF_FLOPS   5e8

static double guess_tok_s(const struct inf_engine *engine, const struct inf_model *model)
{
    const struct backend *b = engine->sched->runner->backend;
    const double flops = strcmp(b->ops->isa(b), "ref") == 0 ? REF_FLOPS : FIRST_FLOPS;

    return flops * b->ops->n_threads(b) / 2 / (double)MAX(model->info.n_params, 1u);
}

int attach_tier(struct inf_engine *engine, const struct inf_engine_params *p,
                struct inf_err *reterr)
{
    const struct runner *runner = engine->sched->runner;
    const struct kv_layout *layout = kv_pool_layout(runner->pool);
    int r;

    snprintf(engine->codec, sizeof(engine->codec), "%s/%s%s%s %s", codec_info(layout->k)->name,
             codec_info(layout->v)->name, layout->recent ? "+recent" : "",
             layout->n_mixed > 0 ? ", others in some layers," : "", runner->backend->device);
    r = sched_add_tier(engine->sched,
                       &(struct tier_params){
                           .impl = p->tier,
                           .files = p->model->maps,
                           .n_files = p->model->n_maps,
                           .model = p->tier_model ? p->tier_model : "",
                           .codec = engine->codec,
                       },
                       guess_tok_s(engine, p->model));
    if (r < 0 && r != -EOPNOTSUPP)
        return err_set(reterr, -r, "out of memory");
    return 0;
}
