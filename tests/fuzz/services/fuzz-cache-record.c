/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses any bytes as a page of a segment, from which an index is rebuilt, and as the saved state
 * of an eviction policy. The checksum of the page is corrected, so that parsing continues after it.
 * If parsed data are written again, they must have the same bytes.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "cache/rank-rules.h"
#include "cache/record.h"

/* The offsets of a page's length and checksum, and of the checked bytes. */
enum { LENGTH_AT = 12, SUM_AT = 16, CHECKED_AT = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_sum(uint8_t page[STORE_PAGE])
{
    uint32_t length;
    uint64_t sum;

    memcpy(&length, page + LENGTH_AT, sizeof(length));
    length = le32toh(length);
    if (length < CHECKED_AT || length > STORE_PAGE)
        return;
    sum = htole64(record_sum(page + CHECKED_AT, length - CHECKED_AT));
    memcpy(page + SUM_AT, &sum, sizeof(sum));
}

static void read_page(uint8_t page[STORE_PAGE])
{
    uint8_t again[STORE_PAGE];
    struct store_origin origin;
    struct record first, second, third;

    record_file_version(page);
    if (!record_decode(page, &first))
        return;
    second = first;
    record_origin(&first, &origin);
    if (record_set_origin(&second, &origin) < 0)
        abort();
    record_encode(&second, again);
    if (!record_decode(again, &third) || memcmp(&first, &third, sizeof(first)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cache_policy_use use = {.seq = 1, .name = 1};
    struct cache_policy *policy;
    uint8_t page[STORE_PAGE] = {0};

    memcpy(page, data, MIN(size, sizeof(page)));
    read_page(page);
    fix_sum(page);
    read_page(page);
    if (cache_policy_new(64, data, size, &policy) == 0) {
        cache_policy_rank(policy, &use);
        cache_policy_free(policy);
    }
    return 0;
}
