/* SPDX-License-Identifier: Apache-2.0 */

/* Describes keys and values that are stored as Q8_0 or as codes, and looks up the levels of codes.
 * Include this file after attn-simd.h. */

/* Describes codes of a block that have one number of bits. */
struct q8_codes {
    const uint8_t *bytes;
    const uint16_t *scales;  /* [groups][block_tokens] */
    const uint16_t *offsets; /* the same, of formats with offsets */
    struct attn_ahead *ahead;
    const int8_t *levels; /* NULL: codes are int8 */
    uint32_t n_shared;    /* blocks of 32 elements that share a scale */
    uint32_t i_query;     /* floats before the queries for these codes */
    bool adds;            /* scores are added to those in memory */
};

/* Returns the bytes that the scales and offsets of a block follow. */
ALWAYS_INLINE size_t q8_size(const struct attn_args *args)
{
    return (size_t)args->head_dim * codec_info(args->codec)->n_bits / 8 * args->block_tokens;
}

/* Returns the state of prefetching for a block. */
static struct attn_ahead q8_ahead_of(const struct attn_args *args)
{
    const uint32_t n_scalars = codec_scalars(args->codec, args->head_dim);

    return ahead_of(args->ahead, q8_size(args) + (size_t)n_scalars * 2 * args->block_tokens);
}

/* Describes the codes of a block without the bits of the residual. */
static struct q8_codes q8_codes_of(const struct attn_args *args, struct attn_ahead *ahead)
{
    const struct codec_info *info = codec_info(args->codec);
    const uint32_t group = MIN(info->scale_elements, args->head_dim);
    const uint8_t *bytes = args->kv;
    const size_t size = q8_size(args);

    return (struct q8_codes){
        .bytes = bytes,
        .scales = (const uint16_t *)(bytes + size),
        .offsets =
            (const uint16_t *)(bytes + size) + (size_t)args->head_dim / group * args->block_tokens,
        .ahead = ahead,
        .levels = info->levels,
        .n_shared = group / ATTN_Q8_BLOCK,
    };
}

/* Describes the bits of the residual of keys. @codes: of the same block. */
static struct q8_codes q8_residual_of(const struct attn_args *args, const struct q8_codes *codes)
{
    static const int8_t levels[16] = {-1, 1};
    const size_t size = (size_t)args->head_dim * code_bits(args->codec) / 8 * args->block_tokens;
    struct q8_codes r = *codes;

    r.bytes += size;
    r.scales += args->block_tokens;
    r.levels = levels;
    r.i_query = args->head_dim / 2;
    r.adds = true;
    return r;
}

/* Makes a table of the levels with the numbers @index, each plus @add. */
ALWAYS_INLINE vi q8_table(const int8_t *levels, const int8_t *index, int add)
{
    int8_t sums[16];

    for (int i = 0; i < 16; i++)
        sums[i] = (int8_t)(levels[i] + add);
    return vi_lookup(vi_table(sums), vi_table(index));
}

/* Makes tables in which halves of bytes look up the level of the first, second … code in them.
 * Each level plus @add. */
ALWAYS_INLINE void q8_plane_tables(vi table[4], const int8_t *levels, int add, const uint32_t bits)
{
    static const int8_t index[9][4][16] = {
        [1] = {{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1},
               {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1},
               {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1},
               {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}},
        [2] = {{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3},
               {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}},
        [3] = {{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}},
        [4] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
    };

    if (bits < 8)
        table[0] = q8_table(levels, index[bits][0], add);
    if (bits <= 2)
        table[1] = q8_table(levels, index[bits][1], add);
    if (bits == 1) {
        table[2] = q8_table(levels, index[bits][2], add);
        table[3] = q8_table(levels, index[bits][3], add);
    }
}

/* Makes the tables of a format: table[0 … 3] of its only plane, or of the plane with the lowest 4
 * bits of its codes, and then table[4 …] of the plane with the other bits. Levels in two planes
 * have equal distances, so that a level is the sum of two numbers. @add is added to each level. */
ALWAYS_INLINE void q8_tables(vi table[8], const int8_t *levels, int add, const uint32_t bits)
{
    int8_t low[16], high[16] = {0};

    if (bits == 8)
        return;
    if (bits < 5) {
        q8_plane_tables(table, levels, add, bits);
        return;
    }
    for (uint32_t i = 0; i < 16; i++)
        low[i] = (int8_t)(levels[i] - levels[0]);
    for (uint32_t i = 0; i < 1u << (bits - 4); i++)
        high[i] = levels[16 * i];
    q8_plane_tables(table, low, 0, 4);
    q8_plane_tables(table + 4, high, add, bits - 4);
}

