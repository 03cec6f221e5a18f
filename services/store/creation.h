/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the model that a request to POST /api/create asks for: from files that a client has
 * uploaded, or from another model, with other settings.
 *
 * The settings become keys of the new model's manifest. It gets hard links to the files that it
 * is made from, so a model that is made from another model takes no space.
 */

#include <jansson.h>

#include <infer/types.h>

struct config;
struct models_entry;
struct problem;
struct pull_plan;
struct store_creation;
struct verified;

/* Checks the body of a request. On success the creation owns @body. -EINVAL: *problem has the
 * error, and the caller still owns @body. */
int creation_new(json_t *body, struct store_creation **ret, struct problem *problem);
struct store_creation *creation_free(struct store_creation *c);
/* The name of the new model. */
const char *creation_name(const struct store_creation *c);
/* Returns whether the client wants a stream of JSON objects. */
bool creation_streams(const struct store_creation *c);
/* Writes settings into the plan: those of the request, and those of the other model @e that the
 * request does not change. @template is the template of @e, as the new manifest names it. @e and
 * @template may be NULL. The plan also gets the licence of the request, which it borrows.
 * -ENOMEM. */
int creation_plan(const struct store_creation *c, const struct models_entry *e,
                  const char *template, struct pull_plan *plan);
/* Makes the model in the store @dir; called on a thread. Files that @verified knows are not read
 * again. -ENOENT: a file or the other model is missing; -EINVAL: the files are not a model, or a
 * file of the other model is damaged; -EEXIST: something else has the name. */
int creation_run(const struct store_creation *c, const struct config *config, const char *dir,
                 struct verified *verified, struct inf_err *reterr);
/* Returns whether .incoming has a directory of a creation, running or not. */
bool creation_has_left(const char *dir);
/* Removes what creations of killed processes have left. The caller has the lock of the store. */
void creation_tidy(const char *dir);
