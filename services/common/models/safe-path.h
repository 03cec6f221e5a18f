/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Checks names that come from manifests, from model hubs and from the command line before they
 * become paths. */

#include "core/macros.h"

/* Returns whether @path stays below the directory to which it is appended: a relative path of at
 * most 1,023 bytes whose parts have 1 to 255 bytes and are not "." or "..". It has no control
 * characters, and is valid UTF-8. */
bool path_is_safe(const char *path);
/* Returns whether @name may be the name of a model in the store. Such a name is a safe path of one
 * or two parts. It neither begins nor ends with a blank, and no part begins with a dot. */
bool model_name_is_safe(const char *name);
/* Returns whether @text is a SHA-256 in 64 lower-case hexadecimal digits. */
bool sha256_is_text(const char *text);
