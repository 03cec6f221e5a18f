/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text while somebody speaks
 *
 * Again and again the service is asked for the text of what is not settled yet. A segment is
 * settled when so much follows it that more would not change it; it is written as a line, and what
 * comes after it is asked for anew, with the settled text as its prompt. At a terminal the rest
 * stands below and changes as it grows.
 */

#include "cli/speech/microphone.h"
#include "cli/speech/speech.h"

/* Until the recording ends, and all is settled. -errno with a sentence. */
int dictation_run(const struct speech_ask *ask, struct microphone *mic, FILE *out,
                  struct inf_err *reterr);
