/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * API keys that lie in a file of their own: "KEY [rights=RIGHT,…] [NAME]" per line
 *
 * "#" starts a comment. A key without rights= has RIGHTS_UNSTATED. systemd hands the system's file
 * in as a credential; a user's own lies beside sconce.yaml.
 */

#include <infer/types.h>

#include "common/config/access-key.h"

/* Appends the keys of a text; @name is for messages, which tell the line and never the key.
 * -EINVAL: a line is wrong; -E2BIG: too many keys; -ENOMEM. */
int key_list_parse(struct key_list *list, const char *name, const char *text, size_t len,
                   struct inf_err *reterr);
/*
 * Appends the keys of $CREDENTIALS_DIRECTORY/api-keys where systemd put that, else of the user's
 * api-keys, or for a user without a home of /etc/sconce/api-keys. No file: no keys. A file that
 * cannot be read is an error.
 */
int key_list_load(struct key_list *list, struct inf_err *reterr);
