/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the grammar of arguments that are not written as JSON objects. */

#include "chat/reply/lark.h"

#define GRAMMAR_MAX_MEMBERS 2048

/* Refuses an object with more than GRAMMAR_MAX_MEMBERS properties, because the time for writing
 * them grows with the square of their number. */
void grammar_check_members(struct lark *l, json_t *schema);
/* Writes one member of an object: key and value. @root is the document to which references in
 * @schema point. */
typedef void (*grammar_member)(struct lark *l, json_t *root, const char *key, json_t *schema);

/* Returns whether the schema @parameters requires the property @key. */
bool grammar_requires(json_t *parameters, const char *key);
/* Writes the members of an object with the schema @schema, the required ones first. @separator is
 * the expression between two members. */
void grammar_put_members(struct lark *l, json_t *root, json_t *schema, const char *separator,
                         grammar_member put);
/* Writes an object in Gemma's notation. If the schema @root has less common keywords, such as
 * `anyOf` or `pattern`, writes the object as JSON, which the parser can read as well. */
void grammar_put_gemma(struct lark *l, json_t *root);
