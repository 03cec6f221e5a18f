/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One file of sound to the audio service, through the gateway, and its text as it comes. */

#include <stdio.h>

#include <infer/types.h>

#include "core/macros.h"

struct speech_ask {
    const char *address, *key;                        /* of the gateway; key: NULL for none */
    const char *model, *language, *prompt, *hotwords; /* NULL: not given */
    const char *format; /* of the API: "text", "srt" …; text comes as a stream */
    bool translate, words, skip_silence;
    bool quiet; /* nothing is said of progress */
};

/* Sends the file @fd of @size bytes, which is called @name, and writes the answer to @out. -errno
 * with a sentence, the service's own where it said one: -EREMOTEIO. */
int speech_ask(const struct speech_ask *ask, int fd, uint64_t size, const char *name, FILE *out,
               struct inf_err *reterr);
