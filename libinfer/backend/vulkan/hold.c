/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds a device open, and fills the cache with the compiled kernels that models usually need.
 *
 * All users of Vulkan in the process share one instance. While one of them holds this instance,
 * drivers stay loaded, so opening a device loads nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/vulkan-backend.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/quirks.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

struct vkb_held {
    struct vkb_instance *in;
    struct vkb_device *dev;
};

/* Usual dimensions of models. Kernels are selected by these dimensions and by the formats of
 * weights. */
static const uint32_t widths[] = {64, 1024, 2048, 4096};
static const uint32_t head_dims[] = {64, 128}, groups[] = {1, 2, 4, 8};

#define KV_HEADS 8

/* Formats that few models have. Their kernels are compiled when a model needs them, because
 * compiling those of all formats would nearly double the time of the first start. */
static const bool is_rare[INF_DTYPE_N] = {
    [INF_DTYPE_IQ1_S] = true,  [INF_DTYPE_IQ1_M] = true,  [INF_DTYPE_IQ2_XXS] = true,
    [INF_DTYPE_IQ2_XS] = true, [INF_DTYPE_IQ2_S] = true,  [INF_DTYPE_IQ3_XXS] = true,
    [INF_DTYPE_IQ3_S] = true,  [INF_DTYPE_IQ4_NL] = true, [INF_DTYPE_NVFP4] = true,
    [INF_DTYPE_Q1_0] = true,   [INF_DTYPE_Q2_0] = true,   [INF_DTYPE_MLX4] = true,
    [INF_DTYPE_MLX8] = true,   [INF_DTYPE_FP8] = true,    [INF_DTYPE_NF4] = true,
};

static int add_choice(struct vkb_device *dev, bool picked, const struct vkb_choice *choice)
{
    struct inf_err err;

    return picked ? vkb_pipeline_add(dev, choice, &err) : 0;
}

static int add_products(struct vkb_device *dev, enum inf_dtype dtype)
{
    const struct vkb_caps *caps = &dev->info->caps;
    const enum vkb_class n = VKB_CLASS_N;
    struct vkb_choice choice;
    int r;

    r = add_choice(dev, vkb_pick_embed(caps, dtype, &choice), &choice);
    /* All combinations of gated or plain products, aligned or unaligned weights, and classes. */
    for (unsigned i = 0; r == 0 && i < ARRAY_SIZE(widths) * 4 * n; i++) {
        const unsigned way = i / n % 4;
        const struct vkb_product p = {.dtype = dtype,
                                      .K = widths[i / n / 4],
                                      .N = widths[i / n / 4],
                                      .glu = way & 1,
                                      .aligned = way & 2};
        const bool picked = vkb_pick_product(caps, &p, (enum vkb_class)(i % n), &choice);

        r = add_choice(dev, picked, &choice);
    }
    return r;
}

static int add_attention(struct vkb_device *dev, uint32_t head_dim, uint32_t group)
{
    const struct kv_layout layout = kv_layout_full(1, KV_HEADS, head_dim, 64, CODEC_F16, 0);
    struct vkb_attention a;
    int r = 0;

    for (unsigned c = 0; r == 0 && c < VKB_CLASS_N; c++) {
        const bool picked =
            vkb_pick_attention(&dev->info->caps, &layout, (struct state_place){0, 0},
                               KV_HEADS * group, (enum vkb_class)c, &a);

        r = add_choice(dev, picked, &a.choice);
    }
    return r;
}

/* Adds a kernel with the default values of its constants. Some kernels, such as elem/norm and
 * elem/heads, have constants that depend on the graph: a plan that sets them gets a pipeline of its
 * own. */
static int add_plain(struct vkb_device *dev, const char *name)
{
    struct vkb_choice choice;

    /* Skips products and attention, and variants for a format, whose names contain a blank.
     * add_products() and add_attention() compile the usual ones. attention/merge is
     * compiled when a model needs it, because one of its constants is the size of a head. */
    if (strchr(name, ' ') || text_starts_with(name, "matmul/") ||
        text_starts_with(name, "attention/"))
        return 0;
    return add_choice(dev, vkb_pick_plain(&dev->info->caps, name, &choice), &choice);
}

/* Compiles what was added, and stores it, so that a process that ends early loses little. */
static int compile_added(struct vkb_device *dev, int r)
{
    struct inf_err err;

    if (r == 0)
        r = vkb_pipelines_compile(dev, &err);
    vkb_pipelines_save(dev);
    return r;
}

/* Compiles the kernels that models usually need. A failure is ignored: it occurs again, and is
 * reported, when a model needs the kernel. */
static void compile_all(struct vkb_device *dev)
{
    struct vkb_choice choice;
    int r = 0;

    for (unsigned pack = VKB_PACK_NONE + 1; r == 0 && pack < VKB_PACK_N; pack++)
        r = add_choice(dev, vkb_pick_pack(&dev->info->caps, (enum vkb_pack)pack, &choice), &choice);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(head_dims) * ARRAY_SIZE(groups); i++)
        r = add_attention(dev, head_dims[i % ARRAY_SIZE(head_dims)],
                          groups[i / ARRAY_SIZE(head_dims)]);
    for (size_t i = 0; r == 0 && i < vkb_n_kernels(); i++)
        r = add_plain(dev, vkb_kernel_at(i)->name);
    r = compile_added(dev, r);
    for (unsigned d = 0; r == 0 && d < INF_DTYPE_N; d++)
        if (!is_rare[d])
            r = compile_added(dev, add_products(dev, (enum inf_dtype)d));
    vkb_pipelines_set_complete(dev);
    vkb_pipelines_save(dev);
}

/* Returns whether compiling in advance helps. It does not help on software devices, which compile
 * at the first dispatch and store nothing. */
static bool keeps_kernels(const struct vkb_device *dev)
{
    return dev->info->caps.kind != VKB_SOFTWARE || vkb_pretend.discrete;
}

bool vkb_held_lacks_kernels(const struct vkb_held *held)
{
    return held->dev && keeps_kernels(held->dev) && vkb_pipelines_are_stored(held->dev) &&
           !vkb_pipelines_are_complete(held->dev);
}

int vkb_hold(const char *name, const char *cache_dir, bool compiles, struct vkb_held **ret_held,
             struct inf_err *reterr)
{
    _cleanup_(vkb_releasep) struct vkb_held *held = NEW(struct vkb_held, 1);
    uint32_t i = 0;
    int r;

    if (!held)
        return err_set(reterr, ENOMEM, "out of memory");
    if (cache_dir)
        path_make_dirs(cache_dir, 0700);
    r = vkb_instance_new(&held->in, reterr);
    if (r < 0)
        return r;
    if (!name) {
        *ret_held = STEAL(held);
        return 0;
    }
    if (sscanf(name, "vulkan:%u", &i) != 1 || i >= held->in->n_devices)
        return err_set(reterr, EOPNOTSUPP, "device %.40s is not available", name);
    r = vkb_device_new(held->in, &held->in->devices[i], cache_dir, &held->dev, reterr);
    if (r < 0)
        return r;
    if (compiles && cache_dir && keeps_kernels(held->dev) && !vkb_pipelines_are_complete(held->dev))
        compile_all(held->dev);
    *ret_held = STEAL(held);
    return 0;
}

struct vkb_held *vkb_release(struct vkb_held *held)
{
    if (!held)
        return NULL;
    vkb_device_free(held->dev);
    vkb_instance_free(held->in);
    free(held);
    return NULL;
}
