/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses any bytes as an answer of a model. The first byte selects the format of the calls. The
 * second byte selects the markers of thinking, and how the answer ends. The pieces must not depend
 * on how the bytes are cut.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../unit/services/reply-log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_formats(void)
{
    size_t n = 0;

    while (reply_format_at(n))
        n++;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const thoughts[] = {NULL, "<think>", "[THINK]", "<channel|>"};
    _cleanup_str_ struct str whole = {}, bytes = {}, parts = {};
    struct reply reply;
    const char *text;
    bool is_cut;

    if (size < 2 || size > PARSER_MAX_HEAD)
        return 0;
    reply = reply_of(reply_format_at(data[0] % n_formats())->name, thoughts[data[1] & 3], true);
    reply.is_open = reply.thinking && (data[1] & 4);
    reply.single = data[1] & 8;
    is_cut = data[1] & 16;
    text = (const char *)data + 2;
    size -= 2;
    reply_log_parse(&reply, text, size, size, 0, is_cut, &whole);
    reply_log_parse(&reply, text, size, 1, 1, is_cut, &bytes);
    reply_log_parse(&reply, text, size, 3, 7, is_cut, &parts);
    if (whole.len != bytes.len || whole.len != parts.len ||
        (whole.len && (memcmp(whole.data, bytes.data, whole.len) != 0 ||
                       memcmp(whole.data, parts.data, whole.len) != 0)))
        abort();
    reply_done(&reply);
    return 0;
}
