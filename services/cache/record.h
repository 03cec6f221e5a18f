/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What stands before each block in a segment, so that an index can be made again
 *
 * One page: magic, version, length and sum of what follows, names, numbers, texts; little-endian,
 * then zeros. The bytes of the block begin at the next page.
 */

#include <stdbool.h>

#include "cache/store.h"

enum {
    RECORD_MODEL,
    RECORD_CODEC,
    RECORD_TENANT,
    RECORD_SESSION,
    RECORD_TEXTS,
};

struct record {
    uint8_t name[STORE_NAME_BYTES], parent[STORE_NAME_BYTES];
    uint64_t size, sum; /* of the block */
    uint64_t at;        /* seconds since 1970 */
    uint32_t index;
    bool has_session;
    char texts[RECORD_TEXTS][STORE_TEXT_MAX + 1];
};

/* What a block of @size bytes takes on disk. */
static inline uint64_t record_bytes(uint64_t size)
{
    return STORE_PAGE + ALIGN_UP(size, STORE_PAGE);
}

/* XXH3-64 of seed 0. */
uint64_t record_sum(const void *data, size_t n);
/* -EINVAL: a text is too long. */
int record_set_origin(struct record *r, const struct store_origin *origin);
void record_origin(const struct record *r, struct store_origin *ret_origin);
void record_encode(const struct record *r, uint8_t page[STORE_PAGE]);
/* False: these are not the bytes of a record. */
bool record_decode(const uint8_t page[STORE_PAGE], struct record *ret_record);

/* The first page of a segment tells which format its records have. */
void record_encode_file(uint32_t number, uint8_t page[STORE_PAGE]);
/* The version in it; 0: it is not the first page of a segment. */
uint32_t record_file_version(const uint8_t page[STORE_PAGE]);

#define RECORD_FILE_VERSION 1
