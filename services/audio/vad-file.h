/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the weights of voice activity detection: a file of Silero VAD in a model directory. */

#include <infer/types.h>

struct config;

/* Finds the file that audio.vad_model names. If it is not set, finds the last of the files named
 * silero*.safetensors or ggml-silero*.bin in the first model directory that has such a file. The
 * caller frees *ret_path; NULL: there is no file. -ENOENT, -EINVAL with a sentence: the configured
 * file cannot be used; -ENOMEM. */
int vad_file_find(const struct config *config, char **ret_path, struct inf_err *reterr);
