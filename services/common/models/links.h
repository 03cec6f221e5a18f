/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the files of models outside of the model directories to which links and manifests lead.
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
