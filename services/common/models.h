/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The models that are installed: what the model directories hold, by name
 *
 * A model is a *.gguf file (name: the file name without .gguf), a directory with config.json and
 * *.safetensors (name: the directory's; "org/name" one level deeper), a file ggml-*.bin as
 * whisper.cpp has them (name: without .bin), or what a manifest NAME.yaml
 * points to (keys: name, path, aliases). The first directory that has a name wins. Nothing is
 * parsed here but manifests and file names, so that a listing is cheap and safe; what a model is
 * for is told by a few words of its files (models-task.h).
 */

#include <infer/types.h>

#include "common/models-task.h"
#include "core/macros.h"

struct config;
struct models;

struct models_entry {
    const char *name; /* as people say it and as requests name it */
    const char *path; /* file or directory for inf_model_open() */
    const char *kind; /* "gguf", "safetensors", or "ggml" */
    enum models_task task;
    uint64_t size;              /* bytes on disk */
    int64_t mtime;              /* Unix seconds */
    const char *const *aliases; /* NULL-terminated; may be empty */
};

/* Scans the directories; unreadable ones are skipped. -ENOMEM; -EBADMSG for a bad manifest. */
int models_scan(const struct config *config, struct models **ret_models, struct inf_err *reterr);
struct models *models_free(struct models *m);
DEFINE_CLEANUP(struct models *, models_free);

size_t models_count(const struct models *m);
/* Sorted by name. */
const struct models_entry *models_at(const struct models *m, size_t i);
/* By name or alias, any case; NULL: absent. */
const struct models_entry *models_find(const struct models *m, const char *name);
/* The model for requests that name none: the configured default, else the only one there is of
 * those for chat, else NULL. */
const struct models_entry *models_default(const struct models *m, const struct config *config);
/* The only one for @task, else NULL. */
const struct models_entry *models_only(const struct models *m, enum models_task task);
/* What is there, as "a, b, c" for messages, cut after some; the caller frees it. */
char *models_names(const struct models *m);
/* The same of those for @task. */
char *models_names_of(const struct models *m, enum models_task task);
