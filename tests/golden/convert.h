/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Turns an opened Hugging Face directory into a GGUF file, as llama.cpp's converter does: the
 * function interleaves the rows of q and k for the architecture "llama", and stores the rotary
 * scaling "llama3" as rope_freqs.weight. */

#include "format/format.h"

/* Returns the path of a new file. The caller removes the file and frees the path. */
char *convert_to_gguf(const struct format *f);
