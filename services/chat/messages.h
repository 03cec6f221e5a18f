/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The conversation of a chat request, checked and brought into the form that templates read. */

#include <jansson.h>

#include "common/http/problem.h"

/*
 * Checks @messages in place and rewrites it: text parts become one string, arguments of tool calls
 * that are JSON objects in a string become objects, null contents become "".
 */
int messages_normalize(json_t *messages, struct problem *problem);
