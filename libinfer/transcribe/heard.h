/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Refuses the text of a finished attempt, or sends it segment by segment. */

#include "transcribe/transcriber.h"

/* Handles the result of the request @h. The function is called on the transcriber's thread, without
 * the lock, and does not use the logits of the step. */
void heard_take(struct transcriber *t, struct hearing *h);
