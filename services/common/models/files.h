/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of a model, and which of them are outside of the model directories
 *
 * Links and manifests may lead anywhere. A service reads their targets only if they belong to a
 * model, so that nobody can use it to read other files of the machine:
 * - weights: a file that begins like GGUF, safetensors or ggml .bin files;
 * - another file of a model, such as tokenizer.json: if it has the name of one and is beside
 *   weights or in the model's own directory, or if it is a blob of a store (".../blobs/HASH", as in
 *   the stores of Hugging Face and Ollama);
 * - a directory: if it has config.json and weights. It may be listed, and those of its files may be
 *   read that belong to a model.
 *
 * A process that is already confined cannot check targets that it may not open. It trusts their
 * names, unless it refused them before.
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

/* Positive conditions. */
enum {
    MODEL_FILES_NONE = 1, /* there is no model */
};

/* Receives each file and directory outside of the model directories, open for reading. The
 * descriptor is borrowed. A negative result ends the walk and is returned. */
typedef int (*model_files_fn)(void *data, int fd, bool is_dir);

/* Prepares checks for the model directories of @config. @visit may be NULL. With @remember,
 * refusals are remembered for the life of the process. -ENOMEM. */
int model_files_new(const struct config *config, model_files_fn visit, void *data, bool remember,
                    struct model_files **ret_files);
struct model_files *model_files_free(struct model_files *files);
DEFINE_CLEANUP(struct model_files *, model_files_free);

/* Whether @path, with all links followed, is a model directory or contains one. Walking into it
 * would never end. */
bool model_files_is_above(const struct model_files *files, const char *path);

/* Explains why @path cannot be followed to its end, in the form below. MODEL_FILES_NONE: it can. */
int model_files_follow(const char *path, struct inf_err *reterr);
/* Checks one file. -errno with the reason, which continues a sentence that begins with @path:
 * "leads to /etc/passwd, which is not a GGUF file". */
int model_files_check(struct model_files *files, const char *path, enum model_file what,
                      struct inf_err *reterr);
/* Checks the directory @path and all files of a model in it. *ret_size gets the total size of the
 * weights. MODEL_FILES_NONE: it has no config.json or no weights, and nothing in it was refused.
 * -errno with a reason as above. */
int model_files_check_dir(struct model_files *files, const char *path, uint64_t *ret_size,
                          struct inf_err *reterr);
/* Checks the files that a GGUF file of Whisper needs beside it. */
int model_files_check_beside(struct model_files *files, const char *path, struct inf_err *reterr);
