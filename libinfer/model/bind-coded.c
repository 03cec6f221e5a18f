/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds coded matrices (quant/coded.h): the tensors of GPTQ, AWQ, compressed-tensors and FP8
 * checkpoints. The bits of a code and the columns of a group follow from the shapes and types of
 * the tensors. The values in config.json are used only where shapes are ambiguous.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/coded.h"
#include "quant/dtype.h"

#define CODED_BLOCK 128u /* rows and columns that share a scale in FP8 checkpoints */

const struct format_tensor *bind_coded_find(struct binder *b, const char *name, const char *end)
{
    const size_t n = strlen(name) - strlen(".weight");
    char full[160];
    size_t i;

    if (snprintf(full, sizeof(full), "%.*s%s", (int)n, name, end) >= (int)sizeof(full) ||
        !format_find_index(b->m->f, full, &i))
        return NULL;
    b->bound[i] = true;
    return format_tensor_at(b->m->f, i);
}

/* Finds a tensor that must be there. */
static int coded_need(struct binder *b, const char *name, const char *end,
                      const struct format_tensor **ret)
{
    const size_t n = strlen(name) - strlen(".weight");

    *ret = bind_coded_find(b, name, end);
    return *ret ? 0
                : err_set(b->err, EBADMSG, "the tensor %.*s%s is missing", (int)MIN(n, 80u), name,
                          end);
}

/* Checks that a tensor has the type @type and @rows rows of @cols elements. */
static int coded_check(struct binder *b, const struct format_tensor *t, const char *type,
                       uint64_t rows, uint64_t cols)
{
    if (strcmp(t->type_name, type) != 0)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s is stored as %s; only %s is supported",
                       t->file_name, t->type_name, type);
    if (t->n_dims == 2 && t->dims[0] == cols && t->dims[1] == rows)
        return 0;
    return err_set(b->err, EBADMSG, "tensor %.96s is %llu x %llu, expected %llu x %llu",
                   t->file_name, (unsigned long long)t->dims[1], (unsigned long long)t->dims[0],
                   (unsigned long long)rows, (unsigned long long)cols);
}

/* Returns the number of columns of a group if a row has @n_groups groups; 0: it is unknown. */
static uint32_t coded_group(const struct binder *b, uint32_t cols, uint64_t n_groups)
{
    const uint32_t group = b->m->hp->coded_group;

    if (group > 0 && DIV_UP(cols, group) == n_groups)
        return group;
    if (n_groups == 0 || n_groups > cols)
        return 0;
    if (cols % n_groups == 0)
        return (uint32_t)(cols / n_groups);
    return DIV_UP(cols, CODED_BLOCK) == n_groups ? CODED_BLOCK : 0;
}

/* Sets the number of columns of a group. The scales of the matrix are the tensor @t, and each row
 * has @n_groups scales. */
static int coded_set_group(struct binder *b, const struct format_tensor *t, uint64_t n_groups,
                           struct coded *c)
{
    const struct coded_kind kind = coded_kind(c->dtype);
    /* The difference of an 8-bit code and its zero may not fit the bytes that kernels multiply.
     * Kernels therefore add the zeros separately, for 32 columns at a time. */
    const uint32_t step = kind.has_zero && kind.bits == 8 ? 32 : 16;

    c->group = coded_group(b, c->cols, n_groups);
    if (c->group == 0)
        return err_set(b->err, EBADMSG,
                       "tensor %.96s has %llu scales in a row, which do not fit %u columns",
                       t->file_name, (unsigned long long)n_groups, c->cols);
    if (c->group % step != 0 && c->group != c->cols)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s: groups of %u columns are not supported, only multiples of %u",
                       t->file_name, c->group, step);
    return 0;
}

static int coded_set_scales(struct binder *b, const struct format_tensor *t, struct coded *c)
{
    if (t->dtype != INF_DTYPE_F32 && t->dtype != INF_DTYPE_F16 && t->dtype != INF_DTYPE_BF16)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s is stored as %s, which is not supported",
                       t->file_name, t->type_name);
    c->scales = t->data;
    c->scale_type = t->dtype;
    return 0;
}

/* ---- order of columns ---- */

/* Returns an order of the columns in which the columns of each group are neighbors. Returns NULL if
 * not all groups have the same number of columns, or on shortage of memory. */
