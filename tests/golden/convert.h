/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Turns an opened Hugging Face directory into a GGUF file, as converters in the field do: rows of
 * q and k of the family "llama" interleaved, llama3 scaling as rope_freqs.weight. */

#include "format/format.h"

/* The path of a new file; the caller removes and frees it. */
char *convert_to_gguf(const struct format *f);
