/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the inputs of the keep service: as a packet, as the target of a packet, as an
 * item, and as the bodies of requests. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json.h"
#include "common/wire/keep-protocol.h"
#include "keep/items.h"
#include "keep/keep.h"

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

/* Sends a request to the service, and checks that the answer is JSON. Returns the status. */
static int fuzz_request(struct keep *keep, int64_t now, const char *path, const char *text,
                        size_t size)
{
    struct keep_request r = {
        .keep = keep,
        .method = "POST",
        .tenant = "me",
        .path = {path, strlen(path)},
        .body = {text, size},
        .now = now,
    };
    const int status = keep_answer(&r);
    _cleanup_json_ json_t *answer = NULL;
    struct inf_err err;

    if (status < 200 || status > 599 || json_parse(r.out.data, r.out.len, &answer, &err) < 0)
        abort();
    str_done(&r.out);
    return status;
}

/* Stores two responses and a conversation at the time @now. All older entries expire. */
static void fuzz_fill(struct keep *keep, int64_t now)
{
    static const char first[] =
        "{\"response\":{\"id\":\"resp_1\",\"output\":[{\"id\":\"msg_1\",\"type\":\"message\","
        "\"role\":\"assistant\",\"content\":\"a\"}]},"
        "\"input\":[{\"role\":\"user\",\"content\":\"b\"}]}";
    static const char second[] =
        "{\"response\":{\"id\":\"resp_2\",\"output\":[],\"previous_response_id\":\"resp_1\"},"
        "\"input\":[]}";
    int64_t key;

    if (archive_begin(keep->archive, now) < 0 ||
        archive_add(keep->archive, "me", ARCHIVE_CONVERSATION, "conv_1", NULL, (struct str){},
                    &key) != 0 ||
        archive_commit(keep->archive) < 0)
        abort();
    if (fuzz_request(keep, now, "/keep/save", first, sizeof(first) - 1) != 200 ||
        fuzz_request(keep, now, "/keep/save", second, sizeof(second) - 1) != 200)
        abort();
}

/* Sends @text as the body of each request that has one. */
static void fuzz_bodies(const char *text, size_t size)
{
    static const char *const paths[] = {
        "/keep/load",
        "/keep/save",
        "/keep/load",
        "/v1/conversations",
        "/v1/conversations/conv_1",
        "/v1/conversations/conv_1/items",
    };
    const struct archive_limits limits = {
        .expiry_sec = 60, .max_bytes = 4096, .max_total_bytes = 4096};
    static struct keep keep;
    static int64_t now;
    _cleanup_json_ json_t *body = NULL;
    struct inf_err err;

    if (!keep.archive &&
        (loop_new(&keep.loop) < 0 || archive_open(NULL, &limits, &keep.archive, &err) < 0))
        abort();
    now += 2 * limits.expiry_sec;
    if (json_parse(text, size, &body, &err) < 0) {
        fuzz_request(&keep, now, paths[0], text, size);
        return;
    }
    fuzz_fill(&keep, now);
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        fuzz_request(&keep, now, paths[i], text, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= sizeof(struct keep_head) + KEEP_MAX_TARGET)
        fuzz_packet(data, size);
    fuzz_target((const char *)data, size);
    fuzz_item((const char *)data, size);
    fuzz_bodies((const char *)data, size);
    return 0;
}
