/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * API keys that lie in a file of their own: "KEY [NAME]" per line, "#" starts a comment
 *
 * systemd hands the system's file in as a credential; a user's own lies beside sconce.yaml.
 */

#include <infer/types.h>

#include "core/macros.h"

struct access_key {
    char *key;
    char *name; /* "" when it has none */
};

/* Zeroed memory is an empty list. */
struct key_list {
    struct access_key *keys; /* [n] */
    size_t n;
};

/* Appends the keys of a text; @name is for messages, which tell the line and never the key. */
int key_list_parse(struct key_list *list, const char *name, const char *text, size_t len,
                   struct inf_err *reterr);
/*
 * Appends the keys of $CREDENTIALS_DIRECTORY/api-keys where systemd put that, else of the user's
 * api-keys, or for a user without a home of /etc/sconce/api-keys. No file: no keys. A file that
 * cannot be read is an error.
 */
int key_list_load(struct key_list *list, struct inf_err *reterr);
void key_list_done(struct key_list *list);
