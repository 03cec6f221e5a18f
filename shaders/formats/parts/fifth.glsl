// SPDX-License-Identifier: Apache-2.0

// Adds fifth bits to 4-bit numbers, which are bytes of words.

// Returns bits 4i … 4i + 3 of @high, each as the fifth bit of a byte.
uint high_bits(uint high, uint i)
{
    return (high >> 4 * i & 15) * 0x00204081 << 4 & 0x10101010;
}

void add_high_bits(inout chunk c, uint high)
{
    [[unroll]] for (uint i = 0; i < 8; i++)
        c.words[i] |= high_bits(high, i);
}

// Returns the high bits of 16 numbers, beginning at bit @k & 16 of the word at byte @at.
uvec4 read_high_bits(bool second, uint at, uint k)
{
    const uint[WORDS_MAX] words = read_words(second, at, 1, false);
    const uint high = words[0] >> (k & 16);

    return uvec4(high_bits(high, 0), high_bits(high, 1), high_bits(high, 2), high_bits(high, 3));
}

// Returns bit i of the 32 high bits at @at, shifted to its place in a 5-bit number.
uint weight_high(uint at, uint i)
{
    return (weight_u8(at + i / 8) >> (i & 7) & 1) << 4;
}
