/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Chat models in memory, each with its engine (see residents.h) */

#include <infer/engine.h>

#include "host/residents.h"

struct chat_resident {
    struct resident base;
    char *kv_type;         /* as requested; NULL: the configured type */
    char fingerprint[24];  /* "fp_…" */
    struct inf_tier *tier; /* used by the engine, freed after it; NULL: none */
    struct inf_engine *engine;
};

/* Written by chat_residents_ops.stats. */
struct chat_resident_stats {
    struct inf_engine_stats engine;
    double kv_use; /* share of the blocks in use */
    uint32_t n_threads;
};

/* The keys are KV types: NULL: as configured; "any": any loaded one. */
extern const struct residents_ops chat_residents_ops;

static inline struct chat_resident *chat_resident_of(const struct resident *resident)
{
    return CONTAINER_OF(resident, struct chat_resident, base);
}
