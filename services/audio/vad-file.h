/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The weights that tell speech from silence: a file of Silero VAD in a model directory. */

#include <infer/types.h>

struct config;

/* The file that audio.vad_model names, or else the last of those that are called
 * silero*.safetensors or ggml-silero*.bin in the first directory that has one. *ret_path is the
 * caller's; NULL: there is none. -ENOENT, -EINVAL with a sentence: not the one that is configured;
 * -ENOMEM. */
int vad_file_find(const struct config *config, char **ret_path, struct inf_err *reterr);
