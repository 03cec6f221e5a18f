/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the types that the schema of a tool permits for its arguments, and turns arguments that a
 * model wrote as plain text into JSON values. */

#include <jansson.h>

#include "core/str.h"

enum value_type {
    VALUE_STRING = 1 << 0,
    VALUE_INTEGER = 1 << 1,
    VALUE_NUMBER = 1 << 2, /* includes integers */
    VALUE_BOOLEAN = 1 << 3,
    VALUE_NULL = 1 << 4,
    VALUE_OBJECT = 1 << 5,
    VALUE_ARRAY = 1 << 6,
    VALUE_ANY = (1 << 7) - 1,
};

/* Returns the types that a JSON Schema permits for the property @key of an object. A property that
 * the schema does not describe may have any type. @parameters may be NULL. */
unsigned arguments_types(json_t *parameters, const char *key);
/* Returns the types that @schema permits. @root is the document to which references in @schema
 * point. */
unsigned value_types(json_t *root, json_t *schema);
/* Appends the plain text @text as a JSON value. The value has one of @types if the text can be read
 * as a value of this type, and is a string otherwise. -ENOMEM. */
int arguments_put_value(unsigned types, const char *text, size_t len, struct str *out);
