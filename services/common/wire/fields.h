/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Typed reading of a JSON object's fields
 *
 * An absent field and null leave the value as it is and return 0; a field that was read returns 1;
 * a wrong type or a value out of range returns -EINVAL and fills the problem.
 */

#include <jansson.h>

#include "common/http/problem.h"
#include "core/macros.h"

/* A request's body, which must be an object; the caller owns it. */
int fields_parse(const char *body, size_t len, json_t **ret_object, struct problem *problem);

/* The field, or NULL when it is absent or null. */
json_t *field_find(json_t *object, const char *name);

int field_bool(json_t *object, const char *name, bool *value, struct problem *problem);
int field_double(json_t *object, const char *name, double min, double max, double *value,
                 struct problem *problem);
int field_int(json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
              struct problem *problem);
/* Borrowed from the object. */
int field_string(json_t *object, const char *name, const char **value, size_t *len,
                 struct problem *problem);

/* The same of a string that C can hold: names, and whatever is compared with words. */
int field_text(json_t *object, const char *name, const char **value, struct problem *problem);
/* Whether it is that very string; @value may be NULL. */
bool field_is(const json_t *value, const char *text);

/* "a string", "an object", for sentences. */
const char *field_type_name(const json_t *value);
int field_wrong_type(const char *param, const char *expected, const json_t *value,
                     struct problem *problem);
/* Refuses the first field whose name is not in the NULL-terminated list; @prefix ("messages[1].")
 * stands before names in messages. */
int fields_known(json_t *object, const char *prefix, const char *const *names,
                 struct problem *problem);
