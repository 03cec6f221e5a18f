/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The weights of voice activity detection: a file of Silero VAD in a model directory */

#include <infer/types.h>

struct config;

/* Finds the file that audio.vad_model names; or without that, the last of those named
 * silero*.safetensors or ggml-silero*.bin in the first directory that has one. The caller frees
 * *ret_path; NULL: there is none. -ENOENT, -EINVAL with a sentence: the configured file cannot be
 * used; -ENOMEM. */
int vad_file_find(const struct config *config, char **ret_path, struct inf_err *reterr);
