/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of struct chat_api that only POST /v1/fim/completions uses. The answers of this
 * endpoint have the form of those of /v1/chat/completions (openai-chat.c). */

#include "chat/generation.h"

int mistral_fim_read(struct generation *g, struct problem *problem);
int mistral_fim_prepare(struct generation *g, struct problem *problem);
