/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Defines the shape of AMX tiles and configures them, for files that are compiled with AMX. */

#include <immintrin.h>
#include <stdint.h>

#define TILE_ROWS 16u /* per tile; each row has 64 bytes */
#define TILE_K    32u /* BF16 numbers per row */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Configures eight tiles of 64 bytes a row for this thread; tile i has @rows[i] rows. */
static inline void tiles_configure_rows(const uint8_t rows[8])
{
    struct tile_config c = {.palette = 1};

    for (unsigned i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = rows[i];
    }
    /* gcc declares that the intrinsic reads 8 bytes, so it may omit writing the others. */
    __asm__ volatile("" : : "m"(c));
    _tile_loadconfig(&c);
}

/* Configures eight tiles of 16 rows of 64 bytes for this thread. */
static inline void tiles_configure(void)
{
    static const uint8_t rows[8] = {TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS,
                                    TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS};

    tiles_configure_rows(rows);
}
