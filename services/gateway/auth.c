/* SPDX-License-Identifier: Apache-2.0 */
/* Keys come as `Authorization: Bearer KEY` (OpenAI) or `x-api-key: KEY` (Anthropic). */
#include <string.h>
#include <strings.h>

#include "common/config.h"
#include "gateway/gateway.h"

static bool auth_find_key(const struct http_request *request, struct http_text *ret_key)
{
    static const char scheme[] = "Bearer ";
    struct http_text value;

    if (http_request_header(request, "authorization", &value) && value.len > sizeof(scheme) - 1 &&
        strncasecmp(value.data, scheme, sizeof(scheme) - 1) == 0) {
        ret_key->data = value.data + sizeof(scheme) - 1;
        ret_key->len = value.len - (sizeof(scheme) - 1);
        return true;
    }
    return http_request_header(request, "x-api-key", ret_key);
}

/* The time depends on the length of what was given alone. */
static bool auth_equal(struct http_text given, const char *key)
{
    const size_t len = strlen(key);
    unsigned diff = given.len != len;

    for (size_t i = 0; i < given.len; i++)
        diff |= (unsigned char)given.data[i] ^ (unsigned char)key[len ? i % len : 0];
    return diff == 0;
}

bool gw_auth_passes(const struct config *config, const struct http_request *request)
{
    struct http_text given;
    bool passes = false;

    if (!config->gateway.n_api_keys)
        return true;
    if (!auth_find_key(request, &given))
        return false;
    for (size_t i = 0; i < config->gateway.n_api_keys; i++)
        passes |= auth_equal(given, config->gateway.api_keys[i]);
    return passes;
}
