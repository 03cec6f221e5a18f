/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The audio service transcribes one sound file; it is reached through the gateway. */

#include <stdio.h>

#include <infer/types.h>

#include "core/macros.h"

struct speech_ask {
    const char *address, *key;                        /* of the gateway; key: NULL for none */
    const char *model, *language, *prompt, *hotwords; /* NULL: not given */
    const char *format; /* response format of the API: "text", "srt" …; "text" is streamed */
    bool translate, words, skip_silence;
    bool quiet; /* shows no progress */
};

/* Sends the file @fd of @size bytes with the name @name, and writes the answer to @out. Returns
 * -errno with an error text; -EREMOTEIO: the text is the service's. */
int speech_ask(const struct speech_ask *ask, int fd, uint64_t size, const char *name, FILE *out,
               struct inf_err *reterr);
