/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the fields of a JSON object with checks of type and range.
 *
 * If the field is absent or null, the functions below leave *value unchanged and return 0. If they
 * read the field, they return 1. If it has a wrong type or a value out of range, they return
 * -EINVAL and fill *problem.
 */

#include <jansson.h>

#include "common/http/problem.h"
#include "core/macros.h"

/* Parses a request body, which must be an object. The caller owns *ret_object. */
int fields_parse(const char *body, size_t len, json_t **ret_object, struct problem *problem);

/* Returns the field, or NULL if it is absent or null. */
json_t *field_find(json_t *object, const char *name);

int field_bool(json_t *object, const char *name, bool *value, struct problem *problem);
int field_double(json_t *object, const char *name, double min, double max, double *value,
                 struct problem *problem);
int field_int(json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
              struct problem *problem);
/* The object owns the string *value. */
int field_string(json_t *object, const char *name, const char **value, size_t *len,
                 struct problem *problem);

/* Works like field_string(), but refuses strings with NUL characters. It is meant for names and
 * words. */
int field_text(json_t *object, const char *name, const char **value, struct problem *problem);
/* Returns whether @value is the string @text; @value may be NULL. */
bool field_is(const json_t *value, const char *text);

/* Fills @problem for a field @param whose value @value has a wrong type. @expected is a phrase for
 * the right type, such as "a string". Returns -EINVAL. */
int field_wrong_type(const char *param, const char *expected, const json_t *value,
                     struct problem *problem);
/* Refuses a value that is not an array, or that has more than @max entries. */
int field_check_array(const json_t *value, const char *param, const char *expected, int max,
                      struct problem *problem);
/* Refuses the first field whose name is not in the NULL-terminated list @names. The message puts
 * @prefix, such as "messages[1].", before the name. */
int fields_known(json_t *object, const char *prefix, const char *const *names,
                 struct problem *problem);
/* Works like fields_known(), with a NULL-terminated array of such lists. */
int fields_known_in(json_t *object, const char *prefix, const char *const *const *lists,
                    struct problem *problem);