/* Returns the codes of the elements @c … of a run of 3 bits (quant/code.h), whose byte i is in the
 * vector at @p + i × @step. The caller must ignore the fourth bit of the codes of elements before
 * 96. */
ALWAYS_INLINE vi q3_codes(const void *p, size_t step, uint32_t c)
{
    static const int8_t bits[3][16] = {{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                                       {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2},
                                       {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4}};
    const uint8_t *from = p;
    vi sum = vi_set1(0);

    if (c < 48)
        return vi_low4(vi_load(from + c * step));
    if (c < 96)
        return vi_high4(vi_load(from + (c - 48) * step));
#pragma GCC unroll 3
    for (uint32_t j = 0; j < 3; j++) {
        const vi x = vi_load(from + (c % 16 + 16 * j) * step);

        sum = vi_add(sum, vi_lookup(vi_table(bits[j]), c < 112 ? vi_low4(x) : vi_high4(x)));
    }
    return sum;
}

/* Returns whether codes are packed in runs of 16 bytes, each with codes of one or two bits, or of
 * the lowest four bits. */
ALWAYS_INLINE bool q8_in_runs(const uint32_t bits)
{
    return bits != 3 && bits != 8;
}

/* Returns how many blocks share 16 bytes or, if codes have two planes, 16 bytes of the second. */
ALWAYS_INLINE uint32_t q8_sharing(const uint32_t bits)
{
    return 4 / (bits > 4 ? bits - 4 : bits);
}

/* Returns the first of the 16 bytes of a token that have the codes of block @b or, if codes have
 * two planes, their lowest 4 bits. */
ALWAYS_INLINE uint32_t q8_run(uint32_t b, const uint32_t bits)
{
    const uint32_t n = q8_sharing(bits);

    return bits > 4 ? (b / n * (n + 1) + b % n) * 16 : b / n * 16;
}

/* Returns how many bytes after its lowest 4 bits block @b has its bits of the second plane. */
ALWAYS_INLINE uint32_t q8_to_second(uint32_t b, const uint32_t bits)
{
    return (q8_sharing(bits) - b % q8_sharing(bits)) * 16;
}

/* Returns how many vectors block @b reads that blocks before it have not read. */
ALWAYS_INLINE uint32_t q8_first_uses(uint32_t b, const uint32_t bits)
{
    return (bits > 4) + (b % q8_sharing(bits) == 0);
}

/* Looks up the levels of those codes of block @b that are in the bytes @x of a plane: *ret_first
 * are elements of the first half of the block, and *ret_second of the second half. */
ALWAYS_INLINE void q8_plane_pair(vi *ret_first, vi *ret_second, vi x, const vi table[4], uint32_t b,
                                 const uint32_t bits)
{
    if (bits == 4) {
        *ret_first = vi_lookup(table[0], vi_low4(x));
        *ret_second = vi_lookup(table[0], vi_high4(x));
    } else if (bits == 2) {
        const vi half = b % 2 == 0 ? vi_low4(x) : vi_high4(x);

        *ret_first = vi_lookup(table[0], half);
        *ret_second = vi_lookup(table[1], half);
    } else {
        const vi half = b % 4 < 2 ? vi_low4(x) : vi_high4(x);

        *ret_first = vi_lookup(b % 2 == 0 ? table[0] : table[2], half);
        *ret_second = vi_lookup(b % 2 == 0 ? table[1] : table[3], half);
    }
}

/* Looks up the levels of codes of block @b: those in the bytes at @p, and in the bytes of the
 * second plane, which are q8_to_second() × @step bytes after them. */
ALWAYS_INLINE void q8_pair(vi *ret_first, vi *ret_second, const uint8_t *p, size_t step,
                           const vi table[8], uint32_t b, const uint32_t bits)
{
    vi first, second;

    if (bits <= 4) {
        q8_plane_pair(ret_first, ret_second, vi_load(p), table, b, bits);
        return;
    }
    q8_plane_pair(&first, &second, vi_load(p), table, b, 4);
    q8_plane_pair(ret_first, ret_second, vi_load(p + q8_to_second(b, bits) * step), table + 4, b,
                  bits - 4);
    *ret_first = vi_add(*ret_first, first);
    *ret_second = vi_add(*ret_second, second);
}
