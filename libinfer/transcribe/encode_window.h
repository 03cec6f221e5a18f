/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whisper's encoder on a device: frames of a window in, what the decoder listens to out
 *
 * Everything is made at the beginning; a run allocates nothing. One thread at a time uses it, that
 * of its backend.
 */

#include "backend/backend.h"
#include "backend/reformat.h"
#include "model/whisper.h"

struct encode;

/* Compiles @encoder for @backend; both must outlive it, as must @weights: copies in the format that
 * the backend multiplies fastest; NULL: they are used as they are. -EOPNOTSUPP with the reason,
 * -ENOMEM. */
int encode_new(struct backend *backend, const struct whisper_encoder *encoder,
               struct reformat *weights, struct encode **ret_encode, struct inf_err *reterr);
struct encode *encode_free(struct encode *enc);
DEFINE_CLEANUP(struct encode *, encode_free);

/* @mel: [2 × n_ctx, n_mels]. @out: [n_ctx, n_embd]. 0, or what the backend says when it fails. */
int encode_run(struct encode *enc, const float *mel, float *out);
/* The same in pieces, between which other plans of the backend may run: encode_go_on() until it
 * says ENCODE_DONE, with the same @out. A window that is not wanted any more is left by the next
 * encode_begin(). */
enum { ENCODE_DONE = 1 };

void encode_begin(struct encode *enc, const float *mel);
int encode_go_on(struct encode *enc, float *out);
