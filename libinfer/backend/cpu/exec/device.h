/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Constructor of the CPU backend. All other calls go through backend_ops. */

#include "backend/backend.h"

/* -EINVAL: unknown instruction set; -EOPNOTSUPP: the CPU lacks it; -ENOMEM, -EAGAIN. */
int cpu_backend_new(const struct backend_params *params, struct backend **ret_backend,
                    struct inf_err *reterr);
