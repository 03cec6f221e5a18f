/* SPDX-License-Identifier: Apache-2.0 */
/* Computes sizes and positions of the blocks that a layout of keys, values and state describes. */
#include "backend/backend.h"
#include "quant/codec.h"

struct kv_layout kv_layout_full(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim,
                                uint32_t block_tokens, enum codec codec, uint32_t n_blocks)
{
    return (struct kv_layout){
        .n_groups = 1,
        .groups = {{.n_layers = n_layers, .n_kv_heads = n_kv_heads, .head_dim = head_dim}},
        .n_blocks = {n_blocks},
        .block_tokens = block_tokens,
        .k = codec,
        .v = codec,
    };
}

enum codec kv_layout_codec(const struct kv_layout *layout, uint32_t i_group, bool k)
{
    const enum codec codec = k ? layout->k : layout->v;

    if (layout->groups[i_group].exact)
        return CODEC_Q8_0;
    if (layout->recent && layout->groups[i_group].rule == STATE_WINDOW)
        return codec_info(codec)->turn == CODEC_SIGNED ? CODEC_TURBO4 : CODEC_Q4_0;
    return codec;
}

/* Adds a group for copies of tokens of the FULL group @full. Returns its number. */
static uint32_t add_copies(struct kv_layout *layout, const struct state_group *full,
                           uint32_t window, bool first_only)
{
    struct state_group *group = &layout->groups[layout->n_groups];

    *group = *full;
    group->rule = STATE_WINDOW;
    group->exact = true;
    group->window = window;
    group->first_only = first_only;
    return layout->n_groups++;
}

bool kv_layout_can_keep(const struct kv_layout *layout)
{
    const struct codec_info *k = codec_info(layout->k), *v = codec_info(layout->v);

    return k->kind == CODEC_CODES && !k->residual && v->kind == CODEC_CODES;
}

bool kv_layout_keep_recent(struct kv_layout *layout)
{
    const struct state_group *full = NULL;

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        struct state_group *group = &layout->groups[g];

        group->exact = group->rule == STATE_WINDOW && codec_info(layout->k)->n_bits >= 4;
        if (group->rule != STATE_FULL)
            continue;
        if (full)
            return false;
        full = group;
    }
    if (full && layout->n_groups + 2 > STATE_GROUPS_MAX)
        return false;
    layout->recent = true;
    layout->i_recent = full ? add_copies(layout, full, KV_RECENT, false) : 0;
    layout->i_first = full ? add_copies(layout, full, 1, true) : 0;
    return true;
}

uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t i_group)
{
    const struct state_group *g = &layout->groups[i_group];
    uint64_t n;

    /* A layout comes from a model's hyperparameters, which may be hostile. If its size overflows,
     * the result is too large for any device. */
    if (g->rule == STATE_RECURRENT)
        return size_mul(((uint64_t)g->conv_floats + g->matrix_floats) * sizeof(float), g->n_layers,
                        &n)
                   ? n
                   : UINT64_MAX;
    n = codec_head_bytes(kv_layout_codec(layout, i_group, true), g->head_dim) +
        codec_head_bytes(kv_layout_codec(layout, i_group, false), g->head_dim);
    if (!size_mul(n, g->n_layers, &n) || !size_mul(n, g->n_kv_heads, &n) ||
        !size_mul(n, layout->block_tokens, &n))
        return UINT64_MAX;
    return n;
}

uint32_t kv_layout_first(const struct kv_layout *layout, uint32_t i_group)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < i_group; i++)
        n += layout->n_blocks[i];
    return n;
}

uint32_t kv_layout_group(const struct kv_layout *layout, uint32_t block)
{
    uint32_t i = 0;

    while (i + 1 < layout->n_groups && block >= kv_layout_first(layout, i + 1))
        i++;
    return i;
}
