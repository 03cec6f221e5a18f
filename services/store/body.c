/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the bodies of requests that change the store (see store-service.h). */
#include <errno.h>
#include <string.h>

#include "common/http/problem.h"
#include "common/models/safe-path.h"
#include "common/wire/fields.h"
#include "store/store-service.h"

int store_read_body(struct http_request *request, json_t **ret_body, struct problem *reterr_problem)
{
    const struct http_text body = http_request_body(request);

    return fields_parse(body.data, body.len, ret_body, reterr_problem);
}

int store_read_name(json_t *body, const char *name, const char *other, const char **ret,
                    struct problem *reterr_problem)
{
    const char *text = NULL;
    int r = field_text(body, name, &text, reterr_problem);

    if (r == 0 && other)
        r = field_text(body, other, &text, reterr_problem);
    if (r < 0)
        return r;
    if (!text || !text[0])
        return problem_set(reterr_problem, 400, "missing_field", name,
                           "The request needs '%s', the name of a model.", name);
    *ret = text;
    return 0;
}

int store_check_name(const char *name, const char *param, struct problem *reterr_problem)
{
    return strlen(name) < STORE_NAME_SIZE && model_name_is_safe(name)
               ? 0
               : problem_set(
                     reterr_problem, 400, "invalid_model", param,
                     "'%.100s' cannot be a name: a name is one word, or two words with a slash "
                     "between them, and no word begins with a dot.",
                     name);
}
