/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects product kernels.
 *
 * Software devices that read texels faster than storage buffers (vkb_caps.texel) use matmul/rows
 * for everything. On other devices, the kernels for few rows read weights as fast as they can
 * (matmul/vecdot if the device multiplies four bytes at a time, else matmul/vec). The kernels for
 * many rows decode weights once for several rows (matmul/coop if subgroups multiply matrices, else
 * matmul/tile). Products by experts always use the kernels for few rows. Such a product has one row
 * for each slot, which is a pair of a row of the step and an expert that this row uses.
 */
#include <stdio.h>

#include "backend/vulkan/kernels.h"
#include "backend/vulkan/push.h"
#include "quant/dtype.h"

#define FRAGMENT 16u /* rows and columns of the matrices that subgroups multiply */

static bool find_product(const struct vkb_caps *caps, const char *family,
                         const struct vkb_product *p, struct vkb_choice *ret_choice)
{
    char name[64];

    snprintf(name, sizeof(name), "%s %s%s", family, dtype_info(p->dtype)->name,
             p->experts ? " experts" : "");
    *ret_choice = (struct vkb_choice){.kernel = vkb_kernel_find(caps, name)};
    ret_choice->spec[SPEC_PRODUCT_GLU] = p->glu;
    ret_choice->spec[SPEC_PRODUCT_ALIGNED] = p->aligned;
    return ret_choice->kernel != NULL;
}

/* Selects matmul/rows. A lane multiplies as many rows of x and of weights as possible, as long as
 * the code fits into the instruction cache. */
static bool pick_rows(const struct vkb_caps *caps, const struct vkb_product *p,
                      enum vkb_class class, struct vkb_choice *c)
{
    if (!caps->texel || !find_product(caps, "matmul/rows", p, c))
        return false;
    c->spec[0] = caps->subgroup_size;
    c->spec[SPEC_PRODUCT_TILE] = class == VKB_ONE || p->experts ? 1 : class == VKB_FEW ? 2 : 4;
    c->spec[SPEC_ROWS_COLUMNS] = (class == VKB_MANY ? 4 : 8) / (p->glu ? 2 : 1);
    c->spec[SPEC_ROWS_SHARED] = caps->subgroup_size == 8 && caps->subgroup_shuffle;
    c->n_spec = SPEC_ROWS_N;
    c->columns = c->spec[0] * c->spec[SPEC_ROWS_COLUMNS];
    c->rows = c->spec[SPEC_PRODUCT_TILE];
    return true;
}

/* Selects matmul/vecdot or matmul/vec. For a single row of x, a subgroup multiplies one row of
 * weights at a time, so that small matrices have work for many subgroups; for more rows of x, it
 * multiplies 2 rows of weights at a time. A workgroup multiplies 4 times as many rows of
 * weights. */
static bool pick_vec(const struct vkb_caps *caps, const struct vkb_product *p, enum vkb_class class,
                     struct vkb_choice *c)
{
    /* This kernel computes whole chunks only. */
    const bool whole = p->dtype != INF_DTYPE_BITNET || p->K % 64 == 0;
    const bool dots = caps->int_dot && whole && (class != VKB_MANY || p->experts) &&
                      find_product(caps, "matmul/vecdot", p, c);

    if (!caps->subgroup_arithmetic || (!dots && !find_product(caps, "matmul/vec", p, c)))
        return false;
    c->pack = dots ? VKB_PACK_Q8 : VKB_PACK_NONE;
    c->spec[0] = MIN(MAX(128u, caps->subgroup_max), caps->max_invocations);
    c->spec[SPEC_PRODUCT_TILE] = class == VKB_ONE || p->experts ? 1 : dots ? 8 : 4;
    c->spec[SPEC_VEC_COLUMNS] = p->glu || p->experts || class == VKB_ONE ? 1 : 2;
    c->spec[SPEC_VEC_GROUPS] = 4;
    c->n_spec = SPEC_VEC_N;
    c->columns = c->spec[SPEC_VEC_COLUMNS] * c->spec[SPEC_VEC_GROUPS];
    c->rows = c->spec[SPEC_PRODUCT_TILE];
    return true;
}

/* Selects matmul/tile. A workgroup multiplies 64 rows of x by 64 rows of weights, or 32 by 32 if 64
 * rows do not fit. */
static bool pick_tile(const struct vkb_caps *caps, const struct vkb_product *p,
                      struct vkb_choice *c)
{
    const uint32_t width = caps->max_invocations >= 256 && caps->shared_size >= 28u << 10 ? 64 : 32;

    if (p->K % 16 != 0 || !find_product(caps, "matmul/tile", p, c))
        return false;
    c->spec[0] = width * width / 16;
    c->spec[SPEC_PRODUCT_TILE] = c->spec[SPEC_TILE_WIDTH] = width;
    c->n_spec = SPEC_TILE_N;
    c->columns = c->rows = width;
    return true;
}

/* Rows of x and of weights per workgroup, and fragments of each per subgroup. */
struct shape {
    uint32_t tile, width, x_frags, w_frags;
};

static uint32_t n_subgroups(const struct shape *s)
{
    return s->tile / (FRAGMENT * s->x_frags) * (s->width / (FRAGMENT * s->w_frags));
}

static uint32_t shared_bytes(const struct shape *s, uint32_t depth, bool glu)
{
    return 2 * (s->tile + s->width) * (2 * depth + 16) +
           n_subgroups(s) * (glu ? 2 : 1) * FRAGMENT * FRAGMENT * (uint32_t)sizeof(float);
}

