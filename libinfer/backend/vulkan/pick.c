/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds kernels by name, and selects the kernels that are neither products nor attention.
 */
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/kernels.h"
#include "backend/vulkan/push.h"
#include "quant/dtype.h"

const struct vkb_kernel *vkb_kernel_find(const struct vkb_caps *caps, const char *name)
{
    char texel[72];
    const struct vkb_kernel *plain = NULL;

    snprintf(texel, sizeof(texel), "%s texel", name);
    for (size_t i = 0; i < vkb_n_kernels(); i++) {
        const struct vkb_kernel *k = vkb_kernel_at(i);

        if (caps->texel && strcmp(k->name, texel) == 0)
            return k;
        if (strcmp(k->name, name) == 0)
            plain = k;
    }
    return plain;
}

/* Sets a one-dimensional workgroup. It is one subgroup on devices that read weights as texels
 * (vkb_caps.texel), because barriers are expensive on these devices. On others it is a few
 * subgroups. */
static void set_size(const struct vkb_caps *caps, struct vkb_choice *c)
{
    c->spec[0] = caps->texel ? caps->subgroup_size : MIN(128u, caps->max_invocations);
    c->spec[1] = 1;
    c->n_spec = 2;
    c->columns = c->spec[0];
    c->rows = 1;
}

bool vkb_pick_embed(const struct vkb_caps *caps, enum inf_dtype dtype,
                    struct vkb_choice *ret_choice)
{
    char name[64];

    snprintf(name, sizeof(name), "elem/embed %s", dtype_info(dtype)->name);
    *ret_choice = (struct vkb_choice){.kernel = vkb_kernel_find(caps, name)};
    set_size(caps, ret_choice);
    return ret_choice->kernel != NULL;
}

bool vkb_pick_plain(const struct vkb_caps *caps, const char *name, struct vkb_choice *ret_choice)
{
    *ret_choice = (struct vkb_choice){.kernel = vkb_kernel_find(caps, name)};
    set_size(caps, ret_choice);
    return ret_choice->kernel != NULL;
}

uint32_t vkb_store_format(enum codec codec)
{
    static const uint32_t formats[CODEC_N] = {[CODEC_F32] = STORE_F32,
                                              [CODEC_F16] = STORE_F16,
                                              [CODEC_BF16] = STORE_BF16,
                                              [CODEC_Q8_0] = STORE_Q8_0};
    const struct codec_info *info = codec_info(codec);
    const bool top = codec == CODEC_Q4_0 || codec == CODEC_Q5_0 || codec == CODEC_Q6_0;

    if (info->kind != CODEC_CODES)
        return formats[codec];
    return STORE_CODES | info->n_bits << STORE_BITS_AT | vkb_store_turn(codec) << STORE_TURN_AT |
           (top                           ? STORE_SCALE_TOP
            : info->turn == CODEC_ROTATED ? STORE_SCALE_FIT
                                          : STORE_SCALE_ROOT)
               << STORE_SCALE_AT |
           (info->scale_elements == UINT32_MAX ? 0 : info->scale_elements) << STORE_GROUP_AT;
}

uint32_t vkb_store_turn(enum codec codec)
{
    static const uint32_t turns[] = {[CODEC_PLAIN] = STORE_PLAIN,
                                     [CODEC_ROTATED] = STORE_ROTATED,
                                     [CODEC_SIGNED] = STORE_SIGNED};

    return turns[codec_info(codec)->turn];
}

bool vkb_store_can(enum codec codec)
{
    const struct codec_info *info = codec_info(codec);

    return (info->kind == CODEC_CODES && !info->offset && !info->residual) || codec <= CODEC_Q8_0;
}
