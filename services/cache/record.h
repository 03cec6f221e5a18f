/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes and decodes the record that stands before each block in a segment. The index can be
 * rebuilt from the records.
 *
 * A record is one page. It begins with a magic number, the version, the length, and the checksum of
 * the bytes that follow. Names, numbers and texts follow. A record is little-endian and padded with
 * zeros. The bytes of the block begin at the next page.
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
    uint64_t size, sum; /* size and checksum of the block */
    uint64_t at;        /* seconds since 1970 */
    uint32_t index;
    bool has_session;
    char texts[RECORD_TEXTS][STORE_TEXT_MAX + 1];
};

/* Returns how many bytes a block of @size bytes and its record take on disk. */
static inline uint64_t record_bytes(uint64_t size)
{
    return STORE_PAGE + ALIGN_UP(size, STORE_PAGE);
}

/* Returns the checksum of @data: XXH3-64 with seed 0. */
uint64_t record_sum(const void *data, size_t n);
/* Copies the texts of @origin to the record. -EINVAL: a text is too long. */
int record_set_origin(struct record *r, const struct store_origin *origin);
void record_origin(const struct record *r, struct store_origin *ret_origin);
void record_encode(const struct record *r, uint8_t page[STORE_PAGE]);
/* Decodes a record. False: the page is not a valid record. */
bool record_decode(const uint8_t page[STORE_PAGE], struct record *ret_record);

/* Encodes the first page of a segment, which holds the format version of its records. */
void record_encode_file(uint32_t number, uint8_t page[STORE_PAGE]);
/* Returns the format version in the first page of a segment; 0: @page is not the first page of a
 * segment. */
uint32_t record_file_version(const uint8_t page[STORE_PAGE]);

#define RECORD_FILE_VERSION 1
