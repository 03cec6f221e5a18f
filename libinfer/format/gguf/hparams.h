/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads hyperparameters from the keys of a GGUF file ("llama.block_count" and so on). */

#include "format/gguf/gguf.h"
#include "format/hparams.h"

/* Reads and checks hyperparameters. -EOPNOTSUPP: the architecture or a feature is not supported.
 * -EBADMSG: a key is missing or invalid. */
int gguf_hparams(const struct gguf *g, struct hparams *ret_hp, struct inf_err *reterr);
/* Sets only arch and name, which every file has. */
void gguf_hparams_names(const struct gguf *g, struct hparams *hp);
