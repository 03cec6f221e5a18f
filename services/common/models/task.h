/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an installed model is for, told by the first bytes of its files
 *
 * A listing must be cheap and must not load models: one piece of one file is searched for a few
 * words. It tells defaults and lists apart, nothing else; who names a model gets it for whatever
 * its files can do.
 */

#include "core/macros.h"

enum models_task {
    MODELS_CHAT,
    MODELS_EMBED,  /* it makes vectors */
    MODELS_RERANK, /* it makes scores of pairs */
    MODELS_SPEECH, /* it makes text of speech */
};

/* @kind: of models_entry; what cannot be read is for chat. */
enum models_task models_task_find(const char *name, const char *path, const char *kind);
/* By the beginning of a GGUF file, or of a config.json. */
enum models_task models_task_of_gguf(const char *data, size_t len);
enum models_task models_task_of_config(const char *data, size_t len);
/* "chat", "embedding", "rerank", "speech" */
const char *models_task_name(enum models_task task);
