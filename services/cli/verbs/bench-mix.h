/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of `sconce bench` that mixes number formats of keys and values */

#include <infer/model.h>

#include "cli/cli.h"

struct mix_bench_params {
    struct inf_model *model;
    const char *name;                     /* of the model */
    const char *device, *cache_dir, *isa; /* as in inf_engine_params */
    const char *file;                     /* the text */
    double bits;                          /* the budget: bits of a number, on average */
    uint32_t n_threads, n_batch;
    uint32_t n_prompt; /* tokens of a part of the text, whose second half is predicted */
    uint32_t n_size;   /* tokens of the text whose memory the budget limits */
    uint32_t n_chunks; /* the largest number of parts of the text that are predicted */
    bool json;
};

/* Measures and prints. Returns an exit status. */
int bench_mix(const struct mix_bench_params *params);
