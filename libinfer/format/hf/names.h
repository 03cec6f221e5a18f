/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of tensors in transformers' checkpoints. */

#include "core/macros.h"

#define HF_NAME_MAX 96

/*
 * The canonical name of @name into @out. Names that are not known are copied as they are; true
 * when they fit. A name that holds nothing to compute with (old rotary tables) becomes "".
 */
bool hf_name(const char *name, char out[HF_NAME_MAX]);
/* The same of Gemma's classes, whose layers have norms behind both parts too. */
bool hf_name_gemma(const char *name, char out[HF_NAME_MAX]);
/* names-jina.c: the same of jina-embeddings-v4 and its adapters: of text alone, all else becomes
 * "". The low-rank matrices of "blk.0.attn_q.weight" are "blk.0.attn_q.lora_a.TASK" and
 * "….lora_b.TASK".
 */
bool hf_name_jina(const char *name, char out[HF_NAME_MAX]);
/* names-bert.c: the same of encoders. */
bool hf_name_encoder(const char *name, char out[HF_NAME_MAX]);
