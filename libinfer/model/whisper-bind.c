/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds Whisper's tensors by name: vectors, and tables of a block's weights.
 */
#include "model/whisper-bind.h"

#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

/* Finds a tensor. If @matrix is true, it may hold the codes of a format of MLX. */
static int find_stored(struct whisper_binder *b, const char *name, bool matrix,
                       const struct format_tensor **ret)
{
    const struct format_tensor *t = b->src->find(b->src->file, name);

    if (!t)
        return err_set(b->err, EBADMSG, "the tensor %s is missing", name);
    if (t->dtype == INF_DTYPE_INVALID && !(matrix && bind_is_mlx(t)))
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not supported",
                       name, t->type_name);
    *ret = t;
    return 0;
}

int whisper_find(struct whisper_binder *b, const char *name, const struct format_tensor **ret)
{
    return find_stored(b, name, false, ret);
}

int whisper_misshapen(struct whisper_binder *b, const char *name)
{
    return err_set(b->err, EBADMSG,
                   "tensor %.64s does not have the shape that the model's settings require", name);
}

float *whisper_floats(struct whisper_binder *b, const struct format_tensor *t, uint64_t n)
{
    float *data = arena_alloc(b->arena, n * sizeof(float));

    if (data)
        dtype_info(t->dtype)->decode(t->data, data, n);
    return data;
}

int whisper_bind_vector(struct whisper_binder *b, const char *name, uint32_t n, struct weight *ret)
{
    const struct format_tensor *t = NULL;
    uint64_t n_elems = 1;
    int r;

    r = whisper_find(b, name, &t);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n_elems *= t->dims[i];
    if (n_elems != n || (t->dims[0] != 1 && t->dims[0] != n))
        return whisper_misshapen(b, name);
    if (dtype_info(t->dtype)->block_elems > 1)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is quantized", name);
    *ret = (struct weight){.data = whisper_floats(b, t, n),
                           .dtype = INF_DTYPE_F32,
                           .rows = 1,
                           .cols = n,
                           .name = t->name};
    return ret->data ? 0 : err_set(b->err, ENOMEM, "out of memory");
}

int whisper_bind_matrix(struct whisper_binder *b, const char *name, uint32_t rows, uint32_t cols,
                        struct weight *ret)
{
    const struct format_tensor *t = NULL;
    int r;

    r = find_stored(b, name, true, &t);
    if (r < 0)
        return r;
    if (bind_is_mlx(t)) {
        const struct mlx_planes from = {b->src->find, b->src->file, b->err};

        *ret = (struct weight){.data = t->data, .rows = rows, .cols = cols, .name = t->name};
        return bind_mlx_planes(&from, t, ret);
    }
    if (t->n_dims != 2 || t->dims[0] != cols || t->dims[1] != rows)
        return whisper_misshapen(b, name);
    *ret = (struct weight){
        .data = t->data, .dtype = t->dtype, .rows = rows, .cols = cols, .name = t->name};
    return 0;
}

int whisper_bind_slots(struct whisper_binder *b, const struct whisper_names *prefix, uint32_t i,
                       const struct whisper_slot *slots, size_t n, void *block)
{
    int r = 0;

    for (size_t j = 0; r == 0 && j < n; j++) {
        struct weight *to = (struct weight *)((char *)block + slots[j].offset);
        char name[96];

        snprintf(name, sizeof(name), "%s.%u.%s", whisper_name(b, prefix), i,
                 whisper_name(b, &slots[j].names));
        r = slots[j].rows == 1 ? whisper_bind_vector(b, name, slots[j].cols, to)
                               : whisper_bind_matrix(b, name, slots[j].rows, slots[j].cols, to);
    }
    return r;
}
