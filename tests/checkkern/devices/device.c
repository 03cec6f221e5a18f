/* SPDX-License-Identifier: Apache-2.0 */

#include "checkkern/devices/device.h"

#include <stdio.h>
#include <string.h>

#include "backend/devices.h"
#include "core/cpu.h"
#include "quant/dtype.h"
#if HAVE_VULKAN
#include "backend/vulkan/program.h"
#include "backend/vulkan/quirks.h"
#endif

static unsigned add_name(struct device_name names[DEVICES_MOST], unsigned n,
                         const struct device_row *row, enum device_part part)
{
    static const char *const marks[] = {"", "/gpu", "/dots"};

    if (n == DEVICES_MOST)
        return n;
    names[n].part = part;
    snprintf(names[n].name, sizeof(names[n].name), "%s", row->name);
    snprintf(names[n].rung, sizeof(names[n].rung), "%s%s", row->name, marks[part]);
    return n + 1;
}

unsigned devices_names(struct device_name names[DEVICES_MOST], char *why, size_t why_size)
{
    _cleanup_free_ struct inf_device_list *list = NEW(struct inf_device_list, 1);
    unsigned n = 0;

    if (!list)
        return 0;
    devices_add_vulkan(list);
    snprintf(why, why_size, "%s", list->why);
    for (size_t i = 0; i < list->n; i++) {
        if (list->rows[i].info.unusable) {
            snprintf(why, why_size, "%s: %s", list->rows[i].name, list->rows[i].info.unusable);
            continue;
        }
        for (int part = DEVICE_ITSELF; part < DEVICE_PARTS; part++)
            if (part == DEVICE_ITSELF || list->rows[i].info.kind == INF_DEVICE_SOFTWARE)
                n = add_name(names, n, &list->rows[i], (enum device_part)part);
    }
    return n;
}

/* Sets the roundings of the CPU. Products with quantized weights also quantize the rows. */
static void cpu_rules(const struct backend *b, struct bound_rules *rules)
{
    unsigned flags = 0;

    cpu_rung_flags(b->ops->isa(b), &flags);
    for (int d = INF_DTYPE_Q8_0; d < INF_DTYPE_N; d++)
        rules->products[d] = BOUND_Q8;
    rules->products[INF_DTYPE_BITNET] = BOUND_ROW8;
    rules->products[INF_DTYPE_MXFP8] = BOUND_EXACT;
    if (flags & CPU_AVX512_BF16)
        rules->products[INF_DTYPE_BF16] = BOUND_BF16;
    if (flags & CPU_AVX512_FP16)
        rules->products[INF_DTYPE_F16] = BOUND_F16_SUMS;
    memcpy(rules->experts, rules->products, sizeof(rules->experts));
    if (rules->k == CODEC_Q8_0)
        rules->attention = BOUND_Q8;
    if (rules->k == CODEC_BF16)
        rules->attention = BOUND_BF16;
}

static bool is_cpu(const struct backend *b)
{
    return strcmp(b->device, "cpu") == 0;
}

#if HAVE_VULKAN
static const struct vkb_caps *caps_of(const struct backend *b)
{
    return &((const struct vkb_backend *)b)->info->caps;
}

/* The formats in which devices store weights of each format with planes (backend/joined.h). */
static const struct {
    enum inf_dtype dtype, stored;
} joined_as[] = {
    {INF_DTYPE_FP4_PLANES, INF_DTYPE_MXFP4}, {INF_DTYPE_BITNET, INF_DTYPE_BITNET},
    {INF_DTYPE_MLX2, INF_DTYPE_MLX2},        {INF_DTYPE_MLX2, INF_DTYPE_Q4_1},
    {INF_DTYPE_MLX3, INF_DTYPE_Q4_1},        {INF_DTYPE_MLX4, INF_DTYPE_Q4_1},
    {INF_DTYPE_MLX5, INF_DTYPE_Q5_1},        {INF_DTYPE_MXFP8, INF_DTYPE_FP8},
    {INF_DTYPE_MLX2, INF_DTYPE_MLX4},        {INF_DTYPE_MLX3, INF_DTYPE_MLX4},
    {INF_DTYPE_MLX4, INF_DTYPE_MLX4},        {INF_DTYPE_MLX5, INF_DTYPE_MLX8},
    {INF_DTYPE_MLX6, INF_DTYPE_MLX8},        {INF_DTYPE_MLX8, INF_DTYPE_MLX8},
    {INF_DTYPE_NVFP4_PLANES, INF_DTYPE_NF4},
};

