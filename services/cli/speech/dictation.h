/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text while somebody speaks
 *
 * The service is asked repeatedly for the text of the sound that is not settled yet. A segment is
 * settled when so much sound follows it that more sound would not change it. It is then printed as
 * a line, and the sound after it is requested again with the settled text as the prompt. At a
 * terminal, the text of the remaining sound is shown below and is updated.
 */

#include "cli/speech/microphone.h"
#include "cli/speech/speech.h"

/* Runs until the recording ends and all text is settled. Returns -errno with an error text. */
int dictation_run(const struct speech_ask *ask, struct microphone *mic, FILE *out,
                  struct inf_err *reterr);
