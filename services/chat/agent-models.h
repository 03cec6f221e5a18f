/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the list of models that the agent Codex reads, in addition to OpenAI's list. */

#include "chat/chat.h"
#include "core/str.h"

struct models;

/* Appends an array with an object for each chat model of @models. */
int agent_models_put(const struct model_host *host, const struct models *models, struct str *out);
