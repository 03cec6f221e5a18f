/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the things of one manager lie: the system's, or those of the user who asks
 *
 * A root other than "" stands for an image or a test tree: every path starts with it.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;

struct places {
    bool user;
    char *root;       /* "" or a directory without a slash at its end */
    char *unit_dir;   /* of drop-ins and of enabled units */
    char *config_dir; /* of sconce.yaml, sconce.d and api-keys */
    char *key_file;
    char *socket_dir; /* of gateway.sock, without the root; NULL: no runtime directory */
};

/* @root NULL is "". Fails with a sentence when a user has no home, or when memory ends. */
int places_init(bool user, const char *root, struct places *ret_places, struct inf_err *reterr);
void places_done(struct places *p);

/* The configuration that this manager's services read. */
int places_config(const struct places *p, struct config **ret_config, struct inf_err *reterr);

/* The path of the unit's own file, without @root, also where it is masked; the caller frees it.
 * NULL: not installed. */
char *places_find_unit(const struct places *p, const char *unit);
/* "UNIT_DIR/UNIT.d/NAME"; the caller frees it; NULL: out of memory. */
char *places_drop_in(const struct places *p, const char *unit, const char *name);
/* "--user" or "--system". */
const char *places_option(const struct places *p);
