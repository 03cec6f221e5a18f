/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Transcribes one sound file with the audio service, through the gateway or at the service's own
 * address. */

#include <stdio.h>

#include <infer/types.h>

#include "core/macros.h"

struct speech_ask {
    const char *address, *key;                        /* address of the server; API key or NULL */
    const char *model, *language, *prompt, *hotwords; /* NULL: not given */
    const char *format; /* response format of the API: "text", "srt" …; "text" is streamed */
    bool translate, words, skip_silence;
    bool quiet; /* shows no progress */
};

/* Sends the file @fd of @size bytes with the name @name, and writes the answer to @out. Returns
 * -errno with an error text; -EREMOTEIO: the error text comes from the service. */
int speech_ask(const struct speech_ask *ask, int fd, uint64_t size, const char *name, FILE *out,
               struct inf_err *reterr);
