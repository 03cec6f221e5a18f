/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of `sconce bench` that measures texts with and without drafts */

#include <infer/engine.h>

#include "cli/cli.h"

struct draft_bench_params {
    struct inf_model *model;
    struct inf_model *draft_model;                  /* NULL: none */
    const char *device, *cache_dir, *isa, *kv_type; /* as in inf_engine_params */
    uint32_t n_threads;
    const char *kind;   /* as draft_kind in inf_engine_params */
    uint32_t max_draft; /* as in inf_engine_params */
    const char *file;   /* the text whose parts are the prompts */
    uint32_t n_prompt, n_generate, n_streams, n_repeat;
    float temperature;
    bool json;
};

/* Returns the median of @n numbers, at least one, and sorts them. */
double bench_median(double *x, uint32_t n);
/* Measures and prints. Returns an exit status. */
int bench_drafts(const struct draft_bench_params *params);
