/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the rotations of ParoQuant (struct turn_params; the layout of its release 0.1).
 *
 * The rotation of a matrix X of K columns is three tensors. X.theta, [rounds, K / 2], has the angle
 * of each pair. X.pairs, [rounds, K], has 16-bit numbers of columns, counted within a group:
 * numbers 2i and 2i + 1 are the columns of a pair. X.channel_scales, [1, K], has factors of
 * columns. The matrices gate and up of all experts share one rotation, and the matrices down of all
 * experts share another.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

/* The number of columns of a group if config.json does not give it (ParoQuantConfig). */
#define TURN_GROUP 128u

/* Checks that a tensor is [rows, cols], in which a dimension of 1 may be left out. */
static int turn_check(struct binder *b, const struct format_tensor *t, uint64_t rows, uint64_t cols)
{
    const uint64_t n_rows = t->n_dims > 1 ? t->dims[1] : 1;

    return t->n_dims <= 2 && t->dims[0] == cols && n_rows == rows
               ? 0
               : err_set(b->err, EBADMSG, "tensor %.96s is %llu x %llu, expected %llu x %llu",
                         t->file_name, (unsigned long long)n_rows, (unsigned long long)t->dims[0],
                         (unsigned long long)rows, (unsigned long long)cols);
}

/* Decodes a tensor of floats. */
static int turn_floats(struct binder *b, const struct format_tensor *t, uint64_t n, float **ret)
{
    float *x;

    if (t->dtype != INF_DTYPE_F32 && t->dtype != INF_DTYPE_F16 && t->dtype != INF_DTYPE_BF16)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s is stored as %s, which is not supported",
                       t->file_name, t->type_name);
    x = arena_alloc(&b->m->arena, n * sizeof(*x));
    if (!x)
        return err_set(b->err, ENOMEM, "out of memory");
    dtype_info(t->dtype)->decode(t->data, x, n);
    *ret = x;
    return 0;
}

/* Reads the pairs of all rounds, in which each column of a group is in one pair. */
static int turn_pairs(struct binder *b, const struct format_tensor *t, struct turn_params *p)
{
    const size_t n = (size_t)p->n_rounds * p->width;
    uint8_t *pairs = arena_alloc(&b->m->arena, n);

    if (!pairs)
        return err_set(b->err, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        static_assert(TURN_GROUP_MAX <= UINT8_MAX + 1, "a column of a group fits a byte");
        bool seen[TURN_GROUP_MAX];
        uint16_t k;

        if (i % p->group == 0)
            memset(seen, 0, sizeof(seen));
        memcpy(&k, (const uint8_t *)t->data + 2 * i, sizeof(k));
        if (k >= p->group || seen[k])
            return err_set(b->err, EBADMSG,
                           "tensor %.96s: column %u is in no pair, or in two pairs, of a group of "
                           "%u",
                           t->file_name, k, p->group);
        seen[k] = true;
        pairs[i] = (uint8_t)k;
    }
    p->pairs = pairs;
    return 0;
}

/* Reads the angles of all pairs. */
static int turn_angles(struct binder *b, const struct format_tensor *t, struct turn_params *p)
{
    const uint64_t n = (uint64_t)p->n_rounds * p->width / 2;
    float *angles = NULL, *turns;
    int r;

    r = turn_floats(b, t, n, &angles);
    if (r < 0)
        return r;
    turns = arena_alloc(&b->m->arena, 2 * n * sizeof(*turns));
    if (!turns)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        turns[2 * i] = cosf(angles[i]);
        turns[2 * i + 1] = sinf(angles[i]);
    }
    p->turns = turns;
    return 0;
}

/* Reads the rotation of a matrix with the tensors @theta, @pairs and @scales, of which any may be
 * NULL. */
static int turn_read(struct binder *b, const char *name, const struct format_tensor *theta,
                     const struct format_tensor *pairs, const struct format_tensor *scales,
                     struct turn_params *p)
{
    const uint32_t group = b->m->hp->coded_group > 0 ? b->m->hp->coded_group : TURN_GROUP;
    float *factors = NULL;
    int r = 0;

    if (!theta || !pairs || !scales)
        return err_set(b->err, EBADMSG, "%.96s has only some of theta, pairs and channel_scales",
                       name);
    p->group = group;
    p->n_rounds = (uint32_t)MIN(theta->n_dims > 1 ? theta->dims[1] : 1, TURN_ROUNDS_MAX + 1);
    if (p->n_rounds == 0 || p->n_rounds > TURN_ROUNDS_MAX)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s does not have 1 to %u rounds of rotations",
                       theta->file_name, TURN_ROUNDS_MAX);
    if (group > TURN_GROUP_MAX || group % 2 != 0 || p->width % group != 0)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.96s: groups of %u in %u columns are not supported, only even "
                       "divisors up to %u",
                       theta->file_name, group, p->width, TURN_GROUP_MAX);
    if (strcmp(pairs->type_name, "I16") != 0)
        return err_set(b->err, EOPNOTSUPP, "tensor %.96s is stored as %s; only I16 is supported",
                       pairs->file_name, pairs->type_name);
    r = turn_check(b, theta, p->n_rounds, p->width / 2);
    if (r == 0)
        r = turn_check(b, pairs, p->n_rounds, p->width);
    if (r == 0)
        r = turn_check(b, scales, 1, p->width);
    if (r == 0)
        r = turn_pairs(b, pairs, p);
    if (r == 0)
        r = turn_angles(b, theta, p);
    if (r == 0)
        r = turn_floats(b, scales, p->width, &factors);
    p->factors = factors;
    return r;
}

int bind_turn(struct binder *b, const char *name, struct weight *w)
{
    const struct format_tensor *theta = bind_coded_find(b, name, ".theta");
    const struct format_tensor *pairs = bind_coded_find(b, name, ".pairs");
    const struct format_tensor *scales = bind_coded_find(b, name, ".channel_scales");
    struct turn_params *p;
    int r;

    if (!theta && !pairs && !scales)
        return 0;
    if (theta && theta == b->theta && b->turn->width == w->cols) {
        w->turn = b->turn;
        return 0;
    }
    p = arena_zalloc(&b->m->arena, sizeof(*p));
    if (!p)
        return err_set(b->err, ENOMEM, "out of memory");
    p->width = w->cols;
    r = turn_read(b, name, theta, pairs, scales, p);
    w->turn = b->turn = p;
    b->theta = theta;
    return r;
}
