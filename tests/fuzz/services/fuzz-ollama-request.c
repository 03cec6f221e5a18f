/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as the body of a request of Ollama's API. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/api/ollama-body.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_conversation(json_t *body)
{
    struct params params;
    struct conversation conversation = {};
    struct problem problem = {};

    params_init(&params);
    if (ollama_conversation_read(body, &params.tools, &conversation, &problem) == 0) {
        _cleanup_str_ struct str text = {};

        if (conversation_put_messages(&conversation, "thinking", &text) < 0)
            abort();
    } else if (!problem.status) {
        abort();
    }
    conversation_done(&conversation);
    params_done(&params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const more[] = {"messages", "tools", "prompt", NULL};
    _cleanup_json_ json_t *body = NULL, *options = NULL;
    struct problem problem = {};
    struct params params;
    struct inf_err err;
    uint64_t keep;

    if (json_parse((const char *)data, size, &body, &err) < 0 || !json_is_object(body))
        return 0;
    if (ollama_params_read(&params, body, more, &problem) < 0 && !problem.status)
        abort();
    params_done(&params);
    ollama_open_options(body, &options, &problem);
    ollama_read_keep_alive(body, &keep, &problem);
    fuzz_conversation(body);
    return 0;
}
