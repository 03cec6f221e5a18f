/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tiles of AMX, for files that are compiled for it. */

#include <immintrin.h>
#include <stdint.h>

#define TILE_ROWS 16u /* of a tile; each has 64 bytes */
#define TILE_K    32u /* numbers of BF16 in a row */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Eight tiles of 16 rows of 64 bytes. The thread's, until it loads others. */
static inline void tiles_configure(void)
{
    struct tile_config c = {.palette = 1};

    for (unsigned i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = TILE_ROWS;
    }
    _tile_loadconfig(&c);
}
