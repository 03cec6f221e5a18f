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

/* Returns whether group @i_group has copies of heads that another group stores, too. */
static bool has_copies(const struct kv_layout *layout, uint32_t i_group)
{
    return layout->i_recent > 0 && (i_group == layout->i_recent || i_group == layout->i_first);
}

/* Returns the formats that a layer has of its own; NULL: none. */
static const struct kv_mixed *mixed_of(const struct kv_layout *layout, struct state_place place)
{
    uint32_t left = place.i_layer;

    for (uint32_t i = 0; i < layout->n_mixed; i++)
        if (layout->mixed[i].i_group == place.i_group && left-- == 0)
            return layout->mixed[i].is_set ? &layout->mixed[i] : NULL;
    return NULL;
}

enum codec kv_layout_codec(const struct kv_layout *layout, struct state_place place, bool k)
{
    const struct state_group *group = &layout->groups[place.i_group];
    const struct kv_mixed *mixed = mixed_of(layout, place);
    const enum codec codec = k ? layout->k : layout->v;

    if (mixed)
        return (enum codec)(k ? mixed->k : mixed->v);
    if (group->exact)
        return CODEC_Q8_0;
    if (layout->recent && group->rule == STATE_WINDOW)
        return codec_info(codec)->turn == CODEC_SIGNED ? CODEC_TURBO4 : CODEC_Q4_0;
    return codec;
}

enum codec kv_layout_turned(const struct kv_layout *layout, struct state_place place, bool k)
{
    enum codec codec;

    if (has_copies(layout, place.i_group))
        place.i_group = layout->i_full;
    codec = kv_layout_codec(layout, place, k);
    return layout->recent && codec == CODEC_Q8_0 ? (k ? layout->k : layout->v) : codec;
}

bool kv_layout_equal(const struct kv_layout *a, const struct kv_layout *b)
{
    if (a->k != b->k || a->v != b->v || a->recent != b->recent || a->n_mixed != b->n_mixed)
        return false;
    for (uint32_t i = 0; i < a->n_mixed; i++) {
        const struct kv_mixed *x = &a->mixed[i], *y = &b->mixed[i];

        if (x->is_set != y->is_set || x->k != y->k || x->v != y->v)
            return false;
    }
    return true;
}

struct kv_layout kv_layout_part(const struct kv_layout *layout, const uint32_t *begin,
                                const uint32_t *end)
{
    struct kv_layout part = *layout;
    uint32_t n_seen[STATE_GROUPS_MAX] = {0};

    part.n_mixed = 0;
    for (uint32_t i = 0; i < layout->n_mixed; i++) {
        const uint32_t g = layout->mixed[i].i_group, i_layer = n_seen[g]++;

        if (i_layer >= begin[g] && i_layer < end[g])
            part.mixed[part.n_mixed++] = layout->mixed[i];
    }
    for (uint32_t g = 0; g < layout->n_groups; g++)
        part.groups[g].n_layers = end[g] - begin[g];
    return part;
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

static bool can_keep(enum codec k, enum codec v, bool bytes)
{
    const struct codec_info *info_k = codec_info(k), *info_v = codec_info(v);
    const bool good_k = info_k->kind == CODEC_CODES && !info_k->residual;

    return (good_k || (bytes && info_k->kind == CODEC_BYTES)) &&
           (info_v->kind == CODEC_CODES || (bytes && info_v->kind == CODEC_BYTES));
}

bool kv_layout_can_keep(const struct kv_layout *layout)
{
    for (uint32_t i = 0; i < layout->n_mixed; i++) {
        const struct kv_mixed *m = &layout->mixed[i];

        if (m->is_set && layout->groups[m->i_group].rule == STATE_FULL &&
            !can_keep((enum codec)m->k, (enum codec)m->v, true))
            return false;
    }
    return can_keep(layout->k, layout->v, false);
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
        layout->i_full = g;
    }
    if (full && layout->n_groups + 2 > STATE_GROUPS_MAX)
        return false;
    layout->recent = true;
    layout->i_recent = full ? add_copies(layout, full, KV_RECENT, false) : 0;
    layout->i_first = full ? add_copies(layout, full, 1, true) : 0;
    return true;
}

/* Adds the bytes of the keys and values of one token in a layer to *@bytes. */
static bool add_layer(const struct kv_layout *layout, struct state_place place, uint64_t *bytes)
{
    const struct state_group *g = &layout->groups[place.i_group];
    uint64_t n = codec_head_bytes(kv_layout_codec(layout, place, true), g->head_dim) +
                 codec_head_bytes(kv_layout_codec(layout, place, false), g->head_dim);

    return size_mul(n, g->n_kv_heads, &n) && size_add(*bytes, n, bytes);
}

uint64_t kv_layout_block_bytes(const struct kv_layout *layout, uint32_t i_group)
{
    const struct state_group *g = &layout->groups[i_group];
    const uint32_t n_kinds = layout->n_mixed > 0 ? g->n_layers : 1;
    uint64_t n = 0;

    /* A layout comes from a model's hyperparameters, which may be hostile. If its size overflows,
     * the result is too large for any device. */
    if (g->rule == STATE_RECURRENT)
        return size_mul(((uint64_t)g->conv_floats + g->matrix_floats) * sizeof(float), g->n_layers,
                        &n)
                   ? n
                   : UINT64_MAX;
    for (uint32_t i = 0; i < n_kinds; i++)
        if (!add_layer(layout, (struct state_place){i_group, i}, &n))
            return UINT64_MAX;
    if ((layout->n_mixed == 0 && !size_mul(n, g->n_layers, &n)) ||
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
