/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Turns an opened Hugging Face directory into a GGUF file, as llama.cpp's converter does: it
 * interleaves the rows of q and k of the family "llama", and stores llama3 scaling as
 * rope_freqs.weight. */

#include "format/format.h"

/* Returns the path of a new file. The caller removes the file and frees the path. */
char *convert_to_gguf(const struct format *f);
