/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Struct chat_resident is a chat model in memory with its engine (see residents.h). */

#include <infer/engine.h>
#include <infer/model.h>

#include "chat/grammar-cache.h"
#include "common/models/sampling.h"
#include "host/residents.h"

struct chat_resident {
    struct resident base;
    char *kv_type;         /* requested type of the KV cache; NULL: not requested */
    char fingerprint[24];  /* "b" and ten hexadecimal digits: llama.cpp's clients expect the
                              letter */
    struct inf_tier *tier; /* connection to the cache service (tier 2 of the KV cache, on disk);
                              freed after the engine; NULL: none */
    char *draft_name, *draft_path; /* the draft model that the manifest or the configuration names;
                                      NULL: none, or it is not installed */
    struct inf_model *draft;       /* NULL: nothing is drafted by a model */
    char draft_error[INF_ERR_BYTES]; /* why the draft model is not used; "": it is used, or there
                                        is none */
    struct inf_engine *engine;
    struct grammar_cache grammars;
    /* Memory of the keys and values of a conversation. kv: in the number format that is used if
     * memory is not short. kv_small: in the smallest one that "auto" may mean; without "auto", both
     * are equal. */
    struct inf_kv_size kv, kv_small;
    uint64_t kv_want;             /* bytes that the KV cache takes if memory is not short */
    bool kv_wrong;                /* the model cannot use the requested type of the KV cache */
    struct inf_sampling sampling; /* sampling parameters that the model's files recommend */
};

/* The function chat_residents_ops.stats fills this structure. */
struct chat_resident_stats {
    struct inf_engine_stats engine;
    double kv_use; /* share of the KV blocks that are in use, 0 to 1 */
    uint32_t n_threads;
};

/* The key of residents_want() is a KV type (a number format of keys and values). NULL stands for
 * the type in the model's manifest, or for the configured type if the manifest has none. "any"
 * means that the type does not matter. */
extern const struct residents_ops chat_residents_ops;

static inline struct chat_resident *chat_resident_of(const struct resident *resident)
{
    return CONTAINER_OF(resident, struct chat_resident, base);
}

/* Returns the kind of drafts: the configured one, or "none" if that kind needs a draft model and
 * there is none. */
const char *chat_resident_draft_kind(const struct resident *resident);
/* chat-memory.c: the callbacks `measure` and `advise` of chat_residents_ops. */
int chat_resident_measure(struct resident *resident, struct inf_err *reterr);
void chat_resident_advise(const struct resident *resident, uint64_t room, char *text, size_t size);
/* Returns the size of the KV cache for inf_engine_params, according to the memory that the resident
 * got. */
uint64_t chat_resident_kv_bytes(const struct resident *resident);
/* Returns the longest conversation in tokens that the manifest or the configuration sets; 0:
 * neither does. */
uint32_t chat_resident_context(const struct resident *resident);
/* Returns the type of the KV cache for requests that name none. */
const char *chat_resident_kv_type(const struct resident *resident);
struct chat;
/* Sets the budgets of memory for all models. */
void chat_memory_set_budgets(struct chat *chat);
