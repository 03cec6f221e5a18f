/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads hyperparameters from the keys of a GGUF file ("llama.block_count" and so on). */

#include "format/gguf/gguf.h"
#include "format/arch-desc.h"

/* Reads and checks hyperparameters. *ret_desc is the description of the architecture in @archs.
 * -EOPNOTSUPP: the architecture or a feature is not supported. -EBADMSG: a key is missing or
 * invalid. */
int gguf_hparams(const struct gguf *g, const struct arch_list *archs, struct hparams *ret_hp,
                 const struct arch_desc **ret_desc, struct inf_err *reterr);
/* Sets only arch and name, which every file has. */
void gguf_hparams_names(const struct gguf *g, struct hparams *hp);
