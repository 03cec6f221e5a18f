/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that a model consists of, and which of them lie outside of the model directories
 *
 * Links and manifests may lead anywhere. A service reads what they lead to only when that is a
 * model, so that no other file of the machine can be read by it:
 *
 * - weights: a file that begins as GGUF, safetensors or ggml .bin files do;
 * - another file of a model, as tokenizer.json: when it has the name of one and lies beside weights
 *   or in the model's own directory, or when it is a blob of a store (".../blobs/HASH", as Hugging
 *   Face and Ollama keep them);
 * - a directory: when it has config.json and weights. It may be listed, and of its files those are
 *   read that a model consists of.
 *
 * In a process that is confined already, what it may not open cannot be judged. It counts as what
 * its name says, unless this process refused it before.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;
struct model_files;

/* What a path is expected to be. */
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

/* Gets each file and directory that lies outside, opened for reading; the descriptor is borrowed.
 * A negative result ends the walk and is returned. */
typedef int (*model_files_fn)(void *data, int fd, bool is_dir);

/* Follows the model directories of @config. @visit may be NULL. With @remember what is refused is
 * remembered for the life of the process. -ENOMEM. */
int model_files_new(const struct config *config, model_files_fn visit, void *data, bool remember,
                    struct model_files **ret_files);
struct model_files *model_files_free(struct model_files *files);
DEFINE_CLEANUP(struct model_files *, model_files_free);

/* Whether @path, with all links followed, is a model directory or one that holds a model directory:
 * looking into it would never end. */
bool model_files_is_above(const struct model_files *files, const char *path);

/* Why @path cannot be followed to its end, in words as below; MODEL_FILES_NONE: it can. */
int model_files_follow(const char *path, struct inf_err *reterr);
/* Checks one file. -errno with the reason, which follows the name of @path in a sentence: "leads
 * to /etc/passwd, which is not a GGUF file". */
int model_files_check(struct model_files *files, const char *path, enum model_file what,
                      struct inf_err *reterr);
/* Checks the directory @path with all files of a model in it, which *ret_size gets the sum of (of
 * the weights). MODEL_FILES_NONE: it has no config.json or no weights, and nothing in it was
 * refused. -errno with a reason as above. */
int model_files_check_dir(struct model_files *files, const char *path, uint64_t *ret_size,
                          struct inf_err *reterr);
/* Checks what a GGUF file of Whisper needs beside it. */
int model_files_check_beside(struct model_files *files, const char *path, struct inf_err *reterr);
