/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as a body of Anthropic's Messages API. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/api/anthropic-body.h"
#include "common/wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(json_t *body, bool canonical)
{
    const struct anthropic_rules rules = {.counts = canonical, .drops_countdown = canonical};
    struct problem problem = {0};
    struct conversation conversation = {0};
    struct anthropic_wishes wishes = {0};
    _cleanup_str_ struct str text = {0};
    struct params params = {0};

    if (anthropic_body_read(body, &rules, &params, &conversation, &wishes, &problem) < 0) {
        if (!problem.status || !problem.code || !problem.message[0])
            abort();
    } else if (conversation_put_messages(&conversation, "reasoning", &text) < 0) {
        abort();
    }
    params_done(&params);
    conversation_done(&conversation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_json_ json_t *body = NULL;
    struct inf_err err;

    if (json_parse((const char *)data, size, &body, &err) < 0 || !json_is_object(body))
        return 0;
    check(body, false);
    check(body, true);
    return 0;
}
