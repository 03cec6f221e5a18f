/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles cross-origin requests (CORS, in the Fetch standard) from the configured origins.
 *
 * Without configured origins, no CORS header is sent, and browsers do not let scripts of other
 * sites read answers.
 */
#include <string.h>

#include "common/config/config.h"
#include "gateway/gateway.h"

static bool cors_allows(const struct config *config, struct http_text origin, bool *ret_any)
{
    for (size_t i = 0; i < config->gateway.n_cors_origins; i++) {
        *ret_any = strcmp(config->gateway.cors_origins[i], "*") == 0;
        if (*ret_any || http_text_is(origin, config->gateway.cors_origins[i]))
            return true;
    }
    return false;
}

/* Returns whether @host is "localhost" or an address, with or without a port. Other names are not
 * accepted, because the owner of a domain can make its name resolve to the gateway's address after
 * a page was loaded (DNS rebinding). */
static bool cors_is_address(struct http_text host)
{
    static const char local[] = "localhost", digits[] = "0123456789.";
    const char *colon = memchr(host.data, ':', host.len);
    const struct http_text name = {host.data, colon ? (size_t)(colon - host.data) : host.len};

    if (host.len && host.data[0] == '[')
        return true;
    for (size_t i = 0; i < name.len; i++)
        if (!memchr(digits, name.data[i], sizeof(digits) - 1))
            return http_text_is_nocase(name, local);
    return name.len > 0;
}

/* Returns whether the gateway itself sent the page whose origin is @origin: the page comes from the
 * address and port to which it sends its request. */
static bool cors_is_own(const struct config *config, const struct http_request *request,
                        struct http_text origin)
{
    static const char scheme[] = "http://";
    const size_t n = sizeof(scheme) - 1;
    struct http_text host;

    return config->gateway.page && http_request_header(request, "host", &host) &&
           origin.len == n + host.len && memcmp(origin.data, scheme, n) == 0 &&
           memcmp(origin.data + n, host.data, host.len) == 0 && cors_is_address(host);
}

bool gw_cors_is_foreign(const struct config *config, const struct http_request *request)
{
    struct http_text origin;
    bool any;

    return http_request_header(request, "origin", &origin) && !cors_allows(config, origin, &any) &&
           !cors_is_own(config, request, origin);
}

static void cors_header(struct http_request *request, const char *name, const char *value)
{
    http_response_header(request, name, value, strlen(value));
}

bool gw_cors_handle(const struct config *config, struct http_request *request)
{
    struct http_text origin, method;
    bool any = false;

    if (!http_request_header(request, "origin", &origin) || !cors_allows(config, origin, &any))
        return false;
    if (any) {
        cors_header(request, "access-control-allow-origin", "*");
    } else {
        http_response_header(request, "access-control-allow-origin", origin.data, origin.len);
        cors_header(request, "vary", "Origin");
    }
    if (!http_text_is(http_request_method(request), "OPTIONS") ||
        !http_request_header(request, "access-control-request-method", &method)) {
        cors_header(request, "access-control-expose-headers",
                    "x-request-id, request-id, x-session-id, retry-after");
        return false;
    }
    cors_header(request, "access-control-allow-methods", "GET, HEAD, POST, DELETE, OPTIONS");
    cors_header(request, "access-control-allow-headers",
                "authorization, content-type, x-api-key, x-request-id, x-session-id, "
                "openai-organization, "
                "openai-project, openai-beta, anthropic-version, anthropic-beta, "
                "anthropic-dangerous-direct-browser-access, x-stainless-arch, x-stainless-async, "
                "x-stainless-lang, x-stainless-os, x-stainless-package-version, "
                "x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, "
                "x-stainless-timeout, x-stainless-helper-method");
    cors_header(request, "access-control-max-age", "600");
    http_respond(request, 204, NULL, NULL, 0);
    return true;
}
