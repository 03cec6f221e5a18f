/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts the tensor names of transformers' checkpoints to canonical names (format/format.h). */

#include "format/arch-desc.h"

#define HF_NAME_MAX 96

/*
 * Writes the canonical name of @name to @out, as the description says. Unknown names are copied.
 * The name of a tensor that is not used (such as old rotary tables) becomes "". Returns false if
 * the canonical name is too long.
 *
 * The matrix of expert 3 that belongs to "blk.7.ffn_gate_exps.weight" is "blk.7.ffn_gate.3.weight",
 * as in old GGUF files.
 */
bool hf_name(const struct arch_desc *desc, const char *name, char out[HF_NAME_MAX]);
/* Does what hf_name() does, with the names in the slots (struct arch_slot) only. */
bool hf_name_slot(const struct arch_desc *desc, const char *name, char out[HF_NAME_MAX]);
