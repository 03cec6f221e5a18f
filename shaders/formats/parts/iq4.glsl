// SPDX-License-Identifier: Apache-2.0

// Decodes the numbers of IQ4_NL and IQ4_XS.

// Returns the values of 4 codes, which are the low 4 bits of the bytes of @codes, as signed bytes: -127, -104, -83, -65,
// -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89 and 113. Each of 4 constants has the values of 4 codes.
uint iq4_values(uint codes)
{
    const uvec4 c = uvec4(codes, codes >> 8, codes >> 16, codes >> 24);
    const uvec4 low = mix(uvec4(0xbfad9881), uvec4(0xf6eaddcf), notEqual(c & 4, uvec4(0)));
    const uvec4 high = mix(uvec4(0x26190d01), uvec4(0x71594535), notEqual(c & 4, uvec4(0)));
    const uvec4 v = mix(low, high, notEqual(c & 8, uvec4(0))) >> (c & 3) * 8 & 255;

    return v.x | v.y << 8 | v.z << 16 | v.w << 24;
}

// Returns the values of the low or the high nibbles (@l & 16) of the 16 bytes at byte @at.
uvec4 read_iq4(bool second, uint at, uint l)
{
    const uvec4 c = read_bytes(second, at, false) >> (l & 16) / 4;

    return uvec4(iq4_values(c.x), iq4_values(c.y), iq4_values(c.z), iq4_values(c.w));
}
