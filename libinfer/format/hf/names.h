/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts the tensor names of transformers' checkpoints to canonical names. */

#include "core/macros.h"

#define HF_NAME_MAX 96

/*
 * Writes the canonical name of @name to @out. Unknown names are copied. The name of a tensor that
 * is not used (such as old rotary tables) becomes "". Returns false if the canonical name is too
 * long.
 */
bool hf_name(const char *name, char out[HF_NAME_MAX]);
/* Does what hf_name() does, for Gemma's classes, whose layers also have norms behind attention and
 * behind the feed-forward part. */
bool hf_name_gemma(const char *name, char out[HF_NAME_MAX]);
/* names-jina.c: does what hf_name() does, for jina-embeddings-v4 and its adapters. Names of tensors
 * that texts do not need become "". The low-rank matrices of "blk.0.attn_q.weight" are
 * "blk.0.attn_q.lora_a.TASK" and "….lora_b.TASK". */
bool hf_name_jina(const char *name, char out[HF_NAME_MAX]);
/* names-bert.c: does what hf_name() does, for encoders. */
bool hf_name_encoder(const char *name, char out[HF_NAME_MAX]);
