/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whisper's encoder on a device: frames of windows in, what the decoder listens to out
 *
 * Windows of several requests pass its layers together: each product reads its weights once for all
 * of them. The two convolutions, whose rows are wide and whose weights are few, see one window at a
 * time.
 *
 * Everything is made at the beginning; a run allocates nothing. One thread at a time uses it, that
 * of its backend.
 */

#include "backend/backend.h"
#include "backend/reformat.h"
#include "model/whisper.h"

struct encode;

/* Compiles @encoder for @backend and up to @max_windows at once; both must outlive it, as must
 * @weights: copies in the format that the backend multiplies fastest; NULL: they are used as they
 * are. -EOPNOTSUPP with the reason, -ENOMEM. */
int encode_new(struct backend *backend, const struct whisper_encoder *encoder,
               struct reformat *weights, uint32_t max_windows, struct encode **ret_encode,
               struct inf_err *reterr);
struct encode *encode_free(struct encode *enc);
DEFINE_CLEANUP(struct encode *, encode_free);

/* @mel: [n, 2 × n_ctx, n_mels]. @out: [n, n_ctx, n_embd]; a window's rows do not depend on the
 * others. 0, or what the backend says when it fails. */
int encode_run(struct encode *enc, const float *mel, uint32_t n, float *out);
/* The same in pieces, between which other plans of the backend may run: encode_go_on() until it
 * says ENCODE_DONE, with the same @out; @mel stays until then. Windows that are not wanted any more
 * are left by the next encode_begin(). */
enum { ENCODE_DONE = 1 };

void encode_begin(struct encode *enc, const float *mel, uint32_t n);
int encode_go_on(struct encode *enc, float *out);
/* Between runs: gives back the memory that several windows at once took, if any did. */
void encode_rest(struct encode *enc);
