/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Derives the task of an installed model from the first bytes of its files.
 *
 * Listing must be cheap and must not load models, so only the beginning of one file is searched for
 * a few words. The task is used only for defaults and lists. A request that names a model may use
 * that model for everything that the model's files support.
 */

#include "core/macros.h"

enum models_task {
    MODELS_CHAT,
    MODELS_EMBED,  /* vectors of texts */
    MODELS_RERANK, /* scores of pairs */
    MODELS_SPEECH, /* speech to text */
};

/* Returns the task of the model @name at @path. @kind: see models_entry. A file that cannot be read
 * counts as MODELS_CHAT. */
enum models_task models_task_find(const char *name, const char *path, const char *kind);
/* Derive the task from the beginning of a GGUF file, or of a config.json. */
enum models_task models_task_of_gguf(const char *data, size_t len);
enum models_task models_task_of_config(const char *data, size_t len);
/* Returns "chat", "embedding", "rerank" or "speech". */
const char *models_task_name(enum models_task task);
