/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks the items that clients send, and writes lists of items. */

#include <jansson.h>

#include "common/http/problem.h"
#include "keep/archive.h"
#include "keep/path.h"

/* Checks an item, and adds its type, id and status if they are missing. A content that is a string
 * becomes an array with one part. @prefix is the path of the item in the body, for errors. */
int item_complete(json_t *item, const char *prefix, struct problem *problem);
/* Appends an item, which has an id, to the entry @key. Returns a result of archive.h, or
 * -ENOMEM. */
int item_store(struct archive *a, const char *tenant, int64_t key, const json_t *item,
               bool is_output);
/* Writes the list object of a page of items. Returns a result of archive.h. */
int items_put_list(struct archive *a, int64_t key, const struct page *page, struct str *out);
