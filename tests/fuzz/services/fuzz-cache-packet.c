/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses any bytes as a packet, as both ends of cache.sock do. If a parsed packet is written again,
 * it must have the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/cache-protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cache_packet again;
static struct inf_tier_found found[CACHE_MAX_NAMES];
static struct inf_tier_block blocks[CACHE_MAX_BLOCKS];
static struct cache_row rows[CACHE_MAX_ROWS];

static void put_origin(const struct cache_origin *origin)
{
    cache_put_origin(&again, origin);
}

/* Reads the body of a request. Returns false if the packet is invalid, or if its type has no such
 * body. */
static bool read_question(struct cache_reader *r, const struct cache_head *head)
{
    const uint8_t(*names)[INF_TIER_NAME_BYTES];
    uint8_t digest[CACHE_DIGEST_SIZE];
    struct cache_hello hello;
    struct cache_origin origin;
    struct cache_filter filter;
    struct cache_step step;
    struct inf_tier_file file;
    enum cache_kind kind;
    uint32_t count;

    switch (head->type) {
    case CACHE_HELLO:
        if (cache_read_hello(r, &hello) < 0)
            return false;
        cache_put_hello(&again, &hello);
        return true;
    case CACHE_FIND:
    case CACHE_GUESS:
    case CACHE_USED:
        if (cache_read_origin(r, &origin) < 0 || cache_read_names(r, head->n, &names) < 0)
            return false;
        put_origin(&origin);
        cache_put_names(&again, names, head->n);
        return true;
    case CACHE_READ:
        if (cache_read_count(r, &count) < 0 || cache_read_names(r, head->n, &names) < 0)
            return false;
        cache_put_count(&again, count);
        cache_put_names(&again, names, head->n);
        return true;
    case CACHE_PUT:
        if (cache_read_origin(r, &origin) < 0 || cache_read_blocks(r, head->n, blocks) < 0)
            return false;
        put_origin(&origin);
        cache_put_blocks(&again, blocks, head->n);
        return true;
    case CACHE_REMEMBER:
        if (cache_read_file(r, &file) < 0 || cache_read_digest(r, digest) < 0)
            return false;
        cache_put_file(&again, &file);
        cache_put_digest(&again, digest);
        return true;
    case CACHE_LIST:
        if (cache_read_kind(r, &kind) < 0 || cache_read_step(r, &step) < 0)
            return false;
        cache_put_kind(&again, kind);
        cache_put_step(&again, &step);
        return true;
    case CACHE_PURGE:
        if (cache_read_filter(r, &filter) < 0 || cache_read_step(r, &step) < 0)
            return false;
        cache_put_filter(&again, &filter);
        cache_put_step(&again, &step);
        return true;
    default:
        return false;
    }
}

static bool read_answer(struct cache_reader *r, const struct cache_head *head)
{
    struct cache_step step;
    struct cache_status status;

    switch (head->type) {
    case CACHE_FIND:
    case CACHE_GUESS:
        if (cache_read_found(r, head->n, found) < 0)
            return false;
        cache_put_found(&again, found, head->n);
        return true;
    case CACHE_STATUS:
        if (cache_read_status(r, head->n, &status) < 0 || head->n != cache_n_counters)
            return false;
        cache_put_status(&again, &status);
        return true;
    case CACHE_LIST:
        if (cache_read_step(r, &step) < 0 || cache_read_rows(r, head->n, rows) < 0)
            return false;
        cache_put_step(&again, &step);
        cache_put_rows(&again, rows, head->n);
        return true;
    default:
        return false;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cache_reader r;
    struct cache_head head;

    if (size > CACHE_PACKET_MAX || cache_read_head(&r, data, size, &head) < 0)
        return 0;
    cache_begin(&again, &head);
    if (!(head.answer ? read_answer : read_question)(&r, &head) || cache_read_end(&r) < 0)
        return 0;
    if (again.len != size || memcmp(again.data, data, size) != 0)
        abort();
    return 0;
}
