/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gives a name to a model that is given by its path, because services find models by name. */

#include "core/macros.h"

/* Returns the last component of @path without the suffix of model files; the caller frees it. NULL:
 * out of memory. */
char *path_model_name(const char *path);
/* Writes the manifest @file for the model @path, an absolute path. @alias: a further name; NULL:
 * none. -errno. */
int path_model_write(const char *file, const char *path, const char *name, const char *alias);
