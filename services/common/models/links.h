/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where models lie outside of the model directories: what links and manifests there lead to
 *
 * A service that may open the model directories alone must be told these places while it can still
 * look everywhere. Only models are told (files.h), down to the file.
 */

#include "common/models/files.h"

struct config;

/* Calls @visit for each file and directory of a model that lies outside, and for weights that find
 * speech. What is refused is remembered for later lists of models. A negative result of @visit ends
 * the walk and is returned. -ENOMEM. */
int model_links_visit(const struct config *config, model_files_fn visit, void *data);
