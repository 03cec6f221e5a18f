/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the inputs of the keep service: as a packet, as the target of a packet, and
 * as an item. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json.h"
#include "common/wire/keep-protocol.h"
#include "keep/items.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_packet(const uint8_t *data, size_t size)
{
    static struct keep_packet packet;

    packet = (struct keep_packet){.len = size, .fd = -1};
    memcpy(&packet.head, data, MIN(size, sizeof(packet.head)));
    if (size > sizeof(packet.head))
        memcpy(packet.target, data + sizeof(packet.head), size - sizeof(packet.head));
    if (keep_packet_check(&packet) == 0 && packet.head.target_len > sizeof(packet.target))
        abort();
}

static void fuzz_target(const char *text, size_t size)
{
    const char *mark = size ? memchr(text, '?', size) : NULL;
    const struct http_text target = {text, mark ? (size_t)(mark - text) : size};
    const struct http_text query = {mark ? mark + 1 : "", mark ? size - target.len - 1 : 0};
    struct problem problem = {};
    struct path path;
    struct page page;

    if (path_read(target, 0, &path) && !path.id[0])
        abort();
    if (page_read(query, &page, &problem) < 0 && !problem.status)
        abort();
    problem = (struct problem){};
    if (query_check(query, &problem) < 0 && !problem.status)
        abort();
}

static void fuzz_item(const char *text, size_t size)
{
    _cleanup_json_ json_t *item = NULL;
    struct problem problem = {};
    struct inf_err err;

    if (json_parse(text, size, &item, &err) < 0)
        return;
    if (item_complete(item, "items[0]", &problem) < 0) {
        if (!problem.status)
            abort();
    } else if (!json_is_string(json_object_get(item, "id")) ||
               item_complete(item, "items[0]", &problem) < 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= sizeof(struct keep_head) + KEEP_MAX_TARGET)
        fuzz_packet(data, size);
    fuzz_target((const char *)data, size);
    fuzz_item((const char *)data, size);
    return 0;
}
