/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds matrices in the affine formats of MLX, which are three tensors each: codes (X.weight, in
 * words of 32 bits), scales (X.scales) and offsets (X.biases). The shapes of the tensors tell the
 * bits of a code and the columns of a group.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"

bool bind_is_mlx(const struct format_tensor *t)
{
    return t->dtype == INF_DTYPE_INVALID && strcmp(t->type_name, "U32") == 0;
}

/* Finds the tensor @name with the ending @end instead of ".weight", and marks it as bound. */
static int mlx_plane(struct binder *b, const char *name, const char *end, uint32_t rows,
                     const struct format_tensor **ret)
{
    const size_t n = strlen(name), n_end = strlen(".weight");
    const struct format_tensor *t;
    char plane[128];
    size_t i;

    if (n < n_end || strcmp(name + n - n_end, ".weight") != 0 || n >= sizeof(plane))
        return err_set(b->err, EBADMSG, "tensor %.64s has codes but is not a weight", name);
    snprintf(plane, sizeof(plane), "%.*s%s", (int)(n - n_end), name, end);
    if (!format_find_index(b->m->f, plane, &i))
        return err_set(b->err, EBADMSG, "the tensor %s is missing", plane);
    t = format_tensor_at(b->m->f, i);
    if (t->dtype != INF_DTYPE_F16)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s; only F16 is supported",
                       t->file_name, t->type_name);
    if (t->n_dims != 2 || t->dims[1] != rows || t->dims[0] == 0)
        return err_set(b->err, EBADMSG, "tensor %.64s does not have %u rows", t->file_name, rows);
    b->bound[i] = true;
    *ret = t;
    return 0;
}

int bind_mlx(struct binder *b, const struct format_tensor *t, uint32_t rows, uint32_t cols,
             struct weight *ret)
{
    const struct format_tensor *scales, *offsets;
    uint32_t bits;
    int r;

    if (t->n_dims != 2 || t->dims[1] != rows || cols % 32 != 0)
        return err_set(b->err, EBADMSG, "tensor %.64s is not a matrix of %u rows of %u codes",
                       t->file_name, rows, cols);
    bits = t->dims[0] == cols / 16 ? 2 : 4;
    if (t->dims[0] != cols / 32 * bits)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s: only codes of 2 and 4 bits are supported",
                       t->file_name);
    r = mlx_plane(b, t->name, ".scales", rows, &scales);
    if (r == 0)
        r = mlx_plane(b, t->name, ".biases", rows, &offsets);
    if (r < 0)
        return r;
    if (offsets->dims[0] != scales->dims[0] || cols % scales->dims[0] != 0 ||
        cols / scales->dims[0] % 32 != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s: %llu groups in rows of %u columns are not supported",
                       scales->file_name, (unsigned long long)scales->dims[0], cols);
    *ret =
        (struct weight){.data = t->data,
                        .dtype = bits == 2 ? INF_DTYPE_MLX2 : INF_DTYPE_MLX4,
                        .rows = rows,
                        .cols = cols,
                        .planes = {[WEIGHT_SCALES] = scales->data, [WEIGHT_ZEROS] = offsets->data},
                        .plane_type = PLANE_F16,
                        .group = (uint32_t)(cols / scales->dims[0]),
                        .name = t->name};
    return 0;
}
