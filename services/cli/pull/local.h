/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pulls models from files of this machine. */

#include "common/pull/pull.h"

/* Copies the model at the path job->source.text into the directory of the job, and fills in the
 * plan. -EINVAL: the path is not a model; -ENOENT: the model has no files; -errno. */
int pull_copy_local(struct pull_job *job, struct inf_err *reterr);
