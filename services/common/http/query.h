/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the parameters of a query, the part of a URL after the question mark. */

#include "common/http/http.h"

/* Returns the decoded value of the first parameter @name, which the caller frees. NULL: it is
 * absent, or memory is short. */
char *query_find(struct http_text query, const char *name);
/* Decodes percent-encoding in place. Invalid sequences and %00 stay as they are. */
void query_decode(char *text);
