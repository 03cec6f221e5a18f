/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a backend by name, and what all backends share
 *
 * "auto" is the best device that is there.
 */
#include "backend/backend.h"

#include <errno.h>
#include <string.h>

#include "backend/cpu/device.h"
#include "backend/null/null.h"
#include "core/err.h"
#include "quant/dtype.h"

static int null_open(const struct backend_params *params UNUSED, struct backend **ret_backend,
                     struct inf_err *reterr)
{
    const int r = null_new(ret_backend);

    return r < 0 ? err_set(reterr, -r, "out of memory") : 0;
}

static const struct device {
    const char *name;
    int (*open)(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr);
} devices[] = {
    {"auto", cpu_backend_new},
    {"cpu", cpu_backend_new},
    {"null", null_open},
};

int backend_new(const struct backend_params *params, struct backend **ret_backend,
                struct inf_err *reterr)
{
    const char *name = params->device ? params->device : "auto";

    for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
        if (strcmp(name, devices[i].name) == 0)
            return devices[i].open(params, ret_backend, reterr);
    return err_set(reterr, EINVAL, "unknown device %s", name);
}

struct backend *backend_free(struct backend *b)
{
    if (b)
        b->ops->free(b);
    return NULL;
}

uint64_t kv_layout_block_bytes(const struct kv_layout *layout)
{
    const struct dtype_info *info = dtype_info(layout->dtype);
    uint64_t n = 2;

    /* A layout comes from a model's hyperparameters; what overflows fits nowhere. */
    if (!size_mul(n, layout->n_layers, &n) || !size_mul(n, layout->n_kv_heads, &n) ||
        !size_mul(n, layout->head_dim, &n) || !size_mul(n, layout->block_tokens, &n) ||
        !size_mul(n / info->block_elems, info->block_bytes, &n))
        return UINT64_MAX;
    return n;
}
