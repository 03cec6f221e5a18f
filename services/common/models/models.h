/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The models that are installed: what the model directories hold, by name
 *
 * A model is a *.gguf file (name: the file name without .gguf), a directory with config.json and
 * *.safetensors (name: the directory's; "org/name" one level deeper), a file ggml-*.bin as
 * whisper.cpp has them (name: without .bin), or what a manifest NAME.yaml
 * points to (manifest.h). The first directory that has a name wins. A file that a manifest in
 * the same directory names is one model with it: the file's own name is an alias. Nothing is
 * parsed here but manifests and file names, so that a listing is cheap and safe; what a model is
 * for is told by a few words of its files (task.h).
 *
 * What shall be a model and is none concerns itself alone: the list of broken ones tells why.
 */

#include <infer/types.h>

#include "common/models/task.h"
#include "core/macros.h"

struct config;
struct model_files;
struct models;

struct models_entry {
    const char *name; /* as people say it and as requests name it */
    const char *path; /* file or directory for inf_model_open() */
    const char *kind; /* "gguf", "safetensors", or "ggml" */
    enum models_task task;
    uint64_t size;              /* bytes on disk */
    int64_t mtime;              /* Unix seconds */
    const char *const *aliases; /* NULL-terminated; may be empty */
    uint64_t dev, ino;          /* of the file, directory or link itself */
    const char *manifest_dir;   /* where the manifest lies that names it; NULL: none does */
    bool matryoshka;            /* which says that beginnings of its vectors are vectors */
};

/* A manifest, link or directory that shall be a model and is none. */
struct models_broken {
    const char *name; /* as the model would be called */
    const char *path;
    const char *why; /* a sentence that names the path */
};

/* Scans the directories; unreadable ones are skipped. -ENOMEM. */
int models_scan(const struct config *config, struct models **ret_models);
/* The same; @files judges what lies outside of the directories. */
int models_scan_with(const struct config *config, struct model_files *files,
                     struct models **ret_models);
struct models *models_free(struct models *m);
DEFINE_CLEANUP(struct models *, models_free);

size_t models_count(const struct models *m);
/* Those that are broken, sorted by path. */
size_t models_n_broken(const struct models *m);
const struct models_broken *models_broken_at(const struct models *m, size_t i);
/* By name, any case; NULL: none is called so. */
const struct models_broken *models_find_broken(const struct models *m, const char *name);
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
