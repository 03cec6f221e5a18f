/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sends requests to the keep service, from threads beside the event loop. */

#include "common/http/problem.h"
#include "common/wire/keep-client.h"

struct chat;

/* Sends a request to the keep service of @chat, and waits for the answer (see
 * keep_client_ask()). */
int kept_ask(const struct chat *chat, const struct keep_question *question, struct str *body,
             int *ret_status);
/* Fills in @problem after kept_ask() failed with @error. Returns -EINVAL. */
int kept_unavailable(int error, struct problem *problem);
