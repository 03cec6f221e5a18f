// SPDX-License-Identifier: Apache-2.0

// Defines single() for formats whose rows are whole chunks. It is never called for these formats.

float single(bool second, uint at, uint k)
{
    return 0.0;
}
