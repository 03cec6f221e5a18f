/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of models outside of the model directories, to which links and manifests lead
 *
 * A service that may open only the model directories must learn these paths while it can still open
 * everything. Only files of models are reported (see files.h).
 */

#include "common/models/files.h"

struct config;

/* Calls @visit for each file and directory of a model outside of the model directories, and for
 * weights of voice activity detection. Refusals are remembered for later lists of models. A
 * negative result of @visit ends the walk and is returned. -ENOMEM. */
int model_links_visit(const struct config *config, model_files_fn visit, void *data);
