// SPDX-License-Identifier: Apache-2.0

// For formats whose rows are whole chunks.

float single(bool second, uint at, uint k)
{
    return 0.0;
}
