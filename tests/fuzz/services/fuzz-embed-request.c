/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the body of a request for vectors, a ranking or similarities. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json.h"
#include "embed/embed-params.h"
#include "embed/inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TEXTS = 16 };

/* Checks that a rejected request has an error, and that an accepted request is within limits and
 * names its model. */
static void check(int r, struct inputs *inputs, const struct problem *problem)
{
    if (r < 0 && (!problem->status || !problem->code || !problem->message[0]))
        abort();
    for (size_t i = 0; r == 0 && i < inputs->n; i++) {
        char name[INPUTS_NAME];

        inputs_name(inputs, i, name);
        if (!name[0] || (!inputs->items[i].text && !json_array_size(inputs->items[i].tokens)))
            abort();
    }
    if (inputs->n > MAX_TEXTS)
        abort();
    inputs_done(inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const readers[])(struct params *, json_t *, struct problem *) = {
        params_read_model,     params_read_cut,        params_read_prompt,
        params_read_normalize, params_read_dimensions, params_read_task,
    };
    _cleanup_json_ json_t *body = NULL;
    struct inputs inputs = {0};
    struct params params = {0};
    struct problem problem = {0};
    struct inf_err err;

    if (json_parse((const char *)data, size, &body, &err) < 0 || !json_is_object(body))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
        problem = (struct problem){0};
        if (readers[i](&params, body, &problem) < 0 && !problem.status)
            abort();
    }
    problem = (struct problem){0};
    check(inputs_read(&inputs, json_object_get(body, "input"), "input", MAX_TEXTS, &problem),
          &inputs, &problem);
    problem = (struct problem){0};
    check(inputs_read_texts(&inputs, json_object_get(body, "texts"), "texts", MAX_TEXTS, true,
                            &problem),
          &inputs, &problem);
    problem = (struct problem){0};
    check(inputs_read_documents(&inputs, json_object_get(body, "documents"), "documents", MAX_TEXTS,
                                &problem),
          &inputs, &problem);
    return 0;
}