/* Picks the largest shape that fits, because large workgroups use each number that they read in
 * many products. For small matrices, only the smallest shape is tried, so that there are enough
 * workgroups. */
static bool pick_shape(const struct vkb_caps *caps, const struct vkb_product *p, uint32_t depth,
                       struct shape *ret_shape)
{
    static const struct shape shapes[] = {{128, 128, 4, 4}, {64, 128, 4, 2}, {64, 64, 2, 2}};
    const uint32_t columns = p->glu ? 2 * p->N : p->N;
    const size_t first = columns >= 4096 ? 0 : 2;

    for (size_t i = first; i < ARRAY_SIZE(shapes); i++)
        if (shared_bytes(&shapes[i], depth, p->glu) <= caps->shared_size &&
            n_subgroups(&shapes[i]) * caps->subgroup_size <= caps->max_invocations) {
            *ret_shape = shapes[i];
            return true;
        }
    return false;
}

static bool pick_coop(const struct vkb_caps *caps, const struct vkb_product *p,
                      struct vkb_choice *c)
{
    /* With this depth, every lane loads something in each step along k. */
    const uint32_t depth = MAX(caps->subgroup_size, 32u);
    const bool known_size = caps->subgroup_control || caps->subgroup_min == caps->subgroup_max;
    struct shape s;

    if (!caps->coopmat || !known_size || p->K % 16 != 0 || !pick_shape(caps, p, depth, &s) ||
        !find_product(caps, "matmul/coop", p, c))
        return false;
    c->pack = VKB_PACK_F16;
    c->spec[0] = c->spec[SPEC_COOP_LANES] = n_subgroups(&s) * caps->subgroup_size;
    c->spec[SPEC_PRODUCT_TILE] = s.tile;
    c->spec[SPEC_COOP_WIDTH] = s.width;
    c->spec[SPEC_COOP_X_FRAGS] = s.x_frags;
    c->spec[SPEC_COOP_W_FRAGS] = s.w_frags;
    c->spec[SPEC_COOP_SUBGROUPS] = n_subgroups(&s);
    c->spec[SPEC_COOP_DEPTH] = depth;
    c->n_spec = SPEC_COOP_N;
    c->columns = p->glu ? s.width / 2 : s.width;
    c->rows = s.tile;
    return true;
}

/* Selects matmul/ref, where an invocation computes one element. */
static bool pick_ref(const struct vkb_caps *caps, const struct vkb_product *p, struct vkb_choice *c)
{
    if (p->glu || !find_product(caps, "matmul/ref", p, c))
        return false;
    c->spec[0] = c->columns = MIN(128u, caps->max_invocations);
    c->rows = c->n_spec = 1;
    return true;
}

static bool pick_any(const struct vkb_caps *caps, const struct vkb_product *p, enum vkb_class class,
                     struct vkb_choice *ret_choice)
{
    if (pick_rows(caps, p, class, ret_choice))
        return true;
    if (p->experts)
        return pick_vec(caps, p, class, ret_choice) || pick_ref(caps, p, ret_choice);
    if (class == VKB_MANY && (pick_coop(caps, p, ret_choice) || pick_tile(caps, p, ret_choice)))
        return true;
    return pick_vec(caps, p, class, ret_choice) || pick_tile(caps, p, ret_choice) ||
           pick_ref(caps, p, ret_choice);
}

bool vkb_pick_product(const struct vkb_caps *caps, const struct vkb_product *p,
                      enum vkb_class class, struct vkb_choice *ret_choice)
{
    static const enum vkb_pack rounded[] = {[VKB_PACK_NONE] = VKB_PACK_ROUNDED,
                                            [VKB_PACK_Q8] = VKB_PACK_ROUNDED_Q8,
                                            [VKB_PACK_F16] = VKB_PACK_ROUNDED_F16};

    if (!pick_any(caps, p, class, ret_choice))
        return false;
    if (p->dtype == INF_DTYPE_BITNET)
        ret_choice->pack = rounded[ret_choice->pack];
    return true;
}

bool vkb_pick_pack(const struct vkb_caps *caps, enum vkb_pack pack, struct vkb_choice *ret_choice)
{
    const bool q8 = pack == VKB_PACK_Q8;

    if (pack >= VKB_PACK_ROUNDED) {
        const bool found = vkb_pick_plain(caps, "matmul/round", ret_choice);

        ret_choice->spec[SPEC_ROUND_FORM] = (uint32_t)(pack - VKB_PACK_ROUNDED);
        ret_choice->n_spec = SPEC_ROUND_FORM + 1;
        ret_choice->columns = 1u << 30; /* the whole row */
        return found;
    }
    *ret_choice = (struct vkb_choice){
        .kernel = vkb_kernel_find(caps, q8 ? "matmul/quantise" : "matmul/halve"),
        .spec = {q8 ? 32 : MIN(256u, caps->max_invocations)},
        .n_spec = 1,
        .columns = q8 ? 32 * 32 : 1u << 30, /* the whole row */
        .rows = 1,
    };
    return ret_choice->kernel != NULL;
}

uint64_t vkb_pack_size(enum vkb_pack pack, uint32_t rows, uint32_t width)
{
    const uint64_t n = rows;

    switch (pack) {
    case VKB_PACK_ROUNDED:
        return n * width * sizeof(float);
    case VKB_PACK_Q8:
    case VKB_PACK_ROUNDED_Q8:
        return n * (width + width / 32 * sizeof(float));
    case VKB_PACK_F16:
    case VKB_PACK_ROUNDED_F16:
        return n * (ALIGN_UP((uint64_t)width, 32u) * 2 + sizeof(float));
    default:
        return 0;
    }
}
