/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes a model of files that a client has uploaded, or of another model with other settings, as
 * POST /api/create asks for.
 *
 * The settings become keys of the new model's manifest. The files of models are hard links, so a
 * model of another one takes no space.
 */

#include <jansson.h>

#include <infer/types.h>

struct config;
struct problem;
struct store_creation;

/* Checks the body of a request. On success the creation owns @body. -EINVAL: *problem has the
 * error, and the caller still owns @body. */
int creation_new(json_t *body, struct store_creation **ret, struct problem *problem);
struct store_creation *creation_free(struct store_creation *c);
/* The name of the new model. */
const char *creation_name(const struct store_creation *c);
/* Returns whether the client wants a stream of JSON objects. */
bool creation_streams(const struct store_creation *c);
/* Makes the model in the store @dir; called on a thread. -ENOENT: a file or the other model is
 * missing; -EINVAL: the files are no model; -EEXIST: another model has the name. */
int creation_run(const struct store_creation *c, const struct config *config, const char *dir,
                 struct inf_err *reterr);
