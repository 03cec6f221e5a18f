/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the body of a request for a response. If the body is refused, the problem
 * must have a status. If it is accepted, writing its messages as JSON must succeed. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/api/responses-body.h"
#include "common/wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_json_ json_t *json = NULL;
    _cleanup_str_ struct str text = {};
    struct conversation conversation = {};
    struct responses_body body;
    struct problem problem = {};
    struct params params = {};
    struct inf_err err;

    if (json_parse((const char *)data, size, &json, &err) < 0 || !json_is_object(json))
        return 0;
    params_init(&params);
    if (responses_body_read(json, &body, &params, &conversation, &problem) < 0) {
        if (!problem.status)
            abort();
    } else {
        if (conversation_put_messages(&conversation, "reasoning_content", &text) < 0)
            abort();
        /* Reads the items of the body again, now as items that the request continues. */
        if (responses_items_read(&body, body.input, json, &conversation, &problem) < 0 &&
            !problem.status)
            abort();
    }
    responses_body_done(&body);
    params_done(&params);
    conversation_done(&conversation);
    return 0;
}
