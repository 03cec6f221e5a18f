/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores keys and values.
 *
 * Each call stores one head of one token at its place in a block (attn.h shows the layout). Two
 * threads may store neighboring tokens at the same time. Therefore a thread writes only bytes that
 * belong to its own token.
 */
#include "backend/cpu/exec/exec.h"

#include <string.h>

#include "quant/code-rows.h"

/* Describes the place of one head of one token in the KV store. */
struct slot {
    unsigned char *block; /* the keys or values of the head in this block */
    uint32_t t, bt, hd;
};

/* Writes @n elements in groups of @unit adjacent elements. A group starts @stride × @unit elements
 * after the previous group. */
static void scatter16(uint16_t *dst, const uint16_t *src, uint32_t n, size_t stride, uint32_t unit)
{
    for (uint32_t i = 0; i < n; i += unit)
        memcpy(dst + (size_t)i * stride, src + i, unit * sizeof(*src));
}

static void store_f32(const struct slot *s, enum kv_part part, const float *head)
{
    float *to = (float *)s->block;

    if (part == KV_VALUES) {
        memcpy(to + (size_t)s->t * s->hd, head, s->hd * sizeof(float));
        return;
    }
    for (uint32_t d = 0; d < s->hd; d++)
        to[(size_t)d * s->bt + s->t] = head[d];
}

static void store_f16(const struct slot *s, enum kv_part part, const float *head, uint16_t *half,
                      const struct elem_fns *elem)
{
    uint16_t *to = (uint16_t *)s->block;

    if (part == KV_VALUES) {
        elem->f16_store(to + (size_t)s->t * s->hd, head, s->hd);
        return;
    }
    elem->f16_store(half, head, s->hd);
    scatter16(to + s->t, half, s->hd, s->bt, 1);
}

static void store_bf16(const struct slot *s, enum kv_part part, const float *head, uint16_t *half,
                       const struct elem_fns *elem)
{
    uint16_t *to = (uint16_t *)s->block;

    elem->bf16_store(half, head, s->hd);
    if (part == KV_VALUES)
        scatter16(to + (size_t)s->t / 2 * s->hd * 2 + s->t % 2, half, s->hd, 2, 1);
    else
        scatter16(to + (size_t)s->t * 2, half, s->hd, s->bt, 2);
}

/* Writes the @n_bytes bytes of a token, and its @n_scales scales, which are stored after the bytes
 * of all tokens of the block. In values, byte i of a token is stored next to byte i of three other
 * tokens. In keys, four bytes of a token are stored together, next to the corresponding four bytes
 * of the next token. */
static void scatter8(const struct slot *s, enum kv_part part, const uint8_t *bytes,
                     uint32_t n_bytes, const float *scale, uint32_t n_scales,
                     const struct elem_fns *elem)
{
    uint16_t *scales = (uint16_t *)(s->block + (size_t)n_bytes * s->bt);

    for (uint32_t b = 0; b < n_scales; b++)
        elem->f16_store(scales + (size_t)b * s->bt + s->t, scale + b, 1);
    if (part == KV_VALUES) {
        unsigned char *to = s->block + (size_t)(s->t / 4) * n_bytes * 4 + s->t % 4;

        for (uint32_t i = 0; i < n_bytes; i++)
            to[(size_t)i * 4] = bytes[i];
        return;
    }
    for (uint32_t i = 0; i < n_bytes; i += 4)
        memcpy(s->block + ((size_t)i * s->bt + s->t * 4), bytes + i, 4);
}

static void store_q8(const struct slot *s, enum kv_part part, const float *head, uint8_t *bytes,
                     const struct exec *x)
{
    float *scales = (float *)(bytes + s->hd);

    x->plan->attn->quantise((int8_t *)bytes, scales, head, true, s->hd);
    for (uint32_t d = 0; part == KV_KEYS && d < s->hd; d++)
        bytes[d] ^= 128; /* adds 128; the result is unsigned */
    scatter8(s, part, bytes, s->hd, scales, s->hd / ATTN_Q8_BLOCK, x->cpu->elem);
}

static void store_codes(const struct slot *s, enum codec codec, enum kv_part part,
                        const float *head, uint8_t *bytes, const struct exec *x)
{
    const uint32_t n_bytes = codec_code_bytes(codec, s->hd);
    const uint32_t n_scalars = codec_scalars(codec, s->hd);
    float *scalars = (float *)(bytes + ALIGN_UP(n_bytes, (uint32_t)sizeof(float)));

    if (codec == CODEC_Q4_0)
        x->plan->attn->quantise_q4(bytes, scalars, head, s->hd);
    else
        attn_encode(x->plan->attn, codec, bytes, scalars, head, s->hd);
    scatter8(s, part, bytes, n_bytes, scalars, n_scalars, x->cpu->elem);
}

