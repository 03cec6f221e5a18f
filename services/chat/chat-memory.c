/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes how much memory a chat model takes, and how much all models may take.
 *
 * A model takes its weights, its KV cache and some memory for computing. Weights are mapped, so the
 * kernel can drop their pages. The weights that every token reads must fit, because a model that
 * reads them from the disk for each token is too slow. The kernel may drop the other weights, such
 * as those of experts that are not chosen, and read them again. On a GPU with its own memory, a
 * model takes as much of that memory as is free, and the rest from the memory of the machine.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infer/kv.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/config/config.h"
#include "common/models/models.h"
#include "core/cgroup.h"

enum {
    MEMORY_USUAL_CONTEXT = 8192, /* tokens, if nothing sets a context */
    MEMORY_LEAST_CONTEXT = 1024, /* the shortest context that is still useful */
    MEMORY_CONVERSATIONS = 4,    /* full-length conversations in the KV cache */
    MEMORY_BLOCK_TOKENS = 64,
    MEMORY_N_NAMED = 3, /* models that a message suggests */
};

/* Bytes that a model takes for computing. */
#define MEMORY_SPARE ((uint64_t)64 << 20)
/* The largest number of bytes in the computations below. A sum of 16 such numbers does not
 * overflow. */
#define MEMORY_MAX (UINT64_MAX / 16)

static const struct config *config_of(const struct resident *resident)
{
    const struct model_host *host = resident->pool->data;

    return host->config;
}

uint32_t chat_resident_context(const struct resident *resident)
{
    return resident->settings.context ? resident->settings.context
                                      : config_of(resident)->chat.context;
}

const char *chat_resident_kv_type(const struct resident *resident)
{
    return resident->settings.kv_type ? resident->settings.kv_type
                                      : config_of(resident)->chat.kv_type;
}

static uint64_t times(uint64_t bytes, uint64_t n)
{
    uint64_t product;

    return size_mul(bytes, n, &product) ? MIN(product, MEMORY_MAX) : MEMORY_MAX;
}

/* Returns how many bytes the keys and values of a conversation of @n tokens take. */
static uint64_t tokens_bytes(const struct inf_kv_size *kv, uint64_t n)
{
    return times(kv->per_token, DIV_UP(n, MEMORY_BLOCK_TOKENS) * MEMORY_BLOCK_TOKENS);
}

/* Returns the length in tokens of the conversations for which the KV cache is sized. */
static uint64_t wanted_context(const struct resident *resident)
{
    const uint32_t given = chat_resident_context(resident);
    const uint32_t trained = inf_model_info(resident->model)->n_ctx_train;

    if (given)
        return given;
    return trained ? MIN(trained, (uint64_t)MEMORY_USUAL_CONTEXT) : MEMORY_USUAL_CONTEXT;
}

/* Returns the bytes of the smallest KV cache with which the model is loaded. */
static uint64_t least_kv(const struct resident *resident)
{
    const struct inf_kv_size *kv = &chat_resident_of(resident)->kv_small;
    const uint64_t n = wanted_context(resident);
    const bool given = chat_resident_context(resident) > 0;

    return tokens_bytes(kv, given ? n : MIN(n, (uint64_t)MEMORY_LEAST_CONTEXT)) +
           times(kv->windows, 2) + times(kv->recurrent, 2);
}

/* Returns the bytes of the KV cache that the model gets if memory is not short. */
static uint64_t best_kv(const struct resident *resident)
{
    const struct config *config = config_of(resident);
    const struct inf_kv_size *kv = &chat_resident_of(resident)->kv;
    const uint64_t n_seqs = config->chat.max_sequences;
    const uint64_t full = times(tokens_bytes(kv, wanted_context(resident)),
                                MIN(n_seqs, (uint64_t)MEMORY_CONVERSATIONS));
    const uint64_t others =
        MIN(times(kv->windows, n_seqs + 8) + times(kv->recurrent, 3 * n_seqs + 8), MEMORY_MAX);

    return MAX(MIN(full + others, memory_bytes() / 4), least_kv(resident));
}

/* Returns the limit of what all models may take of the device's memory, in bytes; 0: the device has
 * no memory of its own. */
static uint64_t device_budget(const struct chat *chat)
{
    const struct inf_device_info *info = inf_device_info(chat->device.device);
    const uint64_t limit = chat->host.config->chat.device_memory;

    if (info->kind != INF_DEVICE_DISCRETE)
        return 0;
    return limit ? MIN(limit, info->memory_total) : info->memory_total;
}

/* Returns how many bytes of weights need memory: those of all weights if @all is set, otherwise
 * those of the weights that one token reads. */
static uint64_t weights_bytes(const struct resident *resident, bool all)
{
    const struct inf_model *const models[] = {resident->model, chat_resident_of(resident)->draft};
    uint64_t sum = MEMORY_SPARE;

    for (size_t i = 0; i < ARRAY_SIZE(models) && models[i]; i++) {
        const struct inf_model_info *info = inf_model_info(models[i]);

        sum += MIN(all || !info->n_bytes_token ? info->n_bytes : info->n_bytes_token, MEMORY_MAX);
    }
    return sum;
}

/* Computes the memory of a conversation in the number format @kv_type, with that of drafts. If the
 * memory of drafts is unknown, the engine cannot draft either. */
