/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The service's side of the decoder: files in, samples out
 *
 * decoder_open() comes before confine_start(), for it starts a program. All else belongs to the
 * thread of the loop.
 *
 * What comes out of the decoder is checked like any other input (frames.h). A decoding ends in one
 * event, whatever the child does: it says so, crashes, writes nonsense, writes nothing for too
 * long, or the decoder as a whole is lost.
 */

#include <infer/types.h>

#include "audio/decoder-protocol.h"

struct decoder;
struct decoding;
struct loop;

struct decoder_params {
    const char *program; /* NULL: beside this one */
    bool landlock_optional;
    uint64_t stall_usec; /* without a byte; 0: 60 s */
};

enum decoding_outcome {
    DECODING_TOLD,    /* end has the result */
    DECODING_CRASHED, /* by a signal, or it wrote what it should not */
    DECODING_SLOW,    /* its limit of processor time, or no sign of life */
    DECODING_LOST,    /* there is no decoder any more */
};

struct decoding_events {
    /* Takes samples. False: not these and no more, until decoding_resume(), which offers them
     * again. The decoding may be cancelled inside. */
    bool (*samples)(void *user, const float *samples, size_t n);
    /* The last event; the decoding is gone then. @end is zeroed unless outcome is TOLD. */
    void (*end)(void *user, enum decoding_outcome outcome, const struct decoder_end *end);
};

struct decoding_params {
    int file; /* sealed memory; stays the caller's, who may close it when this returned */
    uint64_t size;
    uint64_t max_samples, max_memory;
    uint32_t max_cpu_sec;
};

/* -errno with a sentence. */
int decoder_open(const struct decoder_params *params, struct decoder **ret_decoder,
                 struct inf_err *reterr);
/* Cancels what runs. */
struct decoder *decoder_close(struct decoder *decoder);
/* Before the first decoding; @decoder is watched by @loop from here on. @lost: there is no decoder
 * any more, and what ran has ended; may be NULL. */
int decoder_attach(struct decoder *decoder, struct loop *loop, void (*lost)(void *user),
                   void *user);

/* -EAGAIN: DECODER_MAX run; -EPIPE: the decoder is lost; -ENOMEM, -EMFILE. */
int decoding_start(struct decoder *decoder, const struct decoding_params *params,
                   const struct decoding_events *events, void *user,
                   struct decoding **ret_decoding);
void decoding_resume(struct decoding *decoding);
/* No event follows. NULL is fine. */
struct decoding *decoding_cancel(struct decoding *decoding);
