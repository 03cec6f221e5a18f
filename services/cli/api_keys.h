/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file api-keys: one "KEY [NAME]" per line, "#" starts a comment
 *
 * People edit it too, so lines that are there stay as they are.
 */

#include <infer/types.h>

#include "core/macros.h"

struct edits;

enum {
    API_KEY_SIZE = 54, /* "sk-sconce-", 43 characters of base64url for 32 bytes, NUL */
};

/* A new key of 32 random bytes. */
int api_key_new(char ret_key[API_KEY_SIZE]);
/* The first key of a text of the file; the caller frees it; NULL: there is none. */
char *api_keys_first(const char *text);
size_t api_keys_count(const char *text);
/* Whether a key has this name. */
bool api_keys_has_name(const char *text, const char *name);
/* The text of the file; "" where it does not exist; -EACCES… with a sentence. */
int api_keys_read(const char *path, char **ret_text, struct inf_err *reterr);
/* Adds a line; @name may be NULL. The file is 0600 afterwards. */
int api_keys_add(struct edits *e, const char *path, const char *key, const char *name,
                 struct inf_err *reterr);
