/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes hyperparameters as the keys of a GGUF file, which gguf_hparams() reads. */

#include "format/arch-desc.h"
#include "format/gguf/out.h"

/* Returns general.architecture of a new file. */
const char *gguf_arch_name(const struct arch_desc *desc, const struct hparams *hp);

/* Adds the keys of a model that was read from a directory in Hugging Face layout. Returns an error
 * of gguf_out_u32(). -EOPNOTSUPP: GGUF files have no key for a setting of the model. */
int gguf_put_hparams(struct gguf_out *w, const struct arch_list *archs,
                     const struct arch_desc *desc, const struct hparams *hp,
                     struct inf_err *reterr);
