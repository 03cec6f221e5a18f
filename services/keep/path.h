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

/* Reads what follows the prefix of @prefix_len bytes. False: it has another form, or characters
 * that no id has. */
bool path_read(struct http_text path, size_t prefix_len, struct path *ret_path);
/* Fills in the problem of a path that path_read() refuses, or that has no such action. */
int path_unknown(struct http_text path, struct problem *problem);
/* Whether an id has only characters that ids have, and a length that ids have. */
bool path_id_is_plain(const char *id, size_t len);

/* The query of a list. `after` points into after_id. */
struct page {
    struct archive_page page;
    char after_id[PATH_ID_SIZE];
};

/* Reads limit, order and after; accepts include. */
int page_read(struct http_text query, struct page *ret_page, struct problem *problem);
/* Refuses each parameter of a query except those that ask for further fields ("include") and a
 * "stream" that is false. */
int query_check(struct http_text query, struct problem *problem);