static void store_row(const struct slot *s, enum codec codec, const float *head)
{
    code_rows_encode(codec, s->block + (size_t)s->t * codec_code_bytes(codec, s->hd), head, s->hd);
}

static void store_fp8(const struct slot *s, enum kv_part part, const float *head, uint8_t *bytes,
                      const struct exec *x)
{
    uint16_t *scales = (uint16_t *)(s->block + (size_t)s->hd * s->bt);
    float scale;

    if (part == KV_VALUES)
        bytes = s->block + (size_t)s->t * s->hd;
    x->plan->attn->quantise_fp8(bytes, &scale, head, s->hd);
    x->cpu->elem->f16_store(scales + s->t, &scale, 1);
    for (uint32_t d = 0; part == KV_KEYS && d < s->hd; d++)
        s->block[(size_t)d * s->bt + s->t] = bytes[d];
}

/* Turns the head as @codec does, and stores it as Q8_0. */
static void store_exact(const struct slot *s, enum codec codec, enum kv_part part,
                        const float *head, uint8_t *bytes, const struct exec *x)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, head, s->hd * sizeof(*y));
    attn_turn(x->plan->attn, codec, y, s->hd);
    store_q8(s, part, y, bytes, x);
}

static struct slot slot_of(const struct exec *x, enum kv_part part, struct state_place place,
                           uint32_t i_head, uint32_t row)
{
    const struct kv_store *store = x->store;
    const uint32_t bt = store->layout.block_tokens, i_block = x->plan->row_pos[row] / bt;
    const struct batch_seq *seq = &x->batch->seqs[x->plan->row_seq[row]];

    return (struct slot){
        .block = kv_store_head(store, part, place, i_head, seq->blocks[place.i_group][i_block]),
        .t = x->plan->row_offset[row],
        .bt = bt,
        .hd = store->layout.groups[place.i_group].head_dim,
    };
}

static void store_head(const struct exec *x, enum kv_part part, struct state_place place,
                       uint32_t i_head, uint32_t row, const float *head, void *half)
{
    const struct store_layer *layer = kv_store_layer(x->store, place);
    const enum codec codec = layer->codec[part];
    const struct slot s = slot_of(x, part, place, i_head, row);

    if (layer->turned[part] != codec) {
        store_exact(&s, layer->turned[part], part, head, half, x);
        return;
    }
    switch (codec_info(codec)->kind) {
    case CODEC_BYTES:
        store_q8(&s, part, head, half, x);
        return;
    case CODEC_CODES:
        store_codes(&s, codec, part, head, half, x);
        return;
    case CODEC_ROWS:
        store_row(&s, codec, head);
        return;
    case CODEC_FLOATS:
        break;
    }
    switch (codec) {
    case CODEC_F32:
        store_f32(&s, part, head);
        break;
    case CODEC_F16:
        store_f16(&s, part, head, half, x->cpu->elem);
        break;
    case CODEC_BF16:
        store_bf16(&s, part, head, half, x->cpu->elem);
        break;
    case CODEC_FP8:
        store_fp8(&s, part, head, half, x);
        break;
    default:
        assert(false);
    }
}

void exec_store(const struct exec *x, enum kv_part part, struct state_place place, uint32_t i_head,
                uint32_t row, const float *head, void *half)
{
    const struct kv_layout *l = &x->store->layout;

    store_head(x, part, place, i_head, row, head, half);
    if (l->i_recent == 0 || l->groups[place.i_group].rule != STATE_FULL)
        return;
    place.i_group = l->i_recent;
    store_head(x, part, place, i_head, row, head, half);
    place.i_group = l->i_first;
    if (x->plan->row_pos[row] < l->block_tokens)
        store_head(x, part, place, i_head, row, head, half);
}

bool exec_keys_late(const struct exec *x, struct state_place place)
{
    const struct store_layer *layer = kv_store_layer(x->store, place);

    return x->one_row_each && x->store->layout.i_recent == 0 &&
           layer->codec[KV_KEYS] == CODEC_F16 && layer->turned[KV_KEYS] == CODEC_F16;
}

static uint16_t *late_key(const struct exec *x, uint32_t i_head, uint32_t head_dim, uint32_t row)
{
    return x->plan->late_keys + (size_t)row * x->plan->late_width + (size_t)i_head * head_dim;
}

void exec_keep_key(const struct exec *x, uint32_t i_head, uint32_t head_dim, uint32_t row,
                   const float *head)
{
    x->cpu->elem->f16_store(late_key(x, i_head, head_dim, row), head, head_dim);
}

void exec_store_late(const struct exec *x, struct state_place place, uint32_t i_head, uint32_t row)
{
    const struct slot s = slot_of(x, KV_KEYS, place, i_head, row);

    scatter16((uint16_t *)s.block + s.t, late_key(x, i_head, s.hd, row), s.hd, s.bt, 1);
}
