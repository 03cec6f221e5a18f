/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <infer/model.h>

#include "lib/test.h"

/* Opens a model, which must succeed. The caller drops the reference. */
static inline struct inf_model *open_model(const char *path)
{
    const struct inf_model_params params = {.path = path};
    struct inf_err err = {0};
    struct inf_model *model;

    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}
