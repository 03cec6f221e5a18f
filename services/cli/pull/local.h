/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pulls models that lie on this machine. */

#include "common/pull/pull.h"

/* Copies the model at the path job->source.text into the directory of the job, and fills in the
 * plan. -EINVAL: it is no model; -ENOENT: it has no files; -errno. */
int pull_copy_local(struct pull_job *job, struct inf_err *reterr);
