/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists Whisper's languages, in the order of their tokens. Older models lack the last language. */

enum {
    WHISPER_N_LANGUAGES = 100,
    WHISPER_N_ALIASES = 12,
};

struct whisper_language {
    const char *code, *name; /* "en", "english" */
};

extern const struct whisper_language whisper_languages[WHISPER_N_LANGUAGES];
/* Alternative names of some languages. */
extern const struct whisper_language whisper_aliases[WHISPER_N_ALIASES];
