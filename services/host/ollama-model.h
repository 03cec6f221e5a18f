/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes models in the format of Ollama's API, for all services with models. */

#include <infer/model.h>

#include "core/str.h"

struct http_request;
struct model_host;
struct resident;

/* All functions ollama_put_… return 0 or -ENOMEM. */

/* Writes "name" and "model" as the first members of an object. */
int ollama_put_names(struct str *out, const char *name);
/* Writes a digest that identifies the model's file, not its content. */
int ollama_put_digest(struct str *out, const char *path, uint64_t size, int64_t mtime);
/* Writes "details":{…}. @info NULL: the model is not open, and only its format is known. */
int ollama_put_details(struct str *out, const char *format, const struct inf_model_info *info);

/* The members of the description of a loaded model that each service sets itself. */
struct ollama_loaded {
    uint32_t n_ctx;
    bool on_gpu;
    const char *kv_type; /* the number format of keys and values; NULL: the model has none */
};

/* Answers GET /api/ps with the loaded models of the service. The gateway joins the answers of
 * several services: each begins with OLLAMA_MODELS_BEGIN and ends with OLLAMA_MODELS_END. */
void ollama_loaded_send(const struct model_host *host, struct http_request *request,
                        struct ollama_loaded (*describe)(const struct resident *resident));
