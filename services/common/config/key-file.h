/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads key files, which have one API key per line: "KEY [rights=RIGHT,…] [NAME]".
 *
 * "#" starts a comment at the beginning of a line, or in place of NAME. A key without rights= has
 * RIGHTS_UNSTATED. systemd passes the system's file as a credential; a user's file is in the
 * directory of the user's sconce.yaml.
 */

#include <infer/types.h>

#include "common/config/access-key.h"

/* Appends the keys of a text. @name is used in messages, which give the line and never the key.
 * -EINVAL: a line is wrong; -E2BIG: too many keys; -ENOMEM. */
int key_list_parse(struct key_list *list, const char *name, const char *text, size_t len,
                   struct inf_err *reterr);
/*
 * Appends the keys of $CREDENTIALS_DIRECTORY/api-keys. If that file does not exist, appends the
 * keys of api-keys in the user's configuration directory, or in /etc/sconce if there is no home
 * directory. A missing file means that there are no keys. A file that cannot be read is an error.
 */
int key_list_load(struct key_list *list, struct inf_err *reterr);