static uint32_t *coded_sort(struct binder *b, const uint8_t *groups, const struct coded *c)
{
    const uint32_t n_groups = coded_groups(c);
    uint32_t *order = arena_alloc(&b->m->arena, c->cols * sizeof(*order));
    _cleanup_free_ uint32_t *next = NEW(uint32_t, n_groups);

    if (!order || !next)
        return NULL;
    for (uint32_t g = 0; g < n_groups; g++)
        next[g] = g * c->group;
    for (uint32_t k = 0; k < c->cols; k++) {
        uint32_t g;

        memcpy(&g, groups + 4 * (size_t)k, sizeof(g));
        if (g >= n_groups || next[g] == MIN((g + 1) * c->group, c->cols))
            return NULL;
        order[next[g]++] = k;
    }
    return order;
}

static bool coded_in_order(const uint32_t *order, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++)
        if (order[j] != j)
            return false;
    return true;
}

/* Reads the groups of the columns, the tensor @t. Matrices with the same input have the same order,
 * and share one array of it. */
static int coded_set_order(struct binder *b, const struct format_tensor *t, struct coded *c)
{
    uint32_t *order;

    if (strcmp(t->type_name, "I32") != 0 || t->n_dims != 1 || t->dims[0] != c->cols)
        return err_set(b->err, EBADMSG, "tensor %.96s is not a list of %u groups (I32)",
                       t->file_name, c->cols);
    order = coded_sort(b, t->data, c);
    if (!order)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s does not give each of the %u groups %u columns", t->file_name,
                       coded_groups(c), c->group);
    if (coded_in_order(order, c->cols))
        return 0;
    if (!b->order || b->n_order != c->cols ||
        memcmp(b->order, order, c->cols * sizeof(*order)) != 0) {
        b->order = order;
        b->n_order = c->cols;
    }
    c->order = b->order;
    return 0;
}

/* ---- formats ---- */

/* Sets the number of bits of a code of a GPTQ matrix. The codes are the tensor @t, which has
 * @n_words words for each row of the matrix. */
static int coded_gptq_bits(struct binder *b, const struct format_tensor *t, struct coded *c)
{
    static const struct {
        unsigned bits;
        enum inf_dtype dtype;
    } kinds[] = {
        {2, INF_DTYPE_GPTQ2},
        {3, INF_DTYPE_GPTQ3},
        {4, INF_DTYPE_GPTQ4},
        {8, INF_DTYPE_GPTQ8},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds) && t->n_dims == 2 && c->cols % 32 == 0; i++)
        if (t->dims[1] == (uint64_t)c->cols / 32 * kinds[i].bits && c->rows % 32 == 0) {
            c->dtype = kinds[i].dtype;
            return coded_check(b, t, "I32", t->dims[1], c->rows);
        }
    return err_set(b->err, EBADMSG,
                   "tensor %.96s is %llu x %llu, which does not fit %u x %u weights of 2, 3, 4 or "
                   "8 bits",
                   t->file_name, (unsigned long long)t->dims[1], (unsigned long long)t->dims[0],
                   c->cols, c->rows);
}

/* Binds what GPTQ and AWQ have in common: the scales, and @width words of zeros for each group. */
static int coded_by_place(struct binder *b, const char *name, uint32_t width, struct coded *c)
{
    const struct format_tensor *scales = NULL, *zeros = NULL;
    int r = coded_need(b, name, ".scales", &scales);

    if (r == 0)
        r = coded_need(b, name, ".qzeros", &zeros);
    if (r == 0)
        r = coded_check(b, scales, scales->type_name, scales->dims[1], c->rows);
    if (r == 0)
        r = coded_set_scales(b, scales, c);
    if (r == 0)
        r = coded_set_group(b, scales, scales->dims[1], c);
    if (r == 0)
        r = coded_check(b, zeros, "I32", scales->dims[1], width);
    if (r == 0)
        c->zeros = zeros->data;
    return r;
}

static int coded_gptq(struct binder *b, const char *name, const struct format_tensor *t,
                      struct coded *c)
{
    const struct format_tensor *groups = bind_coded_find(b, name, ".g_idx");
    int r = coded_gptq_bits(b, t, c);

    c->codes = t->data;
    c->zero_add = b->m->hp->coded == CODED_GPTQ;
    if (r == 0)
        r = coded_by_place(b, name, c->rows / 32 * coded_kind(c->dtype).bits, c);
    return r == 0 && groups ? coded_set_order(b, groups, c) : r;
}

static int coded_awq(struct binder *b, const char *name, const struct format_tensor *t,
                     struct coded *c)
{
    int r;

