/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects attention kernels.
 *
 * Devices that read texels faster than storage buffers (vkb_caps.texel), which are software
 * devices, use attention/lanes for single rows and for tiles of more rows, with the same bits. GPUs
 * use attention/row and attention/tiles, whose sums have different orders; GPUs with matrix units
 * use attention/coop instead of attention/tiles. Devices that can use none of these kernels use
 * attention/ref.
 */
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/push.h"

#define HEAD_DIM_MAX 512u

/* attention/lanes: the tokens of a part of the context; the maximum number of queries per subgroup;
 * in steps with many rows, how many of these queries may be heads of the same row; and the maximum
 * number of rounds in which the lanes process the chunks of a head. */
#define LANES_PART          512u
#define LANES_QUERIES       8u
#define LANES_HEADS_OF_MANY 4u
#define LANES_ROUNDS_MAX    16u
/* With this many workgroups the heads keep all cores busy, and the context need not be split. */
#define LANES_WORK_MIN 8u

/* attention/row: tokens of a part of the context, and registers per invocation for queries. */
#define ROW_PART       256u
#define ROW_REGISTERS  64u
#define ROW_HEADS_MAX  8u
#define ROW_TEAM       8u
#define ROW_THREADS    256u
#define ROW_SHARED_MAX 25600u

/* attention/tiles */
#define TILES_QUERIES   32u
#define TILES_HEADS_MAX 8u
#define TILES_THREADS   128u

/* attention/coop */
#define COOP_FRAGMENT     16u /* rows and columns of the matrices that subgroups multiply */
#define COOP_SUBGROUPS    4u
#define COOP_TOKENS       32u /* of a block */
#define COOP_HEADS_MAX    16u
#define COOP_HEAD_DIM_MAX 256u

/* Returns the number of the format of keys (@k) or values of a layer. */
static uint32_t format_of(const struct kv_layout *layout, struct state_place place, bool k)
{
    return vkb_store_format(kv_layout_codec(layout, place, k));
}

/* Returns the number of elements in a chunk of 16 bytes, which are levels in formats of codes. The
 * chunks of keys and values have equally many elements. */
static uint32_t chunk_elements(const struct kv_layout *layout, struct state_place place)
{
    const uint32_t format = format_of(layout, place, true);

    return format == STORE_F32 ? 4 : format == STORE_F16 || format == STORE_BF16 ? 8 : 16;
}

/* Returns the number of chunks of a head that each of @n invocations has. */
static uint32_t chunks_of_each(const struct kv_layout *layout, struct state_place place, uint32_t n)
{
    return DIV_UP(DIV_UP(layout->groups[place.i_group].head_dim, chunk_elements(layout, place)), n);
}

/* Returns the number of heads per workgroup: at most @most, and divided evenly among
 * workgroups. */
static uint32_t even_heads(uint32_t group, uint32_t most)
{
    return DIV_UP(group, DIV_UP(group, MAX(1u, most)));
}

static void set_constant(struct vkb_attention *a, uint32_t i, uint32_t value)
{
    a->choice.spec[i] = value;
    a->choice.n_spec = MAX(a->choice.n_spec, i + 1);
}

/* Returns the longest context within the device's limit of loops, if @tokens tokens take @rounds
 * rounds of loops. */
static uint32_t longest_context(const struct vkb_caps *caps, uint32_t tokens, uint32_t rounds)
{
    return caps->max_loops > 0 ? (caps->max_loops / rounds - 1) * tokens : UINT32_MAX;
}

static bool can_lanes(const struct vkb_caps *caps, const struct kv_layout *layout,
                      struct state_place place)
{
    return caps->texel && caps->subgroup_shuffle && caps->subgroup_size <= 64 &&
           chunks_of_each(layout, place, caps->subgroup_size) <= LANES_ROUNDS_MAX;
}

/* Selects attention/lanes. In steps with many rows, a subgroup computes some heads of several rows.
 * In other steps, it computes as many heads of one row as possible. */
static bool pick_lanes(const struct vkb_caps *caps, const struct kv_layout *layout,
                       struct state_place place, uint32_t group, enum vkb_class class,
                       struct vkb_attention *a)
{
    const bool many = class == VKB_MANY;

