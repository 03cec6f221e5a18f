/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as the body of POST /api/create. */
#include <stdint.h>
#include <stdlib.h>

#include "common/http/problem.h"
#include "common/models/safe-path.h"
#include "common/wire/fields.h"
#include "store/creation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store_creation *creation;
    struct problem problem = {};
    json_t *body;

    if (fields_parse((const char *)data, size, &body, &problem) < 0)
        return 0;
    if (creation_new(body, &creation, &problem) < 0) {
        if (!problem.status)
            abort();
        json_decref(body);
        return 0;
    }
    if (!model_name_is_safe(creation_name(creation)))
        abort();
    creation_free(creation);
    return 0;
}
