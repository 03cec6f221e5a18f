/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What becomes of a text when an attempt is over: refused, or told segment by segment. */

#include "transcribe/transcriber.h"

/* On the thread, without the lock. Leaves the logits of the step alone. */
void heard_take(struct transcriber *t, struct hearing *h);
