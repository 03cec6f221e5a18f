/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Handling the text of a finished attempt: it is refused, or sent segment by segment. */

#include "transcribe/transcriber.h"

/* Called on the thread, without the lock. Does not use the logits of the step. */
void heard_take(struct transcriber *t, struct hearing *h);
