/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs Whisper's encoder on a device. The encoder turns the mel frames of windows into the input of
 * the decoder.
 *
 * Windows of several requests pass through the encoder's layers together, so each product reads its
 * weights once for all of these windows. The two convolutions have wide rows and few weights, and
 * process one window at a time.
 *
 * All memory is allocated at creation; a run allocates nothing. Only the thread that uses the
 * backend may use the encoder.
 */

#include "backend/backend.h"
#include "backend/reformat.h"
#include "model/whisper.h"

struct encode;

/* Compiles @encoder for @backend and for up to @max_windows windows at a time. @weights holds
 * copies of weights in the backend's fastest format; NULL: the original weights are used. All three
 * must outlive the result. -EOPNOTSUPP with the reason, -ENOMEM. */
int encode_new(struct backend *backend, const struct whisper_encoder *encoder,
               struct reformat *weights, uint32_t max_windows, struct encode **ret_encode,
               struct inf_err *reterr);
struct encode *encode_free(struct encode *enc);
DEFINE_CLEANUP(struct encode *, encode_free);

/* Encodes @n windows. @mel: [n, 2 × n_ctx, n_mels]. @out: [n, n_ctx, n_embd]. A window's rows do
 * not depend on other windows. Returns 0 or the error of the backend. */
int encode_run(struct encode *enc, const float *mel, uint32_t n, float *out);
/* Does the work of encode_run() in pieces. Between two pieces the backend may compute other things.
 * Call encode_go_on() with the same @out until it returns ENCODE_DONE; @mel must stay valid until
 * then. A call of encode_begin() before ENCODE_DONE abandons the windows. */
enum { ENCODE_DONE = 1 };

void encode_begin(struct encode *enc, const float *mel, uint32_t n);
int encode_go_on(struct encode *enc, float *out);
/* Returns the memory for several windows to the system, if it was used. May be called only between
 * runs. */
void encode_rest(struct encode *enc);
