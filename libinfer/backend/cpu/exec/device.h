/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares how the CPU backend is created. All other calls go through backend_ops. */

#include "backend/backend.h"

/* Creates the CPU backend. Returns 0; -EINVAL if params->isa is unknown; -EOPNOTSUPP if the CPU
 * does not have this instruction set; -ENOMEM; or -EAGAIN if the threads cannot be started. */
int cpu_backend_new(const struct backend_params *params, struct backend **ret_backend,
                    struct inf_err *reterr);