static int measure_kv(const struct resident *resident, const char *kv_type,
                      struct inf_kv_size *ret_size, struct inf_err *reterr)
{
    const struct inf_engine_params params = {.model = resident->model,
                                             .kv_type = kv_type,
                                             .draft_kind = chat_resident_draft_kind(resident),
                                             .draft_model = chat_resident_of(resident)->draft};
    struct inf_kv_size drafts;
    const int r = inf_model_kv_size(resident->model, kv_type, ret_size, reterr);

    if (r < 0 || inf_model_draft_kv_size(&params, &drafts, NULL) < 0)
        return r;
    ret_size->per_token += drafts.per_token;
    ret_size->windows += drafts.windows;
    ret_size->recurrent += drafts.recurrent;
    return 0;
}

/* Returns whether the CPU computes the model. Not every GPU has every number format. */
static bool is_on_cpu(const struct resident *resident)
{
    const struct chat *chat = resident->pool->data;

    return inf_device_info(chat->device.device)->kind == INF_DEVICE_CPU;
}

/* Like measure_kv(), for the format that "auto" means if there is almost no memory. */
static int measure_smallest(const struct resident *resident, struct inf_kv_size *ret_size,
                            struct inf_err *reterr)
{
    const struct inf_engine_params least = {
        .model = resident->model, .n_ctx = (uint32_t)wanted_context(resident), .kv_bytes = 1};
    const char *kv_type;
    const int r = inf_model_kv_auto(&least, &kv_type, reterr);

    return r < 0 ? r : measure_kv(resident, kv_type, ret_size, reterr);
}

int chat_resident_measure(struct resident *resident, struct inf_err *reterr)
{
    struct chat_resident *own = chat_resident_of(resident);
    const struct config *config = config_of(resident);
    const uint64_t weights = weights_bytes(resident, true);
    const uint64_t device = resident->pool->device_budget;
    uint64_t least;
    const char *kv_type = own->kv_type ? own->kv_type : chat_resident_kv_type(resident);
    int r = measure_kv(resident, kv_type, &own->kv, reterr);

    own->kv_small = own->kv;
    if (r == 0 && strcmp(kv_type, "auto") == 0 && is_on_cpu(resident))
        r = measure_smallest(resident, &own->kv_small, reterr);
    if (r < 0) {
        own->kv_wrong = r == -EOPNOTSUPP && own->kv_type;
        return r;
    }
    own->kv_want =
        config->chat.kv_memory ? MIN(config->chat.kv_memory, MEMORY_MAX) : best_kv(resident);
    least = weights_bytes(resident, false) +
            (config->chat.kv_memory ? own->kv_want : least_kv(resident));
    resident->device_bytes = MIN(weights + own->kv_want, device);
    resident->want_bytes = weights + own->kv_want - resident->device_bytes;
    resident->least_bytes = least - MIN(least, resident->device_bytes);
    return 0;
}

uint64_t chat_resident_kv_bytes(const struct resident *resident)
{
    const struct chat_resident *own = chat_resident_of(resident);
    const uint64_t limit = config_of(resident)->chat.kv_memory;
    const uint64_t missing = resident->want_bytes - MIN(resident->want_bytes, resident->host_bytes);

    if (limit || missing == 0)
        return limit; /* 0: the engine chooses the size itself */
    if (weights_bytes(resident, true) >= resident->host_bytes + resident->device_bytes)
        return MAX(MIN(own->kv_want, resident->host_bytes / 4), least_kv(resident));
    return own->kv_want - MIN(own->kv_want, missing);
}

/* Names the largest models for chat whose files fit into @room. */
static void advise_models(const struct resident *resident, uint64_t room, char *text, size_t size)
{
    struct model_host *host = resident->pool->data;
    const struct models *models = model_host_models(host);
    const struct models_entry *best = NULL;
    uint64_t below = room > MEMORY_SPARE ? room - MEMORY_SPARE : 0;
    size_t len = 0;

    for (size_t n = 0; models && n < MEMORY_N_NAMED && len < size; n++) {
        best = NULL;
        for (size_t i = 0; i < models_count(models); i++) {
            const struct models_entry *e = models_at(models, i);

            if (e->task == MODELS_CHAT && e->size < below && (!best || e->size > best->size))
                best = e;
        }
        if (!best)
            break;
        len += (size_t)snprintf(text + len, size - len, "%s%.50s",
                                n ? ", " : " Models that would fit: ", best->name);
        below = best->size;
    }
    if (len && len < size)
        snprintf(text + len, size - len, ".");
}

void chat_resident_advise(const struct resident *resident, uint64_t room, char *text, size_t size)
{
    const struct inf_kv_size *kv = &chat_resident_of(resident)->kv_small;
    const uint64_t others =
        weights_bytes(resident, false) + times(kv->windows, 2) + times(kv->recurrent, 2);
    const uint64_t n = room > others && kv->per_token ? (room - others) / kv->per_token : 0;
    const uint64_t tokens = n / MEMORY_BLOCK_TOKENS * MEMORY_BLOCK_TOKENS;

    if (tokens >= MEMORY_LEAST_CONTEXT && tokens < wanted_context(resident))
        snprintf(text, size, " With a context of %llu tokens it would fit.",
                 (unsigned long long)tokens);
    else
        advise_models(resident, room, text, size);
}

void chat_memory_set_budgets(struct chat *chat)
{
    const uint64_t given = chat->host.config->chat.memory;

    chat->host.residents.host_budget = given ? given : memory_bytes() / 10 * 9;
    chat->host.residents.device_budget = device_budget(chat);
}
