/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds matrices in the formats of MLX (quant/affine.h), which are two or three tensors each: codes
 * (X.weight, in words of 32 bits), scales (X.scales), and in the affine formats offsets (X.biases).
 * The bits of a code and the columns of a group follow from the shapes of the tensors. If scales
 * are bytes, codes of 8 bits are MXFP8; codes of 4 bits are MXFP4 with groups of 32, and NVFP4 with
 * groups of 16. The matrices of experts are tensors with three dimensions.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

bool bind_is_mlx(const struct format_tensor *t)
{
    return t->dtype == INF_DTYPE_INVALID && strcmp(t->type_name, "U32") == 0;
}

/* Returns the affine format with codes of @bits. */
static enum inf_dtype mlx_affine(uint64_t bits)
{
    for (enum inf_dtype d = 0; d < INF_DTYPE_N; d++)
        if (dtype_affine(d) && dtype_affine(d)->bits == bits)
            return d;
    return INF_DTYPE_INVALID;
}

/* Returns whether a tensor has the rows of @w, or of all its experts. */
static bool mlx_has_rows(const struct format_tensor *t, const struct weight *w)
{
    if (w->n_experts > 0)
        return t->n_dims == 3 && t->dims[1] == w->rows && t->dims[2] == w->n_experts;
    return t->n_dims == 2 && t->dims[1] == w->rows;
}

/* Finds the tensor with the ending @end instead of ".weight". */
static int mlx_plane(const struct mlx_planes *b, const struct weight *w, const char *end,
                     const struct format_tensor **ret)
{
    const char *name = w->name;
    const size_t n = strlen(name), n_end = strlen(".weight");
    const struct format_tensor *t;
    char plane[128];

    if (n < n_end || strcmp(name + n - n_end, ".weight") != 0 || n >= sizeof(plane))
        return err_set(b->err, EBADMSG, "tensor %.64s has codes but is not a weight", name);
    snprintf(plane, sizeof(plane), "%.*s%s", (int)(n - n_end), name, end);
    t = b->find(b->data, plane);
    if (!t)
        return err_set(b->err, EBADMSG, "the tensor %s is missing", plane);
    if (!mlx_has_rows(t, w) || t->dims[0] == 0 || w->cols % t->dims[0] != 0)
        return err_set(b->err, EBADMSG, "tensor %.64s does not fit the %u rows of %u columns",
                       t->file_name, w->rows, w->cols);
    *ret = t;
    return 0;
}

/* Sets the type of the scales and, from this type and @bits, the format. */
static bool mlx_set_format(const struct format_tensor *scales, uint64_t bits, struct weight *w)
{
    w->dtype = mlx_affine(bits);
    switch (scales->dtype) {
    case INF_DTYPE_F16:
        w->plane_type = PLANE_F16;
        break;
    case INF_DTYPE_BF16:
        w->plane_type = PLANE_BF16;
        break;
    case INF_DTYPE_F32:
        w->plane_type = PLANE_F32;
        break;
    default:
        if (strcmp(scales->type_name, "U8") != 0)
            return false;
        w->plane_type = w->group == 16 ? PLANE_E4M3 : PLANE_E8M0;
        w->dtype = bits == 8                     ? INF_DTYPE_MXFP8
                   : bits == 4 && w->group == 32 ? INF_DTYPE_FP4_PLANES
                   : bits == 4                   ? INF_DTYPE_NVFP4_PLANES
                                                 : INF_DTYPE_INVALID;
    }
    return true;
}

/* Checks that the format permits the number of columns of a group. */
static bool mlx_group_fits(const struct weight *w)
{
    const struct planes_info *info = dtype_info(w->dtype)->planes;

    return w->cols % 32 == 0 && w->group % info->group == 0 &&
           (info->group_most == 0 || w->group <= info->group_most);
}

int bind_mlx_planes(const struct mlx_planes *b, const struct format_tensor *t, struct weight *w)
{
    const struct format_tensor *scales, *offsets;
    uint64_t bits;
    int r;

    if (!mlx_has_rows(t, w) || w->cols % 32 != 0)
        return err_set(b->err, EBADMSG, "tensor %.64s is not a matrix of %u rows of %u codes",
                       t->file_name, w->rows, w->cols);
    r = mlx_plane(b, w, ".scales", &scales);
    if (r < 0)
        return r;
    bits = t->dims[0] / (w->cols / 32);
    w->group = (uint32_t)(w->cols / scales->dims[0]);
    if (!mlx_set_format(scales, bits, w))
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not supported",
                       scales->file_name, scales->type_name);
    if (t->dims[0] != w->cols / 32 * bits || w->dtype == INF_DTYPE_INVALID)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s: rows of %llu words for %u columns are not supported",
                       t->file_name, (unsigned long long)t->dims[0], w->cols);
    if (!mlx_group_fits(w))
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s: groups of %u columns in rows of %u are not supported",
                       scales->file_name, w->group, w->cols);
    w->planes[WEIGHT_SCALES] = scales->data;
    w->expert_bytes = w->n_experts > 0 ? w->rows * weight_row_bytes(w) : 0;
    if (!dtype_affine(w->dtype))
        return 0;
    r = mlx_plane(b, w, ".biases", &offsets);
    if (r < 0)
        return r;
    if (offsets->dtype != scales->dtype || offsets->dims[0] != scales->dims[0])
        return err_set(b->err, EBADMSG, "tensor %.64s differs from the scales in type or shape",
                       offsets->file_name);
    w->planes[WEIGHT_ZEROS] = offsets->data;
    return 0;
}

static const struct format_tensor *mlx_take(const void *data, const char *name)
{
    const struct binder *b = data;
    size_t i;

    if (!format_find_index(b->m->f, name, &i))
        return NULL;
    b->bound[i] = true;
    return format_tensor_at(b->m->f, i);
}

int bind_mlx(struct binder *b, const struct format_tensor *t, struct weight *w)
{
    const struct mlx_planes from = {mlx_take, b, b->err};

    return bind_mlx_planes(&from, t, w);
}
