/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes a store in a temporary directory, and blocks whose names and bytes follow from two
 * numbers. */

#include "cache/store.h"

struct kit {
    char dir[64];
    struct store_params params;
    struct store *store;
};

/* Makes the directory; the store is not open yet. */
void kit_init(struct kit *k);
/* Closes the store and removes the directory. */
void kit_done(struct kit *k);
void kit_open(struct kit *k);
void kit_close(struct kit *k);

extern const struct store_origin kit_origin;

void kit_name(uint32_t chain, uint32_t index, uint8_t ret_name[STORE_NAME_BYTES]);
/* Makes the 1 to @most bytes of a block; returns their number. */
uint64_t kit_bytes(uint32_t chain, uint32_t index, uint64_t most, uint8_t *ret_bytes);
/* Describes @n blocks of a chain from @first on, in a memfd that the caller closes. */
int kit_blocks(uint32_t chain, uint32_t first, uint32_t n, uint64_t most,
               struct store_block *ret_blocks);
/* Makes blocks like kit_blocks() and puts them into the store; returns the result of
 * store_put(). */
int kit_put(struct kit *k, const struct store_origin *origin, uint32_t chain, uint32_t first,
            uint32_t n, uint64_t most);
/* Returns how many of the first @n blocks of a chain are found. Blocks whose checksum is wrong are
 * rejected; *ret_wrong counts blocks with a valid checksum that differ from what was put. */
int kit_find(struct kit *k, uint32_t chain, uint32_t n, uint64_t most, uint32_t *ret_wrong);
/* Returns the disk space in bytes of the files in a directory below the kit's directory. */
uint64_t kit_disk(const struct kit *k, const char *name);
