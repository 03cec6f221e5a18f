/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines the protocol between the audio service and its decoder.
 *
 * The decoder is a separate program that the service starts before the service loses the right to
 * start programs. The decoder waits for orders on a packet socket (descriptor 3) and forks a child
 * for each order DECODER_START. The child limits its own rights further (confine_seal()), decodes
 * one file and exits; a notice reports its exit status. An order DECODER_START comes with two
 * descriptors: the file in sealed memory, and the write end of a pipe for the audio. The child
 * writes frames of samples (mono, 16 kHz, -1 … 1), and finally a frame with the result. Both sides
 * run on one machine and are built together, so structs are sent in their memory layout.
 *
 * The service trusts no byte from the pipe: see decoder-client.h.
 */

#include "core/macros.h"

enum {
    DECODER_SOCKET = 3,
    DECODER_MAX = 32,             /* children at a time */
    DECODER_FRAME_SAMPLES = 4096, /* maximum number of samples in a frame */
    DECODER_RATE = 16000,
    DECODER_NAME = 32, /* size of the name of a format or codec */
};

enum decoder_order_kind { DECODER_START = 1, DECODER_STOP };

struct decoder_order {
    uint32_t kind, id;
    /* The following fields are only for DECODER_START. */
    uint64_t size;        /* bytes of the file */
    uint64_t max_samples; /* beyond this, the decoding fails */
    uint64_t max_memory;  /* bytes in addition to the file and the memory of the program */
    uint32_t max_cpu_sec;
    uint32_t reserved;
};

struct decoder_notice {
    uint32_t id;
    int32_t status; /* status of the child from waitpid(); -1: no child was started */
};

enum decoder_frame_kind { DECODER_SAMPLES = 0x534d504c, DECODER_END = 0x454e4431 };

struct decoder_frame {
    uint32_t kind;
    uint32_t n; /* number of samples that follow; for DECODER_END: bytes of the struct decoder_end
                   that follows */
};

enum decoder_result {
    DECODER_OK,
    DECODER_UNKNOWN,  /* unknown container */
    DECODER_NO_AUDIO, /* no audio stream, or one without samples */
    DECODER_CODEC,    /* unsupported codec; see `codec` */
    DECODER_BROKEN,   /* invalid contents */
    DECODER_TOO_LONG, /* more than max_samples */
    DECODER_MEMORY,
    DECODER_N_RESULTS,
};

struct decoder_end {
    uint32_t result;
    uint32_t n_errors;         /* packets that were skipped */
    char format[DECODER_NAME]; /* "ogg"; NUL-terminated, like codec */
    char codec[DECODER_NAME];
};
