/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where models lie outside of the model directories: what links and manifests there lead to
 *
 * A service that may open the model directories alone must be told these places while it can still
 * look everywhere. Directories are walked as models_scan() does.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;

enum {
    MODEL_LINKS_MAX = 4096, /* places; the walk ends there */
};

/* Calls @visit with each file or directory, without links in its path. A negative result of it ends
 * the walk and is returned. -ENOMEM. */
int model_links_visit(const struct config *config, int (*visit)(void *data, const char *path),
                      void *data);
