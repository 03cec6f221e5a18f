// SPDX-License-Identifier: Apache-2.0

// Reads quads of weights from chunks that have a byte for each weight.

#define QUAD_UNIT BYTE_UNIT
#define DOT_UNIT 1.0

vec4 quad(chunk c, uint j)
{
    return byte_floats(c.words[j]);
}
