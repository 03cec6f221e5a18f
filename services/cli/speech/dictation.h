/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prints text while somebody speaks.
 *
 * The service is asked repeatedly for the text of the sound that is not settled yet. A segment is
 * settled when so much sound follows it that more sound would not change its text. The text is then
 * printed as a line. The next request contains only the sound after the segment, and has the
 * settled text as its prompt. At a terminal, the text of the sound that is not settled is shown
 * below the printed lines, and is updated.
 */

#include "cli/speech/microphone.h"
#include "cli/speech/speech.h"

/* Runs until the recording ends and all text is settled. Returns -errno with an error text. */
int dictation_run(const struct speech_ask *ask, struct microphone *mic, FILE *out,
                  struct inf_err *reterr);
