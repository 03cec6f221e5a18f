/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks how MLX quantized a model (mlx-lm 0.32, utils.load_model): the key "quantization" of
 * config.json.
 *
 * Its members mode, bits and group_size hold for all matrices. A member whose value is an object or
 * false is named after a matrix, and holds for this matrix alone. All of this also follows from the
 * shapes of the tensors, so this file only has to find unsupported settings, before any tensor is
 * read.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/macros.h"
#include "format/hf/config.h"
#include "format/hf/reader.h"

/* The modes of mlx.core.quantize() with the bits and groups that they permit; the first of each is
 * the default. */
static const struct mlx_mode {
    const char *name;
    json_int_t bits[6], groups[3];
} modes[] = {
    {"affine", {4, 2, 3, 5, 6, 8}, {64, 32, 128}},
    {"mxfp4", {4}, {32}},
    {"mxfp8", {8}, {32}},
    {"nvfp4", {4}, {16}},
};

static const struct mlx_mode *mlx_mode(const json_t *settings)
{
    const json_t *x = json_object_get(settings, "mode");
    const char *name = x ? json_string_value(x) : modes[0].name;

    for (size_t i = 0; name && i < ARRAY_SIZE(modes); i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    return NULL;
}

/* Checks a number, which must be in the list @allowed. The list has at most @n numbers; if it has
 * fewer, 0 follows the last one. */
static int mlx_number(const struct hf_reader *r, const json_t *settings, const char *key,
                      const json_int_t *allowed, size_t n, const char *where, const char *mode)
{
    const json_t *x = json_object_get(settings, key);
    const json_int_t value = json_is_integer(x) ? json_integer_value(x) : -1;

    if (!x)
        return 0;
    for (size_t i = 0; i < n && allowed[i] > 0; i++)
        if (value == allowed[i])
            return 0;
    return err_set(r->err, EOPNOTSUPP,
                   "config.json: quantization of %.96s: %s %lld of mode %s is not supported", where,
                   key, (long long)value, mode);
}

static int mlx_settings(const struct hf_reader *r, const json_t *settings, const char *where)
{
    const struct mlx_mode *mode = mlx_mode(settings);
    const char *word = json_string_value(json_object_get(settings, "mode"));
    int rc;

    if (!mode)
        return err_set(r->err, EOPNOTSUPP,
                       "config.json: quantization of %.96s: mode \"%.32s\" is not supported", where,
                       word ? word : "?");
    rc = mlx_number(r, settings, "bits", mode->bits, ARRAY_SIZE(mode->bits), where, mode->name);
    if (rc == 0)
        rc = mlx_number(r, settings, "group_size", mode->groups, ARRAY_SIZE(mode->groups), where,
                        mode->name);
    return rc;
}

int hf_check_mlx(const struct hf_reader *r, json_t *quantization)
{
    const char *key;
    json_t *x;
    int rc;

    if (hf_value(r->root, "hadamard_config"))
        return err_set(r->err, EOPNOTSUPP,
                       "config.json: hadamard_config (rotated activations) is not supported");
    rc = mlx_settings(r, quantization, "all matrices");
    json_object_foreach(quantization, key, x)
    {
        if (rc == 0 && json_is_object(x))
            rc = mlx_settings(r, x, key);
    }
    return rc;
}
