/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the installed models, and finds them by name.
 *
 * Five kinds of entries of a model directory are models:
 * - a *.gguf file: the model has the name of the file without .gguf;
 * - a directory with config.json and *.safetensors: the model has the name of the directory, or
 *   "org/name" if the directory is one level deeper;
 * - a file ggml-*.bin of whisper.cpp: the model has the name of the file without .bin;
 * - a manifest NAME.yaml (manifest.h): the manifest names another file or directory, its target,
 *   which is the model;
 * - a directory with a file manifest.yaml (manifest.h): the model has the name of the directory,
 *   unless the manifest gives another one. The other files in this directory are not listed as
 *   models.
 *
 * In the directories of other programs, the layout of the program says what the models are
 * (foreign.h).
 *
 * If several directories have a model of the same name, the model in the first directory is used. A
 * manifest and a target in the same directory are one model, and the target's own name becomes an
 * alias. Only manifests and file names are parsed, so listing is cheap and safe. The task of a
 * model is derived from a few words of its files (task.h).
 *
 * If an entry should be a model but cannot be used, the list of broken entries has the reason, and
 * the other entries are not affected.
 */

#include <infer/types.h>

#include "common/models/layout.h"
#include "common/models/sampling.h"
#include "common/models/settings.h"
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
    uint64_t size;                  /* bytes on disk */
    int64_t mtime;                  /* Unix seconds */
    const char *const *aliases;     /* NULL-terminated; may be empty */
    uint64_t dev, ino;              /* device and inode of the file, directory or link itself */
    const char *manifest;           /* the manifest that names the model; NULL: none */
    const char *manifest_dir;       /* the manifest's directory; NULL: none */
    enum models_layout layout;      /* the layout of the directory that has the model */
    bool matryoshka;                /* the manifest says that its vectors may be shortened */
    struct inf_sampling sampling;   /* defaults of sampling in the manifest */
    struct model_settings settings; /* other settings in the manifest; the template is the name of a
                                       built-in one or a path */
};

/* A manifest, link or directory that should be a model but is not one. */
struct models_broken {
    const char *name; /* the name that the model would have */
    const char *path;
    const char *why; /* a sentence that contains the path */
};

/* Scans the model directories, and skips those that it cannot read. -ENOMEM. */
int models_scan(const struct config *config, struct models **ret_models);
/* Works like models_scan(), but checks files outside of the model directories with @files. */
int models_scan_with(const struct config *config, struct model_files *files,
                     struct models **ret_models);
struct models *models_free(struct models *m);
DEFINE_CLEANUP(struct models *, models_free);

size_t models_count(const struct models *m);
/* Broken entries are sorted by path. */
size_t models_n_broken(const struct models *m);
const struct models_broken *models_broken_at(const struct models *m, size_t i);
/* Finds a broken entry by name, ignoring case; NULL: none. */
const struct models_broken *models_find_broken(const struct models *m, const char *name);
/* Models are sorted by name. */
const struct models_entry *models_at(const struct models *m, size_t i);
/* Finds a model by name or alias, ignoring case; NULL: absent. If no model has the name @name, and
 * @name begins with "hf.co/" or ends with the tag ":latest", finds the model by the rest of @name,
 * because clients of Ollama write the names of models in these forms. */
const struct models_entry *models_find(const struct models *m, const char *name);
/* Returns the model that @name, "MODEL:ADAPTER", means if its manifest names this adapter; else
 * NULL. */
const struct models_entry *models_find_adapted(const struct models *m, const char *name);
/* Returns the draft model of the only model that is offered to clients; NULL: there is none, or all
 * models are offered. */
const struct models_entry *models_hidden_drafter(const struct models *m);
/* Returns the draft model that the manifest of a model names, or else the configuration; NULL: none
 * is named, or it is not installed. It is found even if it is not offered to clients. */
const struct models_entry *models_find_drafter(const struct models *m, const struct config *config,
                                               const struct model_settings *settings);
/* Returns the model for requests that name none: the configured default, else the only installed
 * model for chat, else NULL. */
const struct models_entry *models_default(const struct models *m, const struct config *config);
/* Returns the only model for @task, else NULL. */
const struct models_entry *models_only(const struct models *m, enum models_task task);
/* Returns the names of the installed models as "a, b, c", for messages. A list of more than about
 * 400 bytes is cut and ends with "…". The caller frees the text. */
char *models_names(const struct models *m);
/* Works like models_names(), but only for models with @task. */
char *models_names_of(const struct models *m, enum models_task task);
