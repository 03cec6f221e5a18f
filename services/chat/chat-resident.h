/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text models in memory, each with its engine (see residents.h). */

#include <infer/engine.h>

#include "host/residents.h"

struct chat_resident {
    struct resident base;
    char *kv_type;         /* that a request asked for; NULL: the configured one */
    char fingerprint[24];  /* "fp_…" */
    struct inf_tier *tier; /* of the engine, which it outlives; NULL: none */
    struct inf_engine *engine;
};

/* What chat_residents_ops.stats writes. */
struct chat_resident_stats {
    struct inf_engine_stats engine;
    double kv_use; /* share of the blocks in use */
    uint32_t n_threads;
};

/* Their keys are types of keys and values: NULL: as configured; "any": whichever is there. */
extern const struct residents_ops chat_residents_ops;

static inline struct chat_resident *chat_resident_of(const struct resident *resident)
{
    return (struct chat_resident *)(void *)resident;
}
