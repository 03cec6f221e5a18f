/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of `sconce bench` that compares number formats of keys and values */

#include <infer/model.h>

#include "cli/cli.h"

struct kv_bench_params {
    struct inf_model *model;
    const char *name;                     /* of the model */
    const char *device, *cache_dir, *isa; /* as in inf_engine_params */
    const char *types; /* the formats (kv_type in inf_engine_params), with commas between; NULL: all
                          that the model can have */
    const char *file;  /* the text */
    uint32_t n_threads, n_batch;
    uint32_t n_depth;    /* tokens before those that are predicted or measured */
    uint32_t n_prompt;   /* tokens that are predicted, and tokens of a measured prompt */
    uint32_t n_generate; /* tokens of a measured answer */
    uint32_t n_chunks;   /* the largest number of parts of the text that are predicted */
    uint32_t n_repeat;   /* rounds of measuring speed */
    bool json;
};

/* Measures and prints. Returns an exit status. */
int bench_kv(const struct kv_bench_params *params);
