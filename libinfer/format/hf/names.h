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
/* Converts the name of a tensor of the layers that predict further tokens. For a model of @n_layers
 * = 24 layers, "mtp.layers.0.X" and "mtp.X" both become "layers.24.X", which hf_name() converts.
 * Returns false if @name is another name, or too long. */
bool hf_name_predictor(const char *name, uint32_t n_layers, char *out, size_t size);
/* Does what hf_name() does, with the names in the slots (struct arch_slot) only. */
bool hf_name_slot(const struct arch_desc *desc, const char *name, char out[HF_NAME_MAX]);
