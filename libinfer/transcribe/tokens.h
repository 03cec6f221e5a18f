/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds Whisper's special tokens in its vocabulary by their texts.
 */

#include <infer/tokenizer.h>

#include "core/macros.h"
#include "format/whisper/config.h"

enum { SPEECH_MAX_LANGUAGES = 100 };

struct speech_tokens {
    uint32_t n_vocab;
    int32_t end; /* end of the text */
    int32_t start, translate, transcribe, previous, no_timestamps;
    int32_t no_speech;       /* -1: there is none */
    int32_t timestamp_begin; /* all ids from here on are times */
    bool multilingual;
    uint32_t n_languages;
    int32_t languages[SPEECH_MAX_LANGUAGES];
    const char *codes[SPEECH_MAX_LANGUAGES]; /* "en"; static */
    int32_t *forbidden, *not_first;          /* as in struct rules */
    size_t n_forbidden, n_not_first;
};

/* Fills in @t, which must be zeroed. -EBADMSG: a token is missing; -ENOMEM. Call
 * speech_tokens_done() also after a failure. */
int speech_tokens_init(struct speech_tokens *t, const struct inf_tokenizer *tok,
                       const struct whisper_config *config, struct inf_err *reterr);
void speech_tokens_done(struct speech_tokens *t);

/* Returns the index of the language @name, "en" or "english", ignoring case; -1: the model does not
 * have this language. */
int speech_language(const struct speech_tokens *t, const char *name);
