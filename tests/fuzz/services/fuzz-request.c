/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses any bytes as a request from the network: as a head, as a query, and as the JSON body of a
 * request for a chat answer or a completion. The body is everything after the head, or all bytes if
 * they do not begin with a whole head.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chat/api/openai-body.h"
#include "chat/described-tools.h"
#include "common/http/head.h"
#include "common/http/query.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define MAX_HEADER 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_body(const char *data, size_t len)
{
    _cleanup_json_ json_t *body = NULL;
    struct problem problem = {};
    struct conversation conversation = {};
    struct params params;
    struct inf_err err;

    if (json_parse(data, len, &body, &err) < 0 || !json_is_object(body))
        return;
    if (fields_known(body, "", openai_params_names, &problem) < 0)
        problem.status = 0;
    if (openai_params_read(&params, body, &problem) < 0 && !problem.status)
        abort();
    params_done(&params);
    if (openai_params_read_wide(&params, body, &problem) < 0 && !problem.status)
        abort();
    if (openai_tools_read(body, &params.tools, &conversation, &problem) == 0 &&
        conversation.tools) {
        json_t *tools = tools_for_template(conversation.tools);

        json_decref(tools);
    }
    openai_constraint_read(body, &params.constraint, &problem);
    openai_reasoning_read(body, &params.reasoning, &problem);
    if (openai_conversation_read(body, &conversation, &problem) == 0) {
        _cleanup_str_ struct str text = {};

        if (conversation_put_messages(&conversation, "reasoning_content", &text) < 0 ||
            tools_rewrite_calls(&conversation) < 0 || tools_describe(&conversation, true) < 0)
            abort();
    }
    params_done(&params);
    conversation_done(&conversation);
}

static void fuzz_query(const char *data, size_t len)
{
    char *value = query_find((struct http_text){data, len}, "model");

    if (value && strlen(value) >= len)
        abort();
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head;
    char *copy = malloc(size + 1);
    int whole, piece = HEAD_INCOMPLETE;

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    whole = head_check(copy, size, MAX_HEADER, &head);
    /* Checks that the result does not depend on how the bytes are cut. */
    for (size_t n = 0; n <= size && piece == HEAD_INCOMPLETE; n++)
        piece = head_check(copy, n, MAX_HEADER, &head);
    if (piece != whole)
        abort();
    if (whole == 0 && head.size > size)
        abort();
    fuzz_query(copy, size);
    if (whole == 0)
        fuzz_body(copy + head.size, size - head.size);
    else
        fuzz_body(copy, size);
    free(copy);
    return 0;
}
