/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the files of one service manager: the system's, or the calling user's.
 *
 * A root other than "" is the directory of an image or a test tree: all paths begin with this
 * directory, except where a comment says otherwise.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;

struct places {
    bool user;
    char *root;       /* "" or a directory without a slash at its end */
    char *unit_dir;   /* directory of drop-ins and of links of enabled units */
    char *config_dir; /* directory of sconce.yaml, sconce.d and api-keys */
    char *key_file;
    char *socket_dir; /* directory of gateway.sock, without the root; NULL: no runtime directory */
};

/* Finds the places of a service manager; @root NULL means "". Fails with an error text if the user
 * has no home directory, or when out of memory. */
int places_init(bool user, const char *root, struct places *ret_places, struct inf_err *reterr);
void places_done(struct places *p);

/* Loads the configuration that this manager's services read. */
int places_config(const struct places *p, struct config **ret_config, struct inf_err *reterr);

/* Finds the unit's file, even if the unit is masked. The path does not contain p->root; the caller
 * frees it. NULL: not installed. */
char *places_find_unit(const struct places *p, const char *unit);
/* Returns "UNIT_DIR/UNIT.d/NAME"; the caller frees it; NULL: out of memory. */
char *places_drop_in(const struct places *p, const char *unit, const char *name);
/* Returns the option that selects this service manager: "--user" or "--system". */
const char *places_option(const struct places *p);
