/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends files to the decoder process and receives their samples.
 *
 * decoder_open() must run before confine_start(), because it starts a program. All other functions
 * belong to the thread of the loop.
 *
 * The output of the decoder is checked like any untrusted input (frames.h). Each decoding that is
 * not canceled ends with exactly one call of `end`: when its child process reports a result,
 * crashes, writes invalid data or writes nothing for too long, or when the decoder process is lost.
 */

#include <infer/types.h>

#include "audio/decoder-protocol.h"

struct decoder;
struct decoding;
struct loop;

struct decoder_params {
    const char *program; /* NULL: the decoder in the directory of this program */
    bool landlock_optional;
    uint64_t stall_usec; /* longest time without a byte from a child; 0: 60 s */
};

enum decoding_outcome {
    DECODING_TOLD,    /* the result is in `end` */
    DECODING_CRASHED, /* the child ended without a result, or wrote invalid data */
    DECODING_SLOW,    /* the child used too much processor time, or wrote nothing for too long */
    DECODING_LOST,    /* the decoder process is gone */
};

struct decoding_events {
    /* Takes samples. False: none were taken; after decoding_resume() the same samples are offered
     * again. The callback may cancel the decoding. */
    bool (*samples)(void *user, const float *samples, size_t n);
    /* The last event; the decoding is freed afterwards. @end is zeroed unless @outcome is
     * DECODING_TOLD. */
    void (*end)(void *user, enum decoding_outcome outcome, const struct decoder_end *end);
};

struct decoding_params {
    int file; /* sealed memfd; borrowed, and may be closed after the call */
    uint64_t size;
    uint64_t max_samples, max_memory;
    uint32_t max_cpu_sec;
};

/* Starts the decoder. Returns 0, or -errno with a sentence in @reterr. */
int decoder_open(const struct decoder_params *params, struct decoder **ret_decoder,
                 struct inf_err *reterr);
/* Stops the decoder and cancels running decodings. */
struct decoder *decoder_close(struct decoder *decoder);
/* Lets @loop watch the decoder; call it before the first decoding. @lost, which may be NULL, is
 * called when the decoder is gone and its decodings have ended. */
int decoder_attach(struct decoder *decoder, struct loop *loop, void (*lost)(void *user),
                   void *user);

/* Starts to decode a file. -EAGAIN: DECODER_MAX decodings are running; -EPIPE: the decoder is lost;
 * -ENOMEM, -EMFILE. */
int decoding_start(struct decoder *decoder, const struct decoding_params *params,
                   const struct decoding_events *events, void *user,
                   struct decoding **ret_decoding);
/* Offers the samples again that `samples` did not take. */
void decoding_resume(struct decoding *decoding);
/* Cancels a decoding; no event follows. NULL is allowed. */
struct decoding *decoding_cancel(struct decoding *decoding);
