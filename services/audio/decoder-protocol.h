/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the audio service and its decoder say to each other
 *
 * The decoder is a program of its own that the service starts before it gives up that right. It
 * waits for orders on a socket of packets (descriptor 3) and makes one child for each, which seals
 * itself, decodes one file and ends; how it ended is told by a notice. With an order to start come
 * two descriptors: the file in sealed memory, and the writing end of a pipe for the sound: frames
 * of samples (mono, 16 kHz, -1 … 1), and at last one that says how it went. Both ends run on one
 * machine and are built together, so that structs are sent as they lie in memory.
 *
 * The service trusts no byte of the pipe: see decoder-client.h.
 */

#include "core/macros.h"

enum {
    DECODER_SOCKET = 3,
    DECODER_MAX = 32,             /* children at a time */
    DECODER_FRAME_SAMPLES = 4096, /* the most in a frame */
    DECODER_RATE = 16000,
    DECODER_NAME = 32, /* of a format or codec */
};

enum decoder_order_kind { DECODER_START = 1, DECODER_STOP };

struct decoder_order {
    uint32_t kind, id;
    /* START */
    uint64_t size;        /* bytes of the file */
    uint64_t max_samples; /* more is an error */
    uint64_t max_memory;  /* bytes beside the file and what the program has */
    uint32_t max_cpu_sec;
    uint32_t reserved;
};

struct decoder_notice {
    uint32_t id;
    int32_t status; /* of waitpid(); -1: there was no child */
};

enum decoder_frame_kind { DECODER_SAMPLES = 0x534d504c, DECODER_END = 0x454e4431 };

struct decoder_frame {
    uint32_t kind;
    uint32_t n; /* samples that follow; of END: bytes, which are a struct decoder_end */
};

enum decoder_result {
    DECODER_OK,
    DECODER_UNKNOWN,  /* no container that is known */
    DECODER_NO_AUDIO, /* no stream of sound, or none with a sample */
    DECODER_CODEC,    /* a codec that is not decoded; name says which */
    DECODER_BROKEN,   /* the bytes are not what they should be */
    DECODER_TOO_LONG, /* more than max_samples */
    DECODER_MEMORY,
    DECODER_N_RESULTS,
};

struct decoder_end {
    uint32_t result;
    uint32_t n_errors;         /* packets that were skipped as broken */
    char format[DECODER_NAME]; /* "ogg"; NUL-terminated, as codec is */
    char codec[DECODER_NAME];
};
