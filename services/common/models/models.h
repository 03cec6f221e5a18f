/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The installed models: the contents of the model directories, by name
 *
 * A model is a *.gguf file, whose name without .gguf is the model's name; a directory with
 * config.json and *.safetensors, which gives the model its name ("org/name" one level deeper); a
 * file ggml-*.bin of whisper.cpp, whose name without .bin is the model's name; or the target of a
 * manifest NAME.yaml (manifest.h). If several directories have a model of the same name, the first
 * wins. A file that a manifest in the same directory names is one model with it; the file's own
 * name becomes an alias. Only manifests and file names are parsed, so listing is cheap and safe.
 * The task of a model is derived from a few words of its files (task.h).
 *
 * If an entry should be a model but cannot be used, no other entry is affected; the list of broken
 * entries has the reason.
 */

#include <infer/types.h>

#include "common/models/task.h"
#include "core/macros.h"

struct config;
struct model_files;
struct models;

struct models_entry {
    const char *name; /* the name in requests and messages */
    const char *path; /* file or directory for inf_model_open() */
    const char *kind; /* "gguf", "safetensors", or "ggml" */
    enum models_task task;
    uint64_t size;              /* bytes on disk */
    int64_t mtime;              /* Unix seconds */
    const char *const *aliases; /* NULL-terminated; may be empty */
    uint64_t dev, ino;          /* of the file, directory or link itself */
    const char *manifest_dir;   /* directory of the manifest that names the model; NULL: none */
    bool matryoshka;            /* the manifest says that its vectors may be shortened */
};

/* A manifest, link or directory that should be a model and is none. */
struct models_broken {
    const char *name; /* the name that the model would have */
    const char *path;
    const char *why; /* a sentence that contains the path */
};

/* Scans the directories; unreadable ones are skipped. -ENOMEM. */
int models_scan(const struct config *config, struct models **ret_models);
/* Like models_scan(), and lets @files check files outside of the directories. */
int models_scan_with(const struct config *config, struct model_files *files,
                     struct models **ret_models);
struct models *models_free(struct models *m);
DEFINE_CLEANUP(struct models *, models_free);

size_t models_count(const struct models *m);
/* Broken entries, sorted by path. */
size_t models_n_broken(const struct models *m);
const struct models_broken *models_broken_at(const struct models *m, size_t i);
/* Finds a broken entry by name, ignoring case; NULL: none. */
const struct models_broken *models_find_broken(const struct models *m, const char *name);
/* Sorted by name. */
const struct models_entry *models_at(const struct models *m, size_t i);
/* Finds a model by name or alias, ignoring case; NULL: absent. */
const struct models_entry *models_find(const struct models *m, const char *name);
/* Returns the model for requests that name none: the configured default, else the only installed
 * one for chat, else NULL. */
const struct models_entry *models_default(const struct models *m, const struct config *config);
/* Returns the only model for @task, else NULL. */
const struct models_entry *models_only(const struct models *m, enum models_task task);
/* Returns installed names as "a, b, c" for messages, truncated after some. The caller frees it. */
char *models_names(const struct models *m);
/* Like models_names(), but only of models for @task. */
char *models_names_of(const struct models *m, enum models_task task);
