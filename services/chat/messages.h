/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The messages of a chat request, checked and converted to the form that templates read */

#include <jansson.h>

#include "common/http/problem.h"

/*
 * Checks @messages and rewrites it in place: text parts become one string, arguments of tool calls
 * that are JSON objects in a string become objects, null contents become "".
 */
int messages_normalize(json_t *messages, struct problem *problem);
