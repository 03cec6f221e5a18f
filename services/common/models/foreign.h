/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the models that other programs have downloaded, in the directories of these programs.
 *
 * The key models.other_programs of the configuration names the programs whose models may be used.
 * Each program has directories of its own, with a layout of its own:
 * - huggingface: the cache of the Hugging Face Hub, models--ORG--NAME/snapshots/REVISION/, in which
 *   links lead to blobs. The revision that refs/main names is used, or the newest one if there is
 *   no such revision;
 * - ollama: manifests/HOST/NAMESPACE/NAME/TAG, a JSON file that names the blob with the weights;
 * - lm-studio: ORG/REPO/FILE.gguf;
 * - llama.cpp: FILE.gguf.
 * The last two need no code of their own: the usual search of a directory finds such files.
 */

#include "common/models/layout.h"
#include "core/macros.h"

/* Receives a model: its name, and the path of a file or directory. @why is NULL, or says why the
 * model cannot be used. A negative result ends the search, which returns this result. */
typedef int (*foreign_fn)(void *data, const char *name, const char *path, const char *why);

/* Returns the program to which @layout belongs, for people; NULL for MODELS_OWN. */
const char *models_layout_program(enum models_layout layout);
/* Finds the models in @dir, which has the layout of Hugging Face's cache. -ENOMEM. */
int foreign_hugging_face(const char *dir, foreign_fn found, void *data);
/* Finds the models in @dir, which has the layout of Ollama's store. -ENOMEM. */
int foreign_ollama(const char *dir, foreign_fn found, void *data);

/* The length of the name of a blob: "sha256-" and 64 digits. */
#define FOREIGN_BLOB_LENGTH 71
/* Reads a manifest of Ollama's store: finds the digest of its weights, and writes the name of their
 * blob, "sha256-HEX". Returns NULL, or a phrase that says why there is none. */
const char *foreign_ollama_blob(const char *text, size_t len,
                                char ret_name[FOREIGN_BLOB_LENGTH + 1]);
