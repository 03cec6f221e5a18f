// SPDX-License-Identifier: Apache-2.0

// Makes single elements and runs from read_codes(), which returns 16 weights. Formats whose weights have offsets (low)
// define HAS_LOW before they include this file.

// 16 weights w = scale × q - low, where q are signed bytes in the order of columns. low is 0 without HAS_LOW.
struct codes {
    uvec4 q;
    float scale, low;
};

// Returns the weights k … k + 15 of the row at byte @at. The format defines it.
codes read_codes(bool second, uint at, uint k);

float weight_in_block(uint at, uint l)
{
    const codes c = read_codes(false, at, l & ~15u);
    precise float product = c.scale * float(bitfieldExtract(int(c.q[l / 4 & 3]), int(8 * (l & 3)), 8));

#ifdef HAS_LOW
    product -= c.low;
#endif
    return product;
}

vec4[4] read_run(bool second, uint at, uint k)
{
    const codes c = read_codes(second, at, k);

    // 128 is added to each q and subtracted from it as a float.
    const uvec4 q = c.q ^ 0x80808080;
    vec4 run[4];

    [[unroll]] for (uint i = 0; i < 4; i++) {
        run[i] = c.scale * (bytes_of(q[i]) - 128.0);
#ifdef HAS_LOW
        run[i] -= c.low;
#endif
    }
    return run;
}

// Operations of several formats on the bytes of words:

// Returns q - n for bytes q, which are at most 127. @n: at most 128.
uvec4 bytes_less(uvec4 q, uint n)
{
    return (q + (0x80808080 - n * 0x01010101)) ^ 0x80808080;
}

// Returns bits 0 … 3 of @bits, each as the lowest bit of a byte.
uint spread_bits(uint bits)
{
    return (bits & 15) * 0x00204081 & 0x01010101;
}

// Reads a word at an even byte offset.
uint read_word(bool second, uint at)
{
    return read_words(second, at, 1, false)[0];
}
