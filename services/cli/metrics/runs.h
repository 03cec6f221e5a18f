/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the runs of `sconce bench --save` in the user's SQLite database
 * $XDG_DATA_HOME/sconce/bench.db.
 */

#include <infer/types.h>

#include "core/macros.h"

/* Sizes of the texts of a run, with their NUL. Longer texts are cut. */
enum { RUN_NAME = 128, RUN_WORD = 32 };

struct run {
    int64_t id;
    int64_t time; /* Unix seconds */
    char version[RUN_WORD];
    char model[RUN_NAME];
    uint64_t bytes; /* size of the model's weights */
    char weights[RUN_NAME];
    char machine[RUN_NAME]; /* name of the device: the CPU or the GPU */
    char isa[RUN_WORD];
    char kv_type[RUN_NAME];
    uint32_t threads, n_prompt, n_generate, depth, streams, batch, repeat;
    double pp, pp_stddev; /* tokens per second; 0: not measured */
    double tg, tg_stddev;
};

/* Adds a run, whose id is ignored. Creates the file and its directory if they do not exist. */
int runs_add(const struct run *run, struct inf_err *reterr);
/* Reads all runs, oldest first; *ret_n is 0 if the file does not exist. The caller frees
 * *ret_runs. */
int runs_read(struct run **ret_runs, size_t *ret_n, struct inf_err *reterr);