/* Adds the roundings of weights in @dtype that are stored as @stored. */
static void product_rules(const struct vkb_caps *caps, enum vkb_class class, enum inf_dtype dtype,
                          enum inf_dtype stored, struct bound_rules *rules)
{
    struct vkb_product product = {.dtype = stored, .K = 1024, .N = 1024};
    struct vkb_choice choice;
    enum bound_rounding rounding = BOUND_EXACT;

    if (vkb_pick_product(caps, &product, class, &choice))
        rounding = choice.pack == VKB_PACK_Q8    ? BOUND_Q8
                   : choice.pack == VKB_PACK_F16 ? BOUND_F16_ROWS
                   : choice.pack > VKB_PACK_F16  ? BOUND_ROW8
                                                 : BOUND_EXACT;
    rules->products[dtype] = MAX(rules->products[dtype], rounding);
    product.experts = true;
    if (vkb_pick_product(caps, &product, class, &choice) && choice.pack == VKB_PACK_Q8)
        rules->experts[dtype] = BOUND_Q8;
}

void device_rules(const struct backend *b, uint32_t n_rows, struct bound_rules *rules)
{
    const enum vkb_class class = n_rows == 1              ? VKB_ONE
                                 : n_rows <= VKB_FEW_ROWS ? VKB_FEW
                                                          : VKB_MANY;

    if (is_cpu(b)) {
        cpu_rules(b, rules);
        return;
    }
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (!dtype_info((enum inf_dtype)d)->planes)
            product_rules(caps_of(b), class, (enum inf_dtype)d, (enum inf_dtype)d, rules);
    for (size_t i = 0; i < ARRAY_SIZE(joined_as); i++)
        product_rules(caps_of(b), class, joined_as[i].dtype, joined_as[i].stored, rules);
    /* Matrix units (cooperative matrices) multiply binary16 numbers with a scale for each row. */
    if (caps_of(b)->coopmat && class == VKB_MANY)
        rules->attention = BOUND_F16_ROWS;
}

bool device_same_bits(const struct backend *b)
{
    return is_cpu(b) || (caps_of(b)->kind == VKB_SOFTWARE && !vkb_pretend.plain);
}

bool device_is_slow(const struct backend *b)
{
    return is_cpu(b) || caps_of(b)->kind == VKB_SOFTWARE;
}

bool device_ends_loops(const struct backend *b)
{
    /* Kernels that read texels process a whole context in one loop. */
    return !is_cpu(b) && caps_of(b)->max_loops > 0 && caps_of(b)->texel;
}

static void pretend(enum device_part part)
{
    const bool on = part != DEVICE_ITSELF;

    vkb_pretend =
        (struct vkb_pretend){.discrete = on, .plain = on, .dots = part == DEVICE_WITH_DOTS};
}
#else
static void pretend(enum device_part part UNUSED)
{
}

void device_rules(const struct backend *b, uint32_t n_rows UNUSED, struct bound_rules *rules)
{
    cpu_rules(b, rules);
}

bool device_same_bits(const struct backend *b)
{
    return is_cpu(b);
}

bool device_is_slow(const struct backend *b)
{
    return is_cpu(b);
}

bool device_ends_loops(const struct backend *b UNUSED)
{
    return false;
}
#endif

int device_open(const struct device_name *device, unsigned n_threads, struct backend **ret_backend,
                struct inf_err *reterr)
{
    const struct backend_params params = {.device = device->name, .n_threads = n_threads};

    pretend(device->part);
    return backend_new(&params, ret_backend, reterr);
}

struct backend *device_close(struct backend *b)
{
    pretend(DEVICE_ITSELF);
    return backend_free(b);
}