    a->heads = even_heads(group, many ? LANES_HEADS_OF_MANY : LANES_QUERIES);
    a->tile_rows = many ? LANES_QUERIES / a->heads : 1;
    a->rows_from = many ? 2 : 1;
    a->part_tokens = LANES_PART;
    /* Rounds of loops per block: one for each chunk of a key, one for each lane in the sums of
     * values, and one for the end of each loop. */
    a->max_ctx = longest_context(caps, STORE_TOKENS,
                                 chunks_of_each(layout, place, 1) + caps->subgroup_size +
                                     LANES_ROUNDS_MAX + 3);
    a->split = !many &&
               layout->groups[place.i_group].n_kv_heads * DIV_UP(group, a->heads) < LANES_WORK_MIN;
    if (!vkb_pick_plain(caps, "attention/lanes", &a->choice))
        return false;
    set_constant(a, 0, caps->subgroup_size);
    set_constant(a, SPEC_TILE_ROWS, a->tile_rows);
    set_constant(a, SPEC_LANES_HEADS, a->heads);
    set_constant(a, SPEC_LANES_HEAD_DIM, layout->groups[place.i_group].head_dim);
    set_constant(a, SPEC_LANES_FORMAT, format_of(layout, place, true));
    set_constant(a, SPEC_LANES_VALUE_FORMAT, format_of(layout, place, false));
    set_constant(a, SPEC_LANES_SPLIT, a->split);
    set_constant(a, SPEC_LANES_ROWS_FROM, a->rows_from);
    set_constant(a, SPEC_LANES_LANES, caps->subgroup_size);
    return true;
}

static bool can_row_and_tiles(const struct vkb_caps *caps, const struct kv_layout *layout,
                              struct state_place place)
{
    return !caps->texel && caps->subgroup_shuffle && caps->subgroup_arithmetic &&
           MIN(caps->subgroup_min, caps->subgroup_size) >= ROW_TEAM &&
           caps->shared_size >= ROW_SHARED_MAX && caps->max_invocations >= ROW_THREADS &&
           layout->groups[place.i_group].head_dim <= HEAD_DIM_MAX;
}

static bool pick_row(const struct vkb_caps *caps, const struct kv_layout *layout,
                     struct state_place place, uint32_t group, struct vkb_attention *a)
{
    const uint32_t registers =
        chunks_of_each(layout, place, ROW_TEAM) * chunk_elements(layout, place);

    a->heads = even_heads(group, MIN(ROW_HEADS_MAX, ROW_REGISTERS / registers));
    a->part_tokens = ROW_PART;
    a->split = a->finishes = true;
    if (!vkb_pick_plain(caps, "attention/row", &a->choice))
        return false;
    set_constant(a, 0, ROW_THREADS);
    set_constant(a, SPEC_ROW_HEADS, a->heads);
    set_constant(a, SPEC_ROW_HEAD_DIM, layout->groups[place.i_group].head_dim);
    set_constant(a, SPEC_ROW_FORMAT, format_of(layout, place, true));
    set_constant(a, SPEC_ROW_VALUE_FORMAT, format_of(layout, place, false));
    set_constant(a, SPEC_ROW_PART, ROW_PART);
    set_constant(a, SPEC_ROW_THREADS, ROW_THREADS);
    return true;
}

/* Selects a kernel for tiles of up to @queries queries, of at most @heads_max heads. */
static bool pick_tiled(const struct vkb_caps *caps, const struct kv_layout *layout,
                       struct state_place place, uint32_t group, const char *name, uint32_t queries,
                       uint32_t heads_max, struct vkb_attention *a)
{
    a->heads = even_heads(group, heads_max);
    a->tile_rows = queries / a->heads;
    a->rows_from = 2;
    a->part_tokens = ROW_PART;
    if (!vkb_pick_plain(caps, name, &a->choice))
        return false;
    set_constant(a, SPEC_TILE_ROWS, a->tile_rows);
    set_constant(a, SPEC_TILES_HEADS, a->heads);
    set_constant(a, SPEC_TILES_HEAD_DIM, layout->groups[place.i_group].head_dim);
    set_constant(a, SPEC_TILES_FORMAT, format_of(layout, place, true));
    set_constant(a, SPEC_TILES_VALUE_FORMAT, format_of(layout, place, false));
    set_constant(a, SPEC_TILES_ROWS_FROM, a->rows_from);
    return true;
}

