/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Struct chat_resident is a chat model in memory with its engine (see residents.h). */

#include <infer/engine.h>

#include "chat/grammar-cache.h"
#include "common/models/sampling.h"
#include "host/residents.h"

struct chat_resident {
    struct resident base;
    char *kv_type;         /* requested type of the KV cache; NULL: the configured type */
    char fingerprint[24];  /* "b" and ten hexadecimal digits: llama.cpp's clients expect the
                              letter */
    struct inf_tier *tier; /* connection to the cache service (tier 2 of the KV cache, on disk);
                              freed after the engine; NULL: none */
    struct inf_engine *engine;
    struct grammar_cache grammars;
    struct inf_sampling sampling; /* sampling parameters that the model's files recommend */
};

/* The function chat_residents_ops.stats fills this structure. */
struct chat_resident_stats {
    struct inf_engine_stats engine;
    double kv_use; /* share of the KV blocks that are in use, 0 to 1 */
    uint32_t n_threads;
};

/* The key of residents_want() is a KV type. NULL: the configured type; "any": the type does not
 * matter. */
extern const struct residents_ops chat_residents_ops;

static inline struct chat_resident *chat_resident_of(const struct resident *resident)
{
    return CONTAINER_OF(resident, struct chat_resident, base);
}
