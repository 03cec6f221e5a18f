/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the files of a model, and finds those that are outside of the model directories.
 *
 * Links and manifests may lead anywhere. A service reads a target only if the target belongs to a
 * model, so that nobody can use the service to read other files of the machine. Three kinds of
 * targets belong to a model:
 * - weights: a file that begins like GGUF, safetensors or ggml .bin files;
 * - another file of a model: its name is one that models use, such as tokenizer.json. It is in a
 *   directory with weights, in the model's own directory, or in a store of blobs (".../blobs/HASH",
 *   as in the stores of Hugging Face and Ollama);
 * - a directory with config.json and weights: the service may list it, and may read those of its
 *   files that belong to a model.
 *
 * A process that is already confined cannot check targets that it may not open. It accepts them
 * without a check, unless it refused them before it was confined.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;
struct model_files;

/* The expected kind of a file. */
enum model_file {
    MODEL_FILE_GGUF,
    MODEL_FILE_SAFETENSORS,
    MODEL_FILE_GGML,
    MODEL_FILE_PART, /* another file of a model */
};

/* Positive results of the functions below. */
enum {
    MODEL_FILES_NONE = 1, /* there is no model */
};

/* Receives each file and directory outside of the model directories. @fd is open for reading and
 * borrowed. A negative result ends the check, which returns this result. */
typedef int (*model_files_fn)(void *data, int fd, bool is_dir);

/* Prepares checks for the model directories of @config. @visit may be NULL. With @remember, the
 * process remembers refusals until it ends. -ENOMEM. */
int model_files_new(const struct config *config, model_files_fn visit, void *data, bool remember,
                    struct model_files **ret_files);
struct model_files *model_files_free(struct model_files *files);
DEFINE_CLEANUP(struct model_files *, model_files_free);

/* Returns whether @path, with all links followed, is a model directory or contains one. Walking
 * into such a directory would never end. */
bool model_files_is_above(const struct model_files *files, const char *path);

/* Explains why the links of @path cannot be followed to an existing file, in the form that
 * model_files_check() uses. MODEL_FILES_NONE: they can be followed. */
int model_files_follow(const char *path, struct inf_err *reterr);
/* Checks one file. -errno with the reason, which continues a sentence that begins with @path:
 * "leads to /etc/passwd, which is not a GGUF file". */
int model_files_check(struct model_files *files, const char *path, enum model_file what,
                      struct inf_err *reterr);
/* Checks the directory @path and all files of a model in it. *ret_size gets the total size of the
 * weights. MODEL_FILES_NONE: it has no config.json or no weights, and nothing in it was refused.
 * -errno with a reason as for model_files_check(). */
int model_files_check_dir(struct model_files *files, const char *path, uint64_t *ret_size,
                          struct inf_err *reterr);
/* Checks the files that a GGUF file of Whisper needs in its directory. */
int model_files_check_beside(struct model_files *files, const char *path, struct inf_err *reterr);
