/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the arguments of calls that are not JSON. */

#include "chat/reply/lark.h"

#define GRAMMAR_MAX_MEMBERS 2048

/* Refuses an object with more properties, because the time to write them grows with their
 * square. */
void grammar_check_members(struct lark *l, json_t *schema);
/* Writes one member of an object, key and value. @root is the document of references. */
typedef void (*grammar_member)(struct lark *l, json_t *root, const char *key, json_t *schema);

/* Returns whether the object's schema requires the property. */
bool grammar_requires(json_t *parameters, const char *key);
/* Writes the members of an object with the schema @schema, those that are required first.
 * @separator is an expression. */
void grammar_put_members(struct lark *l, json_t *root, json_t *schema, const char *separator,
                         grammar_member put);
/* Writes an object in Gemma's notation. A schema that has more than types, lists and properties is
 * written as JSON, which the parser reads as well. */
void grammar_put_gemma(struct lark *l, json_t *root);
