// SPDX-License-Identifier: Apache-2.0

// Scales the sums of chunks whose weights are w = scale × q - low.

// Returns the sum of the products of x and w. @dot_x is the sum of the products of x and q, and @plain the sum of x.
float scaled(chunk c, uint s, float dot_x, float plain)
{
    precise float a = c.scale * dot_x;
    precise float b = c.low * plain;

    return a - b;
}