static bool pick_tiles(const struct vkb_caps *caps, const struct kv_layout *layout,
                       struct state_place place, uint32_t group, struct vkb_attention *a)
{
    if (!pick_tiled(caps, layout, place, group, "attention/tiles", TILES_QUERIES, TILES_HEADS_MAX,
                    a))
        return false;
    set_constant(a, 0, TILES_THREADS);
    return true;
}

/* Returns the shared memory of attention/coop in bytes. */
static uint32_t coop_shared(uint32_t head_dim)
{
    return COOP_TOKENS * (ALIGN_UP(head_dim, COOP_FRAGMENT) + 8) * 2 +
           COOP_SUBGROUPS * (COOP_FRAGMENT * (COOP_TOKENS + 8) + 1) * (uint32_t)sizeof(float);
}

/* Selects attention/coop. Heads with more than COOP_HEAD_DIM_MAX dimensions do not fit into
 * registers. */
static bool pick_coop(const struct vkb_caps *caps, const struct kv_layout *layout,
                      struct state_place place, uint32_t group, struct vkb_attention *a)
{
    const uint32_t head_dim = layout->groups[place.i_group].head_dim, lanes = caps->subgroup_size;
    const bool known_size = caps->subgroup_control || caps->subgroup_min == caps->subgroup_max;

    if (!caps->coopmat || !known_size || (lanes != 16 && lanes != 32 && lanes != 64) ||
        COOP_SUBGROUPS * lanes > caps->max_invocations || head_dim > COOP_HEAD_DIM_MAX ||
        coop_shared(head_dim) > caps->shared_size ||
        !pick_tiled(caps, layout, place, group, "attention/coop", COOP_SUBGROUPS * COOP_FRAGMENT,
                    COOP_HEADS_MAX, a))
        return false;
    set_constant(a, 0, COOP_SUBGROUPS * lanes);
    set_constant(a, SPEC_FLASH_LANES, lanes);
    set_constant(a, SPEC_FLASH_SUBGROUPS, COOP_SUBGROUPS);
    set_constant(a, SPEC_FLASH_TOKENS, COOP_TOKENS);
    return true;
}

static bool pick_ref(const struct vkb_caps *caps, const struct kv_layout *layout,
                     struct state_place place, struct vkb_attention *a)
{
    a->part_tokens = LANES_PART;
    a->max_ctx = longest_context(caps, 1, 3 * layout->groups[place.i_group].head_dim + 5);
    if (!vkb_pick_plain(caps, "attention/ref", &a->choice))
        return false;
    set_constant(a, 0, 1);
    set_constant(a, SPEC_REF_FORMAT, format_of(layout, place, true));
    set_constant(a, SPEC_REF_VALUE_FORMAT, format_of(layout, place, false));
    return true;
}

bool vkb_pick_attention(const struct vkb_caps *caps, const struct kv_layout *layout,
                        struct state_place place, uint32_t n_heads, enum vkb_class class,
                        struct vkb_attention *ret_choice)
{
    const uint32_t group = n_heads / layout->groups[place.i_group].n_kv_heads;

    *ret_choice =
        (struct vkb_attention){.tile_rows = 1, .rows_from = 1, .heads = 1, .max_ctx = UINT32_MAX};
    if (can_lanes(caps, layout, place))
        return pick_lanes(caps, layout, place, group, class, ret_choice);
    if (!can_row_and_tiles(caps, layout, place))
        return pick_ref(caps, layout, place, ret_choice);
    if (class != VKB_MANY)
        return pick_row(caps, layout, place, group, ret_choice);
    return pick_coop(caps, layout, place, group, ret_choice) ||
           pick_tiles(caps, layout, place, group, ret_choice);
}
