// SPDX-License-Identifier: Apache-2.0

// Decodes numbers in E2M1.

// Returns v + 16 for each of 4 codes, which are the low 4 bits of the bytes of @codes. v is the value in
// BLOCK_FP4_VALUES, -12 … 12. Bit 3 of a code is the sign, and the magnitudes of the codes 0 … 7 are 0, 1, 2, 3,
// 4, 6, 8 and 12. Therefore the two low bits of the codes 5, 6 and 7 are added to the code, and 2 more to code 7.
uint fp4_codes(uint codes)
{
    const uint large = codes >> 2 & 0x01010101;
    const uint more = codes & large * 3;
    const uint value = (codes & 0x07070707) + more + (more & more >> 1 & 0x01010101) * 2;
    const uint sign = (codes >> 3 & 0x01010101) * 15;

    // v is below 16, so that 16 - v = (v ^ 15) + 1.
    return (value ^ sign) + (0x10101010 - sign);
}
