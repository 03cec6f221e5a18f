/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and extends the file api-keys, which has one "KEY [rights=RIGHT,…] [NAME]" per line. "#"
 * starts a comment.
 *
 * People edit the file too, so existing lines are not changed.
 */

#include <infer/types.h>

#include "core/macros.h"

struct edits;
struct key_list;

enum {
    API_KEY_SIZE = 54, /* "sk-sconce-", 43 characters of base64url for 32 bytes, NUL */
};

/* Creates a key of 32 random bytes. */
int api_key_new(char ret_key[API_KEY_SIZE]);
/* Parses the file as the gateway does, and appends its keys to @list; adds none if the file does
 * not exist. -EACCES: no permission; -EINVAL: the file has a line that the gateway would refuse. */
int api_keys_load(const char *path, struct key_list *list, struct inf_err *reterr);
/* Returns whether a key has this name. */
bool api_keys_has_name(const struct key_list *list, const char *name);
/* Adds a line; @name may be NULL, @rights is a non-empty set of enum right. The file has mode 0600
 * afterwards. */
int api_keys_add(struct edits *e, const char *path, const char *key, const char *name,
                 unsigned rights, struct inf_err *reterr);