    if (c->rows % 8 != 0)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s has %u columns, not a multiple of 8",
                       t->file_name, c->rows);
    c->dtype = INF_DTYPE_AWQ4;
    c->codes = t->data;
    r = coded_check(b, t, "I32", c->cols, c->rows / 8);
    return r == 0 ? coded_by_place(b, name, c->rows / 8, c) : r;
}

/* Reads scales of the shape [1] or [rows, groups], or with one element for each block of rows and
 * columns. */
static int coded_by_row(struct binder *b, const struct format_tensor *t, struct coded *c)
{
    const uint64_t n = t->n_dims > 1 ? t->dims[1] : t->dims[0];
    const uint64_t n_groups = t->n_dims > 1 ? t->dims[0] : 1;

    if (t->n_dims > 2 || (n != 1 && n != c->rows && n != DIV_UP(c->rows, CODED_BLOCK)))
        return err_set(b->err, EBADMSG,
                       "tensor %.96s is %llu x %llu, which does not fit a matrix of %u rows",
                       t->file_name, (unsigned long long)n, (unsigned long long)n_groups, c->rows);
    c->group_rows = n == 1 ? c->rows : n == c->rows ? 1 : CODED_BLOCK;
    return coded_set_group(b, t, n_groups, c);
}

/* Finds the scales of a matrix. Also marks the tensors for rounding activations, which are not
 * used, as bound. */
static int coded_row_scales(struct binder *b, const char *name, struct coded *c)
{
    const struct format_tensor *scales = bind_coded_find(b, name, ".weight_scale_inv");
    int r = scales ? 0 : coded_need(b, name, ".weight_scale", &scales);

    bind_coded_find(b, name, ".input_scale");
    bind_coded_find(b, name, ".input_zero_point");
    bind_coded_find(b, name, ".input_global_scale");
    if (r == 0)
        r = coded_by_row(b, scales, c);
    if (r == 0 && c->dtype != INF_DTYPE_CTFP4)
        return coded_set_scales(b, scales, c);
    if (r == 0 && strcmp(scales->type_name, "F8_E4M3") != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s is stored as %s; only F8_E4M3 is supported", scales->file_name,
                       scales->type_name);
    if (r == 0)
        c->scales = scales->data;
    return r;
}

static int coded_fp8(struct binder *b, const char *name, const struct format_tensor *t,
                     struct coded *c)
{
    const int r = coded_check(b, t, "F8_E4M3", c->rows, c->cols);

    c->dtype = INF_DTYPE_FP8;
    c->codes = t->data;
    if (r == 0 && c->cols % 16 != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s has rows of %u columns, not a multiple of 16", t->file_name,
                       c->cols);
    return r == 0 ? coded_row_scales(b, name, c) : r;
}

/* Binds signed bytes. */
static int coded_int8(struct binder *b, const char *name, const struct format_tensor *t,
                      struct coded *c)
{
    const struct format_tensor *zeros = bind_coded_find(b, name, ".weight_zero_point");
    int r = coded_check(b, t, "I8", c->rows, c->cols);

    c->dtype = INF_DTYPE_INT8;
    c->codes = t->data;
    if (r == 0)
        r = coded_row_scales(b, name, c);
    if (r < 0 || !zeros)
        return r;
    c->zeros = zeros->data;
    return c->group_rows == 1
               ? coded_check(b, zeros, "I8", c->rows, coded_groups(c))
               : err_set(b->err, EOPNOTSUPP, "tensor %.96s: one zero for all rows is not supported",
                         zeros->file_name);
}

/* Reads the number X.weight_global_scale. */
static int coded_factor(struct binder *b, const char *name, struct coded *c)
{
    const struct format_tensor *t = NULL;
    const int r = coded_need(b, name, ".weight_global_scale", &t);

    if (r < 0)
        return r;
    if (t->dtype != INF_DTYPE_F32 || t->size != sizeof(float))
        return err_set(b->err, EBADMSG, "tensor %.96s is not one number (F32)", t->file_name);
    memcpy(&c->factor, t->data, sizeof(c->factor));
    return 0;
}

static int coded_nvfp4(struct binder *b, const char *name, const struct format_tensor *t,
                       struct coded *c)
{
    int r = coded_check(b, t, "U8", c->rows, c->cols / 2);

    c->dtype = INF_DTYPE_CTFP4;
    c->codes = t->data;
    if (r == 0 && c->cols % 16 != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s has rows of %u columns, not a multiple "
                       "of 16",
                       t->file_name, c->cols);
    if (r == 0)
        r = coded_row_scales(b, name, c);
    return r == 0 ? coded_factor(b, name, c) : r;
}

