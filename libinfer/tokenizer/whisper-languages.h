/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Languages of Whisper, in the order of their tokens; older models lack the last. */

enum {
    WHISPER_N_LANGUAGES = 100,
    WHISPER_N_ALIASES = 12,
};

struct whisper_language {
    const char *code, *name; /* "en", "english" */
};

extern const struct whisper_language whisper_languages[WHISPER_N_LANGUAGES];
/* Other names of some of them. */
extern const struct whisper_language whisper_aliases[WHISPER_N_ALIASES];
