/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds files of models that are outside of the model directories. Links and manifests in the model
 * directories lead to these files.
 *
 * A confined service may open only the model directories and these files, so it must find the files
 * before it is confined. Only files that belong to a model are reported (see files.h).
 */

#include "common/models/files.h"

struct config;

/* Calls @visit for each file and directory of a model outside of the model directories, and for
 * weights of voice activity detection. Refusals are remembered for later lists of models. A
 * negative result of @visit ends the walk, which returns this result. -ENOMEM. */
int model_links_visit(const struct config *config, model_files_fn visit, void *data);
