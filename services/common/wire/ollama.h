/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and writes what all endpoints of Ollama's API share (docs/api.md of Ollama, version 0.13):
 * the field keep_alive, the options, times and the names of models.
 */

#include <jansson.h>

#include "common/http/problem.h"
#include "core/str.h"

/* The keep_alive of a model that stays in memory without end. */
#define OLLAMA_FOREVER UINT64_MAX

/* The texts before and after the descriptions of models in a list. */
#define OLLAMA_MODELS_BEGIN "{\"models\":["
#define OLLAMA_MODELS_END   "]}"

/* Reads "keep_alive", the time for which the model stays in memory after its last use. It is a
 * number of seconds, or a text such as "5m" or "1h30m". A negative time becomes OLLAMA_FOREVER.
 * Returns 1, 0 or -EINVAL, as the functions of fields.h do. */
int ollama_read_keep_alive(json_t *body, uint64_t *ret_usec, struct problem *problem);
/* Sets *ret_options to a new object with the fields of "options". Each field is named by its path,
 * such as "options.seed". Refuses the first field that is not one of Ollama's options. -EINVAL. */
int ollama_open_options(json_t *body, json_t **ret_options, struct problem *problem);
/* Writes @sec and @nsec (Unix time) as a quoted text of RFC 3339, in UTC. -ENOMEM. */
int ollama_put_time(struct str *out, int64_t sec, long nsec);
/* Writes the present time. */
int ollama_put_now(struct str *out);
/* Writes the quoted name of a model; a name without a tag gets the tag "latest". */
int ollama_put_name(struct str *out, const char *name);
