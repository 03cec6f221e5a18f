/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the paths and queries of requests. */

#include "common/http/http.h"
#include "common/http/problem.h"
#include "keep/archive.h"

#define PATH_ID_SIZE 72

/* The parts of a path below a route: ID, ID/ACTION or ID/ACTION/ITEM. Absent parts are "". */
struct path {
    char id[PATH_ID_SIZE], action[16], item[PATH_ID_SIZE];
};

/* Reads the part of @path after the prefix of @prefix_len bytes. Returns false if this part has
 * another form, or characters that no id has. */
bool path_read(struct http_text path, size_t prefix_len, struct path *ret_path);
/* Fills in the problem for a path that path_read() refuses, or whose action the route does not
 * have. */
int path_unknown(struct http_text path, struct problem *problem);
/* Returns whether @id has only characters that ids may have, and a length that ids may have. */
bool path_id_is_plain(const char *id, size_t len);

/* The query of a list. page.after points to after_id. */
struct page {
    struct archive_page page;
    char after_id[PATH_ID_SIZE];
};

/* Reads the parameters `limit`, `order` and `after`. Accepts `include`, which has no effect. */
int page_read(struct http_text query, struct page *ret_page, struct problem *problem);
/* Refuses all parameters of a query except `include`, `include_obfuscation` and `stream=false`. */
int query_check(struct http_text query, struct problem *problem);
