/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Asks the keep service on threads beside the loop. */

#include "common/http/problem.h"
#include "common/wire/keep-client.h"

struct chat;

/* Asks the keep service of @chat (see keep_client_ask()). */
int kept_ask(const struct chat *chat, const struct keep_question *question, struct str *body,
             int *ret_status);
/* Fills in the problem when kept_ask() failed. Returns -EINVAL. */
int kept_unavailable(int error, struct problem *problem);
