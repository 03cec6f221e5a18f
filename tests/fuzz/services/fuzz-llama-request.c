/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as the body of a request of llama-server's API. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/api/llama.h"
#include "chat/api/tokenize.h"
#include "common/wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a copy of the body, because a function may change it. */
static void fuzz_read(const json_t *body,
                      int (*read)(struct generation *g, struct problem *problem))
{
    struct llama_own own = {};
    struct generation g = {.own = &own, .body = json_deep_copy(body)};
    struct problem problem = {};

    if (!g.body)
        abort();
    params_init(&g.params);
    if (read(&g, &problem) < 0 && !problem.status)
        abort();
    json_decref(own.fields);
    json_decref(own.stop);
    json_decref(own.grammar);
    conversation_done(&g.conversation);
    params_done(&g.params);
    json_decref(g.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_json_ json_t *body = NULL;
    struct inf_err err;

    if (json_parse((const char *)data, size, &body, &err) < 0 || !json_is_object(body))
        return 0;
    fuzz_read(body, llama_completion_read);
    fuzz_read(body, llama_infill_read);
    fuzz_read(body, tokenize_read);
    fuzz_read(body, detokenize_read);
    fuzz_read(body, apply_template_read);
    return 0;
}