/* Reads the zeros of compressed-tensors, which are a stream of bits down a column of words. */
static int coded_packed_zeros(struct binder *b, const struct format_tensor *t, struct coded *c)
{
    const uint64_t n_words = DIV_UP((uint64_t)c->rows * coded_kind(c->dtype).bits, 32u);

    if (c->group_rows != 1)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s: one zero for all rows is not supported",
                       t->file_name);
    c->zeros = t->data;
    return coded_check(b, t, "I32", n_words, coded_groups(c));
}

/* Checks the shape that compressed-tensors stores as a tensor. */
static int coded_check_shape(struct binder *b, const char *name, const struct coded *c)
{
    const struct format_tensor *t = bind_coded_find(b, name, ".weight_shape");
    int64_t shape[2];

    if (!t)
        return 0;
    if (strcmp(t->type_name, "I64") == 0 && t->size == sizeof(shape)) {
        memcpy(shape, t->data, sizeof(shape));
        if (shape[0] == (int64_t)c->rows && shape[1] == (int64_t)c->cols)
            return 0;
    }
    return err_set(b->err, EBADMSG, "tensor %.96s does not say %u x %u", t->file_name, c->rows,
                   c->cols);
}

/* Binds integers of 4 or 8 bits, packed into words. */
static int coded_packed(struct binder *b, const char *name, const struct format_tensor *t,
                        struct coded *c)
{
    const struct format_tensor *zeros = bind_coded_find(b, name, ".weight_zero_point");
    const struct format_tensor *groups = bind_coded_find(b, name, ".weight_g_idx");
    const bool is_4 = t->dims[0] == c->cols / 8;
    int r;

    if (c->cols % 8 != 0 || (!is_4 && t->dims[0] != c->cols / 4))
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s: %llu words for %u columns are not supported, only codes of 4 "
                       "and 8 bits",
                       t->file_name, (unsigned long long)t->dims[0], c->cols);
    c->dtype = is_4 ? INF_DTYPE_CT4 : INF_DTYPE_CT8;
    c->codes = t->data;
    r = coded_check(b, t, "I32", c->rows, t->dims[0]);
    if (r == 0)
        r = coded_check_shape(b, name, c);
    if (r == 0)
        r = coded_row_scales(b, name, c);
    if (r == 0 && zeros)
        r = coded_packed_zeros(b, zeros, c);
    return r == 0 && groups ? coded_set_order(b, groups, c) : r;
}

static int coded_tensors(struct binder *b, const char *name, const struct format_tensor *t,
                         struct coded *c)
{
    const struct format_tensor *packed = bind_coded_find(b, name, ".weight_packed");

    if (packed && strcmp(packed->type_name, "U8") == 0)
        return coded_nvfp4(b, name, packed, c);
    if (packed)
        return coded_packed(b, name, packed, c);
    if (t && strcmp(t->type_name, "I8") == 0)
        return coded_int8(b, name, t, c);
    return t && t->dtype == INF_DTYPE_INVALID ? coded_fp8(b, name, t, c) : 1;
}

int bind_coded(struct binder *b, const char *name, const struct format_tensor *t, uint32_t rows,
               uint32_t cols, struct coded *ret_coded)
{
    const size_t n = strlen(name), n_end = strlen(".weight");
    struct coded *c = ret_coded;

    if (n < n_end || strcmp(name + n - n_end, ".weight") != 0)
        return 1;
    *c = (struct coded){
        .rows = rows, .cols = cols, .group_rows = 1, .scale_type = INF_DTYPE_F32, .factor = 1};
    switch (b->m->hp->coded) {
    case CODED_GPTQ:
    case CODED_GPTQ_V2:
        t = bind_coded_find(b, name, ".qweight");
        return t ? coded_gptq(b, name, t, c) : 1;
    case CODED_AWQ:
    case CODED_PARO:
        t = bind_coded_find(b, name, ".qweight");
        return t ? coded_awq(b, name, t, c) : 1;
    case CODED_TENSORS:
        return coded_tensors(b, name, t, c);
    case CODED_FP8:
        return t && t->dtype == INF_DTYPE_INVALID ? coded_fp8(b, name, t, c) : 1;
    case CODED_4BIT:
        return t && t->dtype == INF_DTYPE_INVALID ? bind_coded_4bit(b, name, t, c) : 1;
    default:
        return 1;
    }
}
